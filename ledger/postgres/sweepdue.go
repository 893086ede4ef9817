package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

// claimKeyOf is the key that intent i claimed, or was derived under.
const claimKeyOf = `coalesce(i.claim_key, i.idempotency_key, '')`

// duty is what the sweep does with intents that are due.
type duty struct {
	kind   int16
	until  int64                // what is due by then
	column string               // of result: the exact time, NULL when there is nothing left to do
	ready  func(r dueRow) int64 // when the row may be worked on
	work   func(context.Context, pgx.Tx, []dueRow) (int64, error)
	again  bool // its bodies are due next
}

// dueRow is a settled intent that is due.
type dueRow struct {
	id        [16]byte
	key       []byte // digest of the key it claimed
	settledAt int64
	due       int64
	lane      string
	cached    int64 // until when the index over answers leads to it; 0: it does not
	inline    bool  // its answer stands in its row
}

// dueList is a row of the table due on its way through the sweep.
type dueList struct {
	at, n int64
	ids   [][16]byte
	stay  [][16]byte // those that it goes on holding
}

// dueAt is where a list belongs.
type dueAt struct {
	kind int16
	at   int64
}

// sweepClaims removes claims whose time has come, unless they were taken over, and makes their bodies due.
func sweepClaims(ctx context.Context, tx pgx.Tx, p ledger.Retention) (int64, bool, error) {
	return (&duty{
		kind: dueClaims, until: stored.Micros(p.Now), column: "claim_due", again: true,
		ready: func(r dueRow) int64 { return r.due },
		work: func(ctx context.Context, tx pgx.Tx, rows []dueRow) (int64, error) {
			n, err := dropClaims(ctx, tx, rows)
			if err == nil {
				_, err = tx.Exec(ctx, `UPDATE result SET claim_due = NULL, body_due = claim_until WHERE id = ANY($1)`, idsOf(rows))
			}
			return n, err
		},
	}).sweep(ctx, tx, p.Batch)
}

// dropClaims deletes the claims that are the rows' own, in the order in which writers take claims.
func dropClaims(ctx context.Context, tx pgx.Tx, rows []dueRow) (int64, error) {
	keys := make([][]byte, len(rows))
	for i, r := range rows {
		keys[i] = r.key
	}
	tag, err := tx.Exec(ctx, `DELETE FROM claim c USING (SELECT c.key FROM claim c JOIN unnest($1::bytea[], $2::uuid[]) AS over (key, id)
		ON c.key = over.key AND c.id = over.id ORDER BY c.key FOR UPDATE OF c) AS gone WHERE c.key = gone.key`, keys, idsOf(rows))
	return tag.RowsAffected(), err
}

// sweepBodies removes the bodies of intents whose claim ended long enough ago; those that were settled out of the dead letter are kept as long as the
// dead letter is.
func sweepBodies(ctx context.Context, tx pgx.Tx, p ledger.Retention) (int64, bool, error) {
	if p.Answers <= 0 {
		return 0, false, nil
	}
	longer := (max(p.Answers, p.DeadLetter) - p.Answers) / time.Microsecond
	return (&duty{
		kind: dueBodies, until: stored.Micros(p.Now.Add(-p.Answers)), column: "body_due",
		ready: func(r dueRow) int64 {
			ready := max(r.due, r.cached-p.Answers.Microseconds())
			if mutant.On("sweep-forgets-the-cache") {
				ready = r.due
			}
			if r.lane == laneDeadLetter {
				return max(ready, r.settledAt+int64(longer))
			}
			return ready
		},
		work: dropBodies,
	}).sweep(ctx, tx, p.Batch)
}

func dropBodies(ctx context.Context, tx pgx.Tx, rows []dueRow) (n int64, err error) {
	ids := idsOf(rows)
	if _, err := tx.Exec(ctx, `DELETE FROM cached WHERE id = ANY($1)`, ids); err != nil { // written since the rows were read
		return 0, err
	}
	tag, err := tx.Exec(ctx, `DELETE FROM body WHERE id = ANY($1)`, ids)
	if err != nil {
		return 0, err
	}
	n = tag.RowsAffected()
	for _, r := range rows {
		if r.inline {
			n++
		}
	}
	_, err = tx.Exec(ctx, `UPDATE result SET body_due = NULL, body_type = NULL, body_packed = NULL, body_size = NULL, body_digest = NULL,
		body_data = NULL WHERE id = ANY($1)`, ids)
	return n, err
}

func idsOf(rows []dueRow) [][16]byte {
	ids := make([][16]byte, len(rows))
	for i, r := range rows {
		ids[i] = r.id
	}
	return ids
}

// sweep works on a batch of what is due. more says that another call would find work.
func (d *duty) sweep(ctx context.Context, tx pgx.Tx, batch int) (n int64, more bool, err error) {
	lists, err := d.lists(ctx, tx, batch)
	if err != nil || len(lists) == 0 {
		return 0, false, err
	}
	var ready []dueRow
	next := map[dueAt][][16]byte{}
	looked, changed := 0, false
	for i := range lists {
		list := &lists[i]
		asked := min(len(list.ids), batch-looked)
		looked += asked
		found, err := d.rows(ctx, tx, list.ids[:asked])
		if err != nil {
			return 0, false, err
		}
		ready = d.sort(list, found, ready, next)
		list.stay = append(list.stay, list.ids[asked:]...)
		changed = changed || len(list.stay) < len(list.ids)
	}
	if !changed {
		return 0, false, nil // their second has begun, and they are due later in it
	}
	if len(ready) > 0 {
		if n, err = d.work(ctx, tx, ready); err != nil {
			return 0, false, err
		}
	}
	return n, looked == batch, relist(ctx, tx, d.kind, lists, next)
}

// sort tells the rows of a list that are ready, which it adds to ready, from those that stay or are due another time. An id without a row is forgotten:
// its intent was removed, or somebody was here before.
func (d *duty) sort(list *dueList, found, ready []dueRow, next map[dueAt][][16]byte) []dueRow {
	for _, r := range found {
		switch at := d.ready(r); {
		case at <= d.until:
			ready = append(ready, r)
			if d.again {
				key := dueAt{dueBodies, r.due / dueGrain * dueGrain}
				next[key] = append(next[key], r.id)
			}
		case at/dueGrain == list.at/dueGrain:
			list.stay = append(list.stay, r.id)
		default:
			key := dueAt{d.kind, at / dueGrain * dueGrain}
			next[key] = append(next[key], r.id)
		}
	}
	return ready
}

// lists reads the earliest lists that hold at least enough intents together.
func (d *duty) lists(ctx context.Context, tx pgx.Tx, enough int) ([]dueList, error) {
	rows, err := tx.Query(ctx, `SELECT at, n, ids FROM (SELECT at, n, ids, sum(cardinality(ids)) OVER (ORDER BY at, n) - cardinality(ids) AS before
		FROM (SELECT at, n, ids FROM due WHERE kind = $1 AND at <= $2 ORDER BY at, n LIMIT $3) AS first) AS counted WHERE before < $3 ORDER BY at, n`,
		d.kind, d.until, enough)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (list dueList, err error) {
		err = r.Scan(&list.at, &list.n, &list.ids)
		return list, err
	})
}

// rows reads and locks those of ids that have something left to do.
func (d *duty) rows(ctx context.Context, tx pgx.Tx, ids [][16]byte) ([]dueRow, error) {
	return dueRows(ctx, tx, `SELECT r.id, `+claimKeyOf+`, r.settled_at, r.`+d.column+`, coalesce(r.lane, ''), coalesce(`+cachedUntil+`, 0), r.body_data IS NOT NULL
		FROM result r JOIN intent i ON i.id = r.id WHERE r.id = ANY($1) AND r.`+d.column+` IS NOT NULL ORDER BY r.id FOR UPDATE OF r`, ids)
}

func dueRows(ctx context.Context, tx pgx.Tx, query string, args ...any) ([]dueRow, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(c pgx.CollectableRow) (r dueRow, err error) {
		var key string
		err = c.Scan(&r.id, &key, &r.settledAt, &r.due, &r.lane, &r.cached, &r.inline)
		r.key = stored.Digest(key)
		return r, err
	})
}

// relist writes what is left of lists, and the lists of another time.
func relist(ctx context.Context, tx pgx.Tx, kind int16, lists []dueList, next map[dueAt][][16]byte) error {
	var b pgx.Batch
	for _, list := range lists {
		if len(list.stay) == len(list.ids) {
			continue
		}
		b.Queue(`DELETE FROM due WHERE kind = $1 AND at = $2 AND n = $3`, kind, list.at, list.n)
		if len(list.stay) > 0 {
			b.Queue(`INSERT INTO due (kind, at, ids) VALUES ($1, $2, $3)`, kind, list.at, list.stay)
		}
	}
	for at, ids := range next {
		b.Queue(`INSERT INTO due (kind, at, ids) VALUES ($1, $2, $3)`, at.kind, at.at, ids)
	}
	return tx.SendBatch(ctx, &b).Close()
}
