package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

const (
	intentColumns = `id, created_at, tenant, workflow, idempotency_key, job_id, owner_key, effect, hold, explicit,
		claimed, fingerprint, method, path, provider, endpoint, requested_model, stream, priority, max_attempts,
		fallback_allowed, estimated_cost, policy_revision, cause, parent_id`
	statusColumns = `version, state, outcome, lane, visibility, delivery, attempt, crashes, route_key, served_model,
		tier, ready_at, expires_at, retry_after, lease_owner, lease_until, partial, billed_maybe, last_error_type,
		usage_in, usage_out, updated_at`
	resultColumns = `settled_at, claim_until, answer_status, answer_header, answer_source, answer_events, answer_body`
)

// columns counts a column list.
func columns(list string) int { return strings.Count(list, ",") + 1 }

func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// session is the writer's connection with its statements. One goroutine uses it.
type session struct {
	conn *sqlite3.Conn

	begin, commit, rollback                             *sqlite3.Stmt
	takeClaim, readClaim, keepClaim, dropClaim          *sqlite3.Stmt
	putIntent, putOpen, moveOpen, dropOpen, putResult   *sqlite3.Stmt
	putEvent, putBody, putDerived, forceClaim, forceOps *sqlite3.Stmt

	now time.Time // ledger time of the running batch
}

func newSession(c *sqlite3.Conn) (*session, error) {
	s := &session{conn: c}
	assign := func(columns string) string {
		return strings.ReplaceAll(columns, ",", " = ?,") + " = ?"
	}
	for _, p := range []struct {
		to  **sqlite3.Stmt
		sql string
	}{
		{&s.begin, `BEGIN IMMEDIATE`},
		{&s.commit, `COMMIT`},
		{&s.rollback, `ROLLBACK`},
		{&s.takeClaim, `INSERT INTO claim (key, intent, until) VALUES (?, ?, 0) ON CONFLICT (key) DO UPDATE
			SET intent = excluded.intent, until = 0 WHERE until <> 0 AND until <= ?`},
		{&s.readClaim, `SELECT intent FROM claim WHERE key = ?`},
		{&s.keepClaim, `UPDATE claim SET until = ? WHERE key = ? AND intent = ?`},
		{&s.dropClaim, `DELETE FROM claim WHERE key = ? AND intent = ?`},
		{&s.putIntent, `INSERT INTO intent (` + intentColumns + `, events) VALUES (` + marks(columns(intentColumns)+1) +
			`) ON CONFLICT DO NOTHING`},
		{&s.putOpen, `INSERT INTO open (intent, ` + statusColumns + `) VALUES (` + marks(columns(statusColumns)+1) + `)`},
		{&s.moveOpen, `UPDATE open SET ` + assign(statusColumns) + ` WHERE intent = ? AND version = ?`},
		{&s.dropOpen, `DELETE FROM open WHERE intent = ? AND version = ?`},
		{&s.putResult, `INSERT INTO result (intent, ` + statusColumns + `, ` + resultColumns + `, keep_from, events) VALUES (` +
			marks(columns(statusColumns)+columns(resultColumns)+3) + `)`},
		{&s.putEvent, `INSERT INTO event (intent, n, events) VALUES (?, ?, ?)`},
		{&s.putBody, `INSERT OR REPLACE INTO body (intent, kind, content_type, packed, size, data) VALUES (?, ?, ?, ?, ?, ?)`},
		{&s.putDerived, `INSERT OR REPLACE INTO derived (derived_key, intent, until) VALUES (?, ?, ?)`},
		{&s.forceClaim, `INSERT OR REPLACE INTO claim (key, intent, until) VALUES (?, ?, 0)`},
		{&s.forceOps, `DELETE FROM open WHERE intent = ?`},
	} {
		st, _, err := c.PrepareFlags(p.sql, sqlite3.PREPARE_PERSISTENT)
		if err != nil {
			return nil, fmt.Errorf("sqlite: preparing %q: %w", p.sql, err)
		}
		*p.to = st
	}
	return s, nil
}

func (s *session) close() error {
	return errors.Join(s.closeStatements(), s.conn.Close())
}

func (s *session) closeStatements() error {
	for _, st := range slices.Collect(s.conn.Stmts()) {
		_ = st.Close() // repeats the error of the statement's last run
	}
	return nil
}

// errRefused marks a write that must leave nothing behind although some of it was applied already: the
// transaction is undone and the batch runs again without it.
var errRefused = errors.New("sqlite: write refused after a part of it was applied")

// apply runs one item inside the transaction. The check of a write comes first and, when it fails, alone, so
// that a refusal needs no savepoint; it is left in it.refused.
func (s *session) apply(it *item) error {
	it.refused = nil
	switch {
	case it.fn != nil:
		return it.fn(s)
	case it.w.Insert != nil:
		return s.insert(it)
	default:
		return s.change(it)
	}
}

func (s *session) insert(it *item) error {
	w := it.w
	if w.ClaimKey != "" {
		if ok, err := s.claim(it); err != nil || !ok {
			return err
		}
	}
	if err := s.insertHead(it); err != nil {
		return err
	}
	if s.conn.Changes() == 0 {
		// The id exists: the same write was queued before and was durable after all.
		it.refused = ledger.ErrStale
		if w.ClaimKey != "" {
			return errRefused
		}
		return nil
	}
	if w.DerivedKey != "" {
		if err := run(s.putDerived, w.DerivedKey, w.Insert.ID, micros(w.DerivedUntil)); err != nil {
			return err
		}
	}
	if w.Settle {
		return s.settle(it, w.Insert.ID, nil)
	}
	b := binder{st: s.putOpen}
	b.text(w.Insert.ID)
	b.status(&w.Status)
	if err := b.exec(); err != nil {
		return err
	}
	return s.bodies(it, w.Insert.ID)
}

// claim takes w.ClaimKey unless a live claim holds it.
func (s *session) claim(it *item) (bool, error) {
	w := it.w
	if mutant.On("check-then-set") {
		return true, run(s.forceClaim, w.ClaimKey, w.Insert.ID)
	}
	if err := run(s.takeClaim, w.ClaimKey, w.Insert.ID, micros(s.now)); err != nil {
		return false, err
	}
	if s.conn.Changes() > 0 {
		return true, nil
	}
	defer s.readClaim.Reset()
	if err := s.readClaim.BindText(1, w.ClaimKey); err != nil {
		return false, err
	}
	if s.readClaim.Step() {
		it.refused, w.Holder = ledger.ErrClaimed, s.readClaim.ColumnText(0)
	}
	return false, s.readClaim.Err()
}

func (s *session) insertHead(it *item) error {
	b, i := binder{st: s.putIntent}, it.w.Insert
	b.text(i.ID)
	b.int(micros(i.CreatedAt))
	if i.CreatedAt.IsZero() {
		b.must(s.putIntent.BindInt64(b.n, 0))
	}
	b.text(i.Tenant)
	b.text(i.Workflow)
	b.text(i.Key)
	b.text(i.JobID)
	b.text(i.OwnerKey)
	b.int(int64(i.Effect))
	b.bool(i.Hold)
	b.bool(i.Explicit)
	if it.w.ClaimKey == i.Key {
		b.bool(i.Key != "")
	} else {
		b.text(it.w.ClaimKey)
	}
	b.n++
	if i.Fingerprint != [32]byte{} {
		b.must(s.putIntent.BindBlob(b.n, i.Fingerprint[:]))
	}
	b.text(i.Method)
	b.text(i.Path)
	b.text(i.Provider)
	b.text(i.Endpoint)
	b.text(i.RequestedModel)
	b.bool(i.Stream)
	b.text(i.Priority)
	b.int(int64(i.MaxAttempts))
	b.text(i.FallbackOK)
	b.n++
	if i.EstimatedCost != 0 {
		b.must(s.putIntent.BindFloat(b.n, i.EstimatedCost))
	}
	b.text(i.PolicyRevision)
	b.text(i.Trigger)
	b.text(i.ParentID)
	b.raw(it.events)
	return b.exec()
}

func (s *session) change(it *item) error {
	w := it.w
	if mutant.On("stale-write") {
		return s.changeAnyway(it)
	}
	if w.Settle {
		if err := run(s.dropOpen, w.ID, w.Version); err != nil {
			return err
		}
	} else {
		b := binder{st: s.moveOpen}
		b.status(&w.Status)
		b.text(w.ID)
		b.int(w.Version)
		if err := b.exec(); err != nil {
			return err
		}
	}
	if s.conn.Changes() == 0 {
		it.refused = ledger.ErrStale
		return nil
	}
	return s.changed(it)
}

// changed applies what follows a compare-and-set that succeeded.
func (s *session) changed(it *item) error {
	w := it.w
	if w.Settle {
		return s.settle(it, w.ID, it.events)
	}
	if it.events != nil {
		b := binder{st: s.putEvent}
		b.text(w.ID)
		b.int(w.Status.Version)
		b.raw(it.events)
		if err := b.exec(); err != nil {
			return err
		}
	}
	return s.bodies(it, w.ID)
}

// changeAnyway is the mutant "stale-write": a change that ignores the version.
func (s *session) changeAnyway(it *item) error {
	if err := run(s.forceOps, it.w.ID); err != nil {
		return err
	}
	if !it.w.Settle {
		b := binder{st: s.putOpen}
		b.text(it.w.ID)
		b.status(&it.w.Status)
		if err := b.exec(); err != nil {
			return err
		}
	}
	return s.changed(it)
}

// settle writes the end of an intent whose open row is gone.
func (s *session) settle(it *item, id string, events []byte) error {
	w := it.w
	at := w.Status.UpdatedAt
	if at.IsZero() {
		at = s.now
	}
	key, until, from := w.HeldKey, int64(0), micros(at)
	if key == "" {
		key = w.ClaimKey
	}
	if key != "" && w.Claim == ledger.ClaimKeep && !w.ClaimUntil.IsZero() {
		until = micros(w.ClaimUntil)
		from = max(from, until)
		if err := run(s.keepClaim, until, key, id); err != nil {
			return err
		}
	} else if key != "" {
		if err := run(s.dropClaim, key, id); err != nil {
			return err
		}
	}
	b := binder{st: s.putResult}
	b.text(id)
	b.status(&w.Status)
	b.int(micros(at))
	b.int(until)
	b.answer(w.Answer, it.header)
	b.int(from)
	b.raw(events)
	if err := b.exec(); err != nil {
		return err
	}
	return s.bodies(it, id)
}

func (s *session) bodies(it *item, id string) error {
	for i := range it.bodies {
		p, b := &it.bodies[i], binder{st: s.putBody}
		b.text(id)
		b.int(int64(p.kind))
		b.text(p.contentType)
		b.bool(p.packed)
		b.int(int64(p.size))
		b.n++
		b.must(s.putBody.BindBlob(b.n, p.data))
		if err := b.exec(); err != nil {
			return err
		}
	}
	return nil
}
