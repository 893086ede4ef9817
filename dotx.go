package holdfast

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// MigrateOutbox creates the table holdfast_outbox in the caller's own SQLite database, where it is not there yet.
func MigrateOutbox(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS holdfast_outbox (
  id TEXT NOT NULL PRIMARY KEY,           -- UUIDv7; its order is about that of creation
  name TEXT NOT NULL,                     -- which Handler
  key TEXT NOT NULL DEFAULT '',           -- the caller's; empty: id
  workflow TEXT NOT NULL DEFAULT '',
  tenant TEXT NOT NULL DEFAULT '',
  owner TEXT NOT NULL DEFAULT '',
  arguments BLOB,                         -- JSON
  created_at TEXT NOT NULL,               -- RFC 3339
  refused TEXT                            -- why this row cannot become an operation; a person looks after it
)`)
	if err != nil {
		return fmt.Errorf("holdfast: create the table holdfast_outbox: %w", err)
	}
	return nil
}

// DoTx writes an operation into tx: when the caller's transaction commits, the operation will be done, and when it does
// not, it will not. Name says which [Handler] does it; Key may be left out, then the row is an operation of its own. An [Outbox] of
// an engine, in this process or another, hands the row over to the log once and runs it there. DoTx returns the row's id.
func DoTx(ctx context.Context, tx *sql.Tx, op Operation) (id string, err error) {
	switch err := op.check(); {
	case err != nil:
		return "", err
	case op.Name == "":
		return "", refusal(ErrInvalid, "DoTx needs a Name: that of the Handler which does the operation")
	case op.Info != nil || op.Deadline != 0:
		return "", refusal(ErrInvalid, "DoTx takes no Info and no Deadline: nothing has happened when it returns, and nobody waits")
	}
	arguments, err := json.Marshal(op.Arguments)
	if err != nil {
		e := refusal(ErrInvalid, "Arguments cannot be written as JSON")
		e.Err = err
		return "", e
	}
	now := time.Now()
	id = rowID(now)
	_, err = tx.ExecContext(ctx, `INSERT INTO holdfast_outbox (id, name, key, workflow, tenant, owner, arguments, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, id, op.Name, op.Key, op.Workflow, op.Tenant, op.Owner, arguments,
		now.UTC().Format(time.RFC3339Nano))
	if err != nil {
		return "", fmt.Errorf("holdfast: write into holdfast_outbox (MigrateOutbox creates it): %w", err)
	}
	return id, nil
}

// rowID is a UUID of version 7 (RFC 9562 §5.7).
func rowID(now time.Time) string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails (Go 1.24)
	random := binary.BigEndian.Uint64(u[:8]) & 0xfff
	binary.BigEndian.PutUint64(u[:8], uint64(now.UnixMilli())<<16|0x7000|random)
	u[8] = u[8]&0x3f | 0x80
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// outboxRow is one line of holdfast_outbox.
type outboxRow struct {
	id        string
	op        Operation
	arguments []byte
}

// operation is the row as the log sees it. Without a key of the caller's the row's id is the claim: a row that is seen
// twice is one operation.
func (r *outboxRow) operation() Operation {
	op := r.op
	if op.Key == "" {
		op.Key = rowKey(r.id)
	}
	if len(r.arguments) > 0 && string(r.arguments) != "null" {
		op.Arguments = json.RawMessage(r.arguments)
	}
	return op
}

func rowKey(id string) string { return "outbox:" + id }

// rows reads at most limit rows, oldest first, that one of the named handlers can do.
func rows(ctx context.Context, db *sql.DB, names []string, after string, limit int) (_ []outboxRow, err error) {
	args := []any{after}
	marks := ""
	for _, n := range names {
		marks += ",?"
		args = append(args, n)
	}
	q, err := db.QueryContext(ctx, `SELECT id, name, key, workflow, tenant, owner, arguments FROM holdfast_outbox
WHERE refused IS NULL AND id > ? AND name IN (`+marks[1:]+`) ORDER BY id LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	var all []outboxRow
	for q.Next() {
		var r outboxRow
		if err := q.Scan(&r.id, &r.op.Name, &r.op.Key, &r.op.Workflow, &r.op.Tenant, &r.op.Owner, &r.arguments); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, q.Err()
}
