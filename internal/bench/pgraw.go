package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"
)

// rawClaims are claims as they would be without a log behind them: a row of key and owner, inserted in batches by two writers that each
// send the next when the last is durable. It is the reference row of claims on Postgres.
type rawClaims struct {
	queue chan *rawClaim
	made  atomic.Uint64
}

type rawClaim struct {
	key  string
	done chan error
}

const (
	rawWriters = 2
	rawBatch   = 1024
)

// raw starts the writers; they end with the run.
func (r *pgRun) raw(ctx context.Context) (*rawClaims, error) {
	at, err := r.schema(ctx, r.Databases[0])
	if err != nil {
		return nil, err
	}
	if err := execute(ctx, at, "CREATE TABLE claim (key text PRIMARY KEY, owner text NOT NULL, at timestamptz NOT NULL DEFAULT now())"); err != nil {
		return nil, err
	}
	raw := &rawClaims{queue: make(chan *rawClaim, rawBatch)}
	var writers sync.WaitGroup
	r.close = append(r.close, func() error {
		close(raw.queue)
		writers.Wait()
		return nil
	})
	for range rawWriters {
		c, err := pgx.Connect(ctx, at)
		if err != nil {
			return nil, err
		}
		writers.Go(func() {
			raw.write(c)
			_ = c.Close(context.Background()) // what was written was confirmed
		})
	}
	return raw, nil
}

// write inserts what waits until the queue is closed.
func (raw *rawClaims) write(c *pgx.Conn) {
	for first := range raw.queue {
		batch := []*rawClaim{first}
		for more := true; more && len(batch) < rawBatch; {
			select {
			case next, open := <-raw.queue:
				if more = open; open {
					batch = append(batch, next)
				}
			default:
				more = false
			}
		}
		raw.insert(c, batch)
	}
}

func (raw *rawClaims) insert(c *pgx.Conn, batch []*rawClaim) {
	keys := make([]string, len(batch))
	for i, b := range batch {
		keys[i] = b.key
	}
	rows, err := c.Query(context.Background(), `INSERT INTO claim (key, owner) SELECT k, $2 FROM unnest($1::text[]) k ON CONFLICT DO NOTHING RETURNING key`,
		keys, benchOwner)
	won := 0
	if err == nil {
		for rows.Next() {
			won++
		}
		err = rows.Err()
	}
	if err == nil && won != len(batch) {
		err = errors.New("a new key was claimed by somebody else")
	}
	for _, b := range batch {
		b.done <- err
	}
}

// claim claims a new key.
func (raw *rawClaims) claim(context.Context) error {
	c := &rawClaim{key: "idem:production:main:key:" + strconv.FormatUint(raw.made.Add(1)*0x9e3779b97f4a7c15, 16), done: make(chan error, 1)}
	raw.queue <- c
	return <-c.done
}

// perSecond has callers do something again and again for a time.
func perSecond(ctx context.Context, callers int, d time.Duration, f func() error) (float64, error) {
	var n atomic.Int64
	begin := time.Now()
	err := parallel(callers, func(int) error {
		for time.Since(begin) < d {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if err := f(); err != nil {
				return err
			}
			n.Add(1)
		}
		return nil
	})
	return float64(n.Load()) / time.Since(begin).Seconds(), err
}

// redis measures SET NX PX, which is a claim and no more, and as durable as that Redis is.
func (r *pgRun) redis(ctx context.Context) error {
	if r.Redis == "" {
		return nil
	}
	option, err := rueidis.ParseURL(r.Redis)
	if err != nil {
		return errors.New("the address of Redis is no URL (redis://host:6379)") // it may name a password
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return err
	}
	defer client.Close()
	prefix := "holdfast-bench:" + strconv.FormatInt(time.Now().UnixNano(), 36) + ":"
	var made atomic.Uint64
	for _, callers := range pgCallers {
		r.progress("%s: Redis, %d callers", pgClaims, callers)
		var rates []float64
		for range r.rounds {
			rate, err := perSecond(ctx, callers, r.slice, func() error {
				key := prefix + strconv.FormatUint(made.Add(1), 36)
				return client.Do(ctx, client.B().Set().Key(key).Value(benchOwner).Nx().PxMilliseconds(60_000).Build()).Error()
			})
			if err != nil {
				return err
			}
			rates = append(rates, rate)
		}
		r.report.add(Figure{Part: pgClaims, Name: fmt.Sprintf("Redis SET NX PX/s, %d callers", callers), Unit: "/s", ReferenceName: "Redis", Direct: Value(unknown),
			Reference: Value(median(rates)), Holdfast: Value(unknown)})
	}
	return nil
}
