package postgres

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

var (
	_ ledger.Ledger    = (*Ledger)(nil)
	_ ledger.KeyFilter = (*Ledger)(nil)
)

// The two ways to a record: any intent, and an unsettled one by its small row, which needs no result. One statement sees one moment, so that a
// settling beside it hides nothing.
const (
	fromAny  = ` FROM intent i LEFT JOIN open o ON o.id = i.id LEFT JOIN result r ON r.id = i.id AND o.id IS NULL `
	fromOpen = ` FROM open o JOIN intent i ON i.id = o.id LEFT JOIN result r ON false `
	// withStatus follows a FROM that has named intent i.
	withStatus = ` LEFT JOIN open o ON o.id = i.id LEFT JOIN result r ON r.id = i.id AND o.id IS NULL `
)

var selectRecord = `SELECT ` + qualified("i", intentColumns) + `, ` + qualified("o", statusColumns) + `, ` +
	qualified("r", statusColumns) + `, ` + qualified("r", resultColumns)

// binaryRows asks for every column in the format that columnReader reads.
var binaryRows = pgx.QueryResultFormats{pgx.BinaryFormatCode}

// records runs a query that selects selectRecord.
func (l *Ledger) records(ctx context.Context, query string, args ...any) (out []*ledger.Record, err error) {
	err = l.rows(ctx, func(r pgx.Rows) error {
		rec, err := scanRecord(r.RawValues())
		out = append(out, rec)
		return err
	}, query, slices.Insert(args, 0, any(binaryRows))...)
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

// Holder implements ledger.Ledger.
func (l *Ledger) Holder(ctx context.Context, key string) (*ledger.Record, error) {
	return l.record(ctx, holderQuery, stored.Digest(key), stored.Micros(l.Now()))
}

var holderQuery = selectRecord + ` FROM claim c JOIN intent i ON i.id = c.id` + withStatus +
	`WHERE c.key = $1 AND (c.until IS NULL OR c.until > $2)`

// Derived implements ledger.Ledger.
func (l *Ledger) Derived(ctx context.Context, key string, limit int) ([]*ledger.Record, error) {
	return l.records(ctx, derivedQuery, stored.Digest(key), stored.Micros(l.Now()), limit)
}

var derivedQuery = selectRecord + ` FROM derived d JOIN intent i ON i.id = d.id` + withStatus +
	`WHERE d.key = $1 AND d.until > $2 ORDER BY d.id DESC LIMIT $3`

// DerivedKeys implements ledger.KeyFilter. A part of each digest is enough where a false match costs one read.
func (l *Ledger) DerivedKeys(ctx context.Context, limit int) (func(key string) bool, error) {
	var held []uint64
	err := l.rows(ctx, func(r pgx.Rows) error {
		held = append(held, binary.BigEndian.Uint64(r.RawValues()[0]))
		return nil
	}, `SELECT key FROM derived WHERE until > $1 LIMIT $2`, binaryRows, stored.Micros(l.Now()), limit+1)
	if err != nil || len(held) > limit {
		return nil, err
	}
	slices.Sort(held)
	return func(key string) bool {
		_, found := slices.BinarySearch(held, binary.BigEndian.Uint64(stored.Digest(key)))
		return found
	}, nil
}

const historyQuery = `SELECT 0::bigint, 0::bigint, events FROM intent WHERE id = $1
	UNION ALL SELECT version, n, events FROM event WHERE id = $1
	UNION ALL SELECT version, 0, events FROM result WHERE id = $1
	ORDER BY 1, 2`

// History implements ledger.Ledger.
func (l *Ledger) History(ctx context.Context, id string) (out []ledger.Event, err error) {
	at, ok := parseID(id)
	if !ok {
		return nil, l.absent()
	}
	found := false
	err = l.rows(ctx, func(r pgx.Rows) (err error) {
		found = true
		out, err = stored.DecodeEvents(out, r.RawValues()[2])
		return err
	}, historyQuery, binaryRows, [16]byte(at))
	if err == nil && !found {
		err = ledger.ErrNotFound
	}
	return out, err
}

// absent answers for an id that no intent can have.
func (l *Ledger) absent() error {
	if l.isClosed() {
		return ledger.ErrClosed
	}
	return ledger.ErrNotFound
}

// bodyQuery finds a body in the result or, when it was large or came beside it, in its own row, which comes last.
const bodyQuery = `SELECT 1, ` + inlineColumns + ` FROM result WHERE id = $1 AND body_data IS NOT NULL AND $2::smallint = 2
	UNION ALL SELECT 2, ` + bodyColumns + ` FROM body WHERE id = $1 AND kind = $2 ORDER BY 1`

// Body implements ledger.Ledger.
func (l *Ledger) Body(ctx context.Context, id string, kind ledger.BodyKind) (b *ledger.Body, err error) {
	at, ok := parseID(id)
	if !ok {
		return nil, l.absent()
	}
	err = l.rows(ctx, func(r pgx.Rows) (err error) {
		c := columnReader{values: r.RawValues(), n: 1}
		p := c.packed()
		p.Kind = kind
		b, err = stored.Unpack(p)
		return err
	}, bodyQuery, binaryRows, [16]byte(at), int16(kind))
	if err == nil && b == nil {
		err = ledger.ErrNotFound
	}
	return b, err
}
