package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

var drawn atomic.Uint64

func newID(now time.Time) string {
	var id uuid
	_, _ = rand.Read(id[8:]) // it never fails
	v := uint64(now.UnixMilli())<<12 | drawn.Add(1)&0xfff
	binary.BigEndian.PutUint64(id[:8], v>>12<<16|0x7000|v&0xfff)
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

func newIntent(l *Ledger, key string) *ledger.Write {
	now := l.Now()
	return &ledger.Write{
		Insert: &ledger.Intent{ID: newID(now), Tenant: "main", Workflow: "chat", Effect: ledger.EffectExternal, Key: key, Method: "POST",
			Path: "/v1/chat/completions", Provider: "openai", Endpoint: "chat.completions", RequestedModel: "gpt-5", MaxAttempts: 3, CreatedAt: now},
		ClaimKey: key,
		Status: ledger.Status{Version: 1, State: ledger.Dispatched, Outcome: ledger.OutcomePending, Visibility: ledger.VisBefore, Attempt: 1,
			RouteKey: "openai/gpt-5", LeaseOwner: "bench", UpdatedAt: now},
		Events: []ledger.Event{{At: now, Kind: "transition", To: ledger.Dispatched, Actor: "gateway"},
			{At: now, Kind: "attempt", Attempt: 1, Route: "openai/gpt-5", Tier: "pro"}},
	}
}

func settling(l *Ledger, w *ledger.Write, body []byte) *ledger.Write {
	n := &ledger.Write{ID: w.Insert.ID, Version: 1, Status: w.Status, HeldKey: w.ClaimKey, Settle: true, Claim: ledger.ClaimKeep,
		ClaimUntil: l.Now().Add(24 * time.Hour), Answer: &ledger.Answer{HTTPStatus: 200, HasBody: true, Source: "pro"},
		Bodies: []ledger.Body{{Kind: ledger.BodyAnswer, ContentType: "application/json", Data: body}},
		Events: []ledger.Event{{At: l.Now(), Kind: "attempt_end", Attempt: 1, End: ledger.AttemptSuccess, Status: 200}}}
	n.Status.Version, n.Status.State, n.Status.Outcome, n.Status.LeaseOwner = 2, ledger.Settled, ledger.OutcomeSuccess, ""
	n.Status.UpdatedAt = l.Now()
	return n
}

// callers runs b.N calls of do by some callers at once.
func callers(b *testing.B, n int, do func(i int) error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range n {
		wg.Go(func() {
			for {
				i := int(next.Add(1))
				if i > b.N {
					return
				}
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "per_s")
}

func commit(l *Ledger, w *ledger.Write) error {
	<-l.Enqueue(w)
	return w.Err
}

var crowds = []int{1, 16, 64, 256}

// BenchmarkClaim is the first commit of a call: a claim, the head and the status of an intent.
func BenchmarkClaim(b *testing.B) {
	for _, n := range crowds {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := open(b, Config{URL: emptyStore(b)})
			defer l.Close()
			callers(b, n, func(i int) error { return commit(l, newIntent(l, fmt.Sprintf("key-%d", i))) })
		})
	}
}

// BenchmarkIntent is a whole direct call: two commits.
func BenchmarkIntent(b *testing.B) {
	body := make([]byte, 650)
	for _, n := range crowds {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := open(b, Config{URL: emptyStore(b)})
			defer l.Close()
			callers(b, n, func(i int) error {
				w := newIntent(l, fmt.Sprintf("key-%d", i))
				if err := commit(l, w); err != nil {
					return err
				}
				return commit(l, settling(l, w, body))
			})
		})
	}
}

// BenchmarkRawClaim is what the first is held to: the narrowest table with a primary key, claimed in batches by two connections.
func BenchmarkRawClaim(b *testing.B) {
	for _, n := range crowds {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			pool, err := pgxpool.New(b.Context(), emptyStore(b))
			if err != nil {
				b.Fatal(err)
			}
			defer pool.Close()
			if _, err := pool.Exec(b.Context(), `CREATE TABLE raw (key text PRIMARY KEY, id text NOT NULL)`); err != nil {
				b.Fatal(err)
			}
			waiting := make(chan rawClaim, n)
			for range defaultWriters {
				go rawWriter(pool, waiting)
			}
			defer close(waiting)
			callers(b, n, func(i int) error {
				c := rawClaim{fmt.Sprintf("key-%d", i), newID(time.Now()), make(chan error, 1)}
				waiting <- c
				return <-c.done
			})
		})
	}
}

type rawClaim struct {
	key, id string
	done    chan error
}

func rawWriter(pool *pgxpool.Pool, waiting <-chan rawClaim) {
	for first := range waiting {
		runtime.Gosched()
		batch := []rawClaim{first}
	more:
		for {
			select {
			case c := <-waiting:
				batch = append(batch, c)
			default:
				break more
			}
		}
		keys, ids := make([]string, len(batch)), make([]string, len(batch))
		for i, c := range batch {
			keys[i], ids[i] = c.key, c.id
		}
		rows, err := pool.Query(context.Background(), `INSERT INTO raw SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING RETURNING key`, keys, ids)
		if err == nil {
			_, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		for _, c := range batch {
			c.done <- err
		}
	}
}
