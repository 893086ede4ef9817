package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

const (
	sweepBatch = 500
	// sweepScan bounds the rows of derived that one Sweep looks at: it has no index by time, which would cost every call more than this costs the
	// sweep.
	sweepScan = 20_000
	// sweepWindow is how many batches of intents, oldest first by creation, are looked at to find those that were settled first: the two orders
	// differ only for what stayed unsettled long.
	sweepWindow = 4
	// sweepLock, with the schema, is the advisory lock under which one replica sweeps at a time.
	sweepLock = 0x73776570
	// ownersKept is how long an owner is remembered that says nothing any more, and has nothing in its hands.
	ownersKept = 24 * time.Hour
	// laneDeadLetter is the word of interface.md §3.
	laneDeadLetter = "dead_letter"
)

// sweepState remembers how far the scan of derived has come.
type sweepState struct {
	mu      sync.Mutex
	derived derivedAt
}

// Sweep implements ledger.Ledger. It removes expired claims and derived keys, then bodies, then whole intents, a batch of each in a transaction of its
// own, with rows of the index over answers before what they lead to; more says that another call would find work. Of several replicas one sweeps; the
// others are told that there is nothing to do.
func (l *Ledger) Sweep(ctx context.Context, p ledger.Retention) (s ledger.Swept, more bool, err error) {
	if p.Batch <= 0 {
		p.Batch = sweepBatch
	}
	l.sweep.mu.Lock()
	defer l.sweep.mu.Unlock()
	for _, step := range []struct {
		removed *int64
		run     sweepStep
	}{
		{&s.Claims, sweepClaims},
		{&s.Derived, l.sweepDerived},
		{&s.Cached, sweepCached},
		{&s.Bodies, sweepBodies},
		{&s.Intents, sweepIntents},
		{new(int64), sweepOwners},
	} {
		n, left, err := l.sweepAlone(ctx, p, step.run)
		if err != nil {
			return s, true, err
		}
		*step.removed += n
		more = more || left
	}
	return s, more, nil
}

// sweepStep removes a batch. It runs in a transaction, and may run twice.
type sweepStep func(context.Context, pgx.Tx, ledger.Retention) (n int64, more bool, err error)

// sweepAlone runs a step unless another replica is at one. The lock is the transaction's, so that nobody can leave it behind.
func (l *Ledger) sweepAlone(ctx context.Context, p ledger.Retention, step sweepStep) (n int64, more bool, err error) {
	err = l.inTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		n, more = 0, false
		var alone bool
		err = tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1::integer, hashtext(current_schema()))`, sweepLock).Scan(&alone)
		if err == nil && alone {
			n, more, err = step(ctx, tx, p)
		}
		return err
	})
	return n, more, err
}

// derivedAt is a place in the derived keys.
type derivedAt struct {
	key []byte
	id  [16]byte
}

// sweepDerived walks a stretch of the derived keys and deletes those past their window.
func (l *Ledger) sweepDerived(ctx context.Context, tx pgx.Tx, p ledger.Retention) (n int64, more bool, err error) {
	from := l.sweep.derived
	if from.key == nil {
		from.key = []byte{}
	}
	var seen int64
	var to, last derivedAt // the last that was removed, and the last that was looked at
	err = tx.QueryRow(ctx, `WITH walk AS MATERIALIZED (SELECT key, id, until FROM derived WHERE (key, id) > ($2, $3) ORDER BY key, id LIMIT $4),
		dead AS MATERIALIZED (SELECT key, id FROM walk WHERE until <= $1 ORDER BY key, id LIMIT $5),
		gone AS (DELETE FROM derived d USING dead WHERE d.key = dead.key AND d.id = dead.id RETURNING d.key)
		SELECT (SELECT count(*) FROM walk), (SELECT count(*) FROM gone),
			(SELECT key FROM dead ORDER BY key DESC, id DESC LIMIT 1), (SELECT id FROM dead ORDER BY key DESC, id DESC LIMIT 1),
			(SELECT key FROM walk ORDER BY key DESC, id DESC LIMIT 1), (SELECT id FROM walk ORDER BY key DESC, id DESC LIMIT 1)`,
		stored.Micros(p.Now), from.key, from.id, sweepScan, p.Batch).Scan(&seen, &n, &to.key, nullID{&to.id}, &last.key, nullID{&last.id})
	if err != nil {
		return 0, false, err
	}
	switch {
	case n == int64(p.Batch):
		l.sweep.derived = to
	case seen == sweepScan:
		l.sweep.derived = last
	default:
		l.sweep.derived = derivedAt{}
		return n, false, nil
	}
	return n, true, nil
}

// nullID scans an id that may not be there.
type nullID struct{ to *[16]byte }

// ScanUUID implements pgtype.UUIDScanner.
func (n nullID) ScanUUID(v pgtype.UUID) error { *n.to = v.Bytes; return nil }

// sweepCached removes a batch of rows of the index over answers whose time is over.
func sweepCached(ctx context.Context, tx pgx.Tx, p ledger.Retention) (n int64, more bool, err error) {
	tag, err := tx.Exec(ctx, `DELETE FROM cached c USING (SELECT id, kind FROM cached WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2) AS over
		WHERE c.id = over.id AND c.kind = over.kind`, stored.Micros(p.Now), p.Batch)
	return tag.RowsAffected(), tag.RowsAffected() == int64(p.Batch), err
}

// sweepOwners forgets owners that are long dead and that no lease leans on.
func sweepOwners(ctx context.Context, tx pgx.Tx, p ledger.Retention) (n int64, more bool, err error) {
	tag, err := tx.Exec(ctx, `DELETE FROM owner w WHERE until <= $1 AND NOT EXISTS (SELECT 1 FROM open o WHERE o.lease_owner = w.owner)`,
		stored.Micros(p.Now.Add(-ownersKept)))
	return tag.RowsAffected(), false, err
}
