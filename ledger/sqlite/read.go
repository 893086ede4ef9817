package sqlite

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

// The two ways to a record: any intent, and an unsettled one by its small row. The latter joins no result, by a key
// that none has: a bare ON 0 would walk the table.
const (
	fromAny  = ` FROM intent i LEFT JOIN open o ON o.seq = i.seq LEFT JOIN result r ON r.seq = i.seq AND o.seq IS NULL `
	fromOpen = ` FROM open o CROSS JOIN intent i ON i.seq = o.seq LEFT JOIN result r ON r.seq = 0 `
)

var selectRecord = `SELECT ` + qualified("i", intentColumns) + `, ` + qualified("o", statusColumns) + `, ` +
	qualified("r", statusColumns) + `, ` + qualified("r", resultColumns)

func qualified(table, list string) string {
	names := strings.Split(list, ",")
	for i, n := range names {
		names[i] = table + "." + strings.TrimSpace(n)
	}
	return strings.Join(names, ", ")
}

// columnReader reads columns in order; NULL is the zero value.
type columnReader struct {
	st *sqlite3.Stmt
	n  int
}

func (c *columnReader) text() string { c.n++; return c.st.ColumnText(c.n - 1) }
func (c *columnReader) int() int64   { c.n++; return c.st.ColumnInt64(c.n - 1) }
func (c *columnReader) bool() bool   { return c.int() != 0 }
func (c *columnReader) time() time.Time {
	return stored.FromMicros(c.int())
}

func scanRecord(st *sqlite3.Stmt) (*ledger.Record, error) {
	rec := &ledger.Record{}
	c := &columnReader{st: st}
	scanIntent(c, &rec.Intent)
	inOpen := c.n
	inResult := inOpen + columns(statusColumns)
	if st.ColumnType(inOpen) != sqlite3.NULL {
		scanStatus(c, &rec.Status)
		return rec, nil
	}
	c.n = inResult
	if st.ColumnType(inResult) == sqlite3.NULL {
		return nil, fmt.Errorf("intent %s has neither an open nor a result row; run `holdfast store verify`", rec.ID)
	}
	scanStatus(c, &rec.Status)
	rec.SettledAt = c.time()
	rec.ClaimUntil = c.time()
	if st.ColumnType(c.n) == sqlite3.NULL {
		return rec, nil
	}
	a := &ledger.Answer{HTTPStatus: int(c.int())}
	if h := c.text(); h != "" {
		if err := json.Unmarshal([]byte(h), &a.Header); err != nil {
			return nil, fmt.Errorf("intent %s: stored header is damaged: %w", rec.ID, err)
		}
	}
	a.Source, a.Events, a.HasBody = c.text(), int(c.int()), c.bool()
	rec.Answer = a
	return rec, nil
}

func scanIntent(c *columnReader, i *ledger.Intent) {
	i.ID = c.text()
	i.CreatedAt = c.time()
	i.Tenant, i.Workflow, i.Key = c.text(), c.text(), c.text()
	i.JobID, i.OwnerKey = c.text(), c.text()
	i.Effect = ledger.Effect(c.int())
	i.Hold, i.Explicit = c.bool(), c.bool()
	c.n++ // claimed
	copy(i.Fingerprint[:], c.st.ColumnRawBlob(c.n))
	c.n++
	i.Method, i.Path, i.Provider, i.Endpoint = c.text(), c.text(), c.text(), c.text()
	i.RequestedModel, i.Stream, i.Priority = c.text(), c.bool(), c.text()
	i.MaxAttempts, i.FallbackOK = int(c.int()), c.text()
	i.EstimatedCost = c.st.ColumnFloat(c.n)
	c.n++
	i.PolicyRevision, i.Trigger, i.ParentID, i.Callback = c.text(), c.text(), c.text(), c.text()
}

func scanStatus(c *columnReader, s *ledger.Status) {
	s.Version = c.int()
	s.State, s.Outcome = ledger.State(c.int()), ledger.Outcome(c.int())
	s.Lane = c.text()
	s.Visibility, s.Delivery = ledger.Visibility(c.int()), ledger.Delivery(c.int())
	s.Attempt, s.Crashes = int(c.int()), int(c.int())
	s.RouteKey, s.ServedModel, s.Tier = c.text(), c.text(), c.text()
	s.ReadyAt, s.ExpiresAt = c.time(), c.time()
	s.RetryAfter = time.Duration(c.int()) * time.Microsecond
	s.LeaseOwner, s.LeaseUntil = c.text(), c.time()
	s.Partial, s.BilledMaybe, s.LastError = c.bool(), int(c.int()), c.text()
	s.UsageIn, s.UsageOut = c.int(), c.int()
	s.UpdatedAt = c.time()
}

// records runs a query that selects selectRecord.
func (l *Ledger) records(ctx context.Context, query string, args ...any) ([]*ledger.Record, error) {
	var out []*ledger.Record
	err := l.read.with(ctx, func(r *reader) error {
		return r.each(query, args, func(st *sqlite3.Stmt) error {
			rec, err := scanRecord(st)
			out = append(out, rec)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (l *Ledger) record(ctx context.Context, query string, args ...any) (*ledger.Record, error) {
	recs, err := l.records(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	if len(recs) == 0 {
		return nil, ledger.ErrNotFound
	}
	return recs[0], nil
}

// Get implements ledger.Ledger.
func (l *Ledger) Get(ctx context.Context, id string) (*ledger.Record, error) {
	return l.record(ctx, selectRecord+fromAny+`WHERE i.seq = `+seqOf, byID(id)...)
}

const liveClaim = ` WHERE i.seq = (SELECT c.seq FROM claim c WHERE c.key = ?)
	AND (r.claim_until IS NULL OR r.claim_until > ?)`

// Holder implements ledger.Ledger.
func (l *Ledger) Holder(ctx context.Context, key string) (*ledger.Record, error) {
	return l.record(ctx, selectRecord+fromAny+liveClaim, stored.Digest(key), l.Now())
}

// peekHolder is the check of the mutant "check-then-set".
func (l *Ledger) peekHolder(w *ledger.Write) bool {
	rec, err := l.Holder(context.Background(), w.ClaimKey)
	if err == nil {
		w.Holder = rec.ID
	}
	return err == nil
}

// Derived implements ledger.Ledger.
func (l *Ledger) Derived(ctx context.Context, key string, limit int) ([]*ledger.Record, error) {
	return l.records(ctx, selectRecord+fromAny+`WHERE i.seq IN (SELECT d.seq FROM derived d
		WHERE d.key = ? AND d.until > ?) ORDER BY i.seq DESC LIMIT ?`, stored.Digest(key), l.Now(), limit)
}

// DerivedKeys implements ledger.KeyFilter. A part of each digest is enough where a false match costs one read.
func (l *Ledger) DerivedKeys(ctx context.Context, limit int) (func(key string) bool, error) {
	var held []uint64
	err := l.read.with(ctx, func(r *reader) error {
		return r.each(`SELECT key FROM derived WHERE until > ? LIMIT ?`, []any{l.Now(), limit + 1}, func(st *sqlite3.Stmt) error {
			held = append(held, binary.BigEndian.Uint64(st.ColumnRawBlob(0)))
			return nil
		})
	})
	if err != nil || len(held) > limit {
		return nil, err
	}
	slices.Sort(held)
	return func(key string) bool {
		_, found := slices.BinarySearch(held, binary.BigEndian.Uint64(stored.Digest(key)))
		return found
	}, nil
}

// History implements ledger.Ledger.
func (l *Ledger) History(ctx context.Context, id string) ([]ledger.Event, error) {
	var out []ledger.Event
	found := false
	err := l.read.with(ctx, func(r *reader) error {
		// One statement, so that a settling between two reads can hide nothing.
		return r.each(`SELECT 0, 0, events FROM intent WHERE seq = `+seqOf+`
			UNION ALL SELECT version, n, events FROM event WHERE seq = `+seqOf+`
			UNION ALL SELECT version, 0, events FROM result WHERE seq = `+seqOf+`
			ORDER BY 1, 2`, byID(id),
			func(st *sqlite3.Stmt) (err error) {
				found = true
				out, err = stored.DecodeEvents(out, st.ColumnRawText(2))
				return err
			})
	})
	if err == nil && !found {
		err = ledger.ErrNotFound
	}
	return out, err
}

// bodyQuery finds a body in the result or, when it was large or came beside it, in its own row, which comes last.
const bodyQuery = `SELECT ` + inlineColumns + ` FROM result WHERE seq = ` + seqOf + ` AND body_data IS NOT NULL AND ?3 = 2
	UNION ALL SELECT ` + bodyColumns + ` FROM body WHERE slot = 8 * ` + seqOf + ` + ?3`

// Body implements ledger.Ledger.
func (l *Ledger) Body(ctx context.Context, id string, kind ledger.BodyKind) (*ledger.Body, error) {
	var b *ledger.Body
	err := l.read.with(ctx, func(r *reader) error {
		return r.each(bodyQuery, byID(id, int(kind&7)), func(st *sqlite3.Stmt) (err error) {
			p := stored.Packed{Kind: kind, ContentType: st.ColumnText(0), Packed: st.ColumnBool(1), Size: st.ColumnInt(2),
				Digest: st.ColumnInt64(3)}
			if p.Data = st.ColumnRawBlob(4); !p.Packed {
				p.Data = append([]byte{}, p.Data...)
			}
			b, err = stored.Unpack(p)
			return err
		})
	})
	if err == nil && b == nil {
		err = ledger.ErrNotFound
	}
	return b, err
}
