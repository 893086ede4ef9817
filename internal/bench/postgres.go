package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-ai/holdfast/ledger"
)

// PostgresConfig says how the log on Postgres is measured. Databases and OpenLedger are needed.
type PostgresConfig struct {
	// Databases are addresses of Postgres. The first is measured; with two, both together beside it. Each run makes schemas of its own
	// there and drops them.
	Databases []string
	// Redis is one to compare claims with; empty: none.
	Redis string
	// OpenLedger opens one store over these databases, creating it.
	OpenLedger func(databases ...string) (ledger.Ledger, error)
	// Rival is a program that works jobs on the same Postgres, as QueueConfig.Reference; empty: none.
	Rival string
	// Duration is how long each contender is measured for each figure. Default 3 s.
	Duration time.Duration
	// Jobs is how many jobs each queue works. Default 10,000.
	Jobs int
	// Progress gets a line for each thing that begins. Default: none.
	Progress io.Writer
}

// Parts of a run on Postgres.
const (
	pgClaims  = "claims"
	pgIntents = "intents"
	pgJobs    = "jobs"
	pgScaling = "scaling"
)

// Bounds that its targets name (docs/bench.md).
const (
	pgClaimsPerSec  = 40_000 // at 64 callers
	pgIntentsPerSec = 10_000
	pgRival         = 1.5
)

// pgRun is one run under way.
type pgRun struct {
	PostgresConfig
	rounds int
	slice  time.Duration
	report *Report
	close  []func() error // in the order of opening
}

// Postgres measures, and leaves no schema behind. When ctx ends, it returns the cause.
func Postgres(ctx context.Context, c PostgresConfig) (_ *Report, err error) {
	if c.Duration <= 0 {
		c.Duration = 3 * time.Second
	}
	if c.Jobs <= 0 {
		c.Jobs = 10_000
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	r := &pgRun{PostgresConfig: c, rounds: max(minRounds, int(c.Duration/slice)), report: &Report{Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Began: time.Now().UTC(), DurationMS: c.Duration.Milliseconds(),
		Connections: pgCallers[1], titles: map[string]string{
			pgClaims:  "keys claimed, beside rows of key and owner that two writers insert in batches (unnest) and keep no log of",
			pgIntents: "claim, dispatch and settle, the settling with an answer of 650 B",
			pgJobs:    "jobs that send nothing: submitted durably, then worked",
			pgScaling: "whole intents of several engines, and over several databases, beside one",
		}}}
	r.slice = c.Duration / time.Duration(r.rounds)
	defer func() {
		for i := range r.close {
			err = errors.Join(err, r.close[len(r.close)-1-i]())
		}
	}()
	for _, part := range []func(context.Context) error{r.claims, r.intents, r.jobs, r.scaling} {
		if err := part(ctx); err != nil {
			return nil, fmt.Errorf("bench: postgres: %w", err)
		}
	}
	return r.report, nil
}

func (r *pgRun) progress(format string, args ...any) {
	fmt.Fprintf(r.Progress, format+"\n", args...)
}

// schema makes an empty one and returns the address with it; it is dropped at the end.
func (r *pgRun) schema(ctx context.Context, database string) (string, error) {
	name := "holdfast_bench_" + strings.ToLower(rand.Text()[:10])
	if err := execute(ctx, database, "CREATE SCHEMA "+name); err != nil {
		return "", err
	}
	r.close = append(r.close, func() error {
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer stop()
		return execute(end, database, "DROP SCHEMA "+name+" CASCADE")
	})
	u, err := url.Parse(database)
	if err != nil {
		return "", errors.New("the address of the database is no URL (postgres://user@host/database)") // it may name a password
	}
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func execute(ctx context.Context, database, statement string) error {
	c, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, statement)
	return errors.Join(err, c.Close(context.WithoutCancel(ctx)))
}

// open opens a new store, over a schema of its own in each of the databases.
func (r *pgRun) open(ctx context.Context, databases ...string) (*writer, error) {
	urls := make([]string, len(databases))
	for i, d := range databases {
		var err error
		if urls[i], err = r.schema(ctx, d); err != nil {
			return nil, err
		}
	}
	return r.join(0, urls...)
}

// join opens a store that may be open already; at is the number of this engine on it.
func (r *pgRun) join(at uint64, urls ...string) (*writer, error) {
	l, err := r.OpenLedger(urls...)
	if err != nil {
		return nil, err
	}
	r.close = append(r.close, l.Close)
	w := &writer{l: l}
	w.made.Store(at << 38) // ids of its own
	return w, nil
}

var pgCallers = [...]int{16, 64, 256}

// claims measures claims beside raw ones, and Redis where there is one.
func (r *pgRun) claims(ctx context.Context) error {
	raw, err := r.raw(ctx)
	if err != nil {
		return err
	}
	w, err := r.open(ctx, r.Databases[0])
	if err != nil {
		return err
	}
	one := Figure{Part: pgClaims, Name: "p50, one caller", Unit: "µs", ReferenceName: "raw", Direct: Value(unknown)}
	r.progress("%s: one caller", pgClaims)
	var rawOne, ours timing
	for range r.rounds {
		if err := rawOne.round(ctx, r.slice, func() error { return raw.claim(ctx) }); err != nil {
			return err
		}
		if err := ours.round(ctx, r.slice, func() error { return w.commit(ctx, w.claim()) }); err != nil {
			return err
		}
	}
	one.Reference, one.Holdfast, one.Ratio = micros(median(rawOne.p50)), micros(median(ours.p50)), Value(pairwise(ours.p50, rawOne.p50, quotient))
	r.report.add(one)
	for _, callers := range pgCallers {
		if err := r.claimsOf(ctx, raw, w, callers); err != nil {
			return err
		}
	}
	return r.redis(ctx)
}

func (r *pgRun) claimsOf(ctx context.Context, raw *rawClaims, w *writer, callers int) error {
	r.progress("%s: %d callers", pgClaims, callers)
	var theirs, ours []float64
	for range r.rounds {
		rate, err := perSecond(ctx, callers, r.slice, func() error { return raw.claim(ctx) })
		if err != nil {
			return err
		}
		theirs = append(theirs, rate)
		if rate, err = perSecond(ctx, callers, r.slice, func() error { return w.commit(ctx, w.claim()) }); err != nil {
			return err
		}
		ours = append(ours, rate)
	}
	f := Figure{Part: pgClaims, Name: fmt.Sprintf("claims/s, %d callers", callers), Unit: "/s", ReferenceName: "raw", Direct: Value(unknown),
		Reference: Value(median(theirs)), Holdfast: Value(median(ours)), Ratio: Value(pairwise(ours, theirs, quotient))}
	if callers == 64 {
		f = f.atLeast(f.Holdfast, pgClaimsPerSec, "≥ 40,000/s")
	}
	r.report.add(f)
	return nil
}

// intents measures whole intents, in two commits each.
func (r *pgRun) intents(ctx context.Context) error {
	w, err := r.open(ctx, r.Databases[0])
	if err != nil {
		return err
	}
	for _, callers := range pgCallers {
		r.progress("%s: %d callers", pgIntents, callers)
		var both, durable []float64
		for range r.rounds {
			_, rate, err := w.intents(ctx, callers, r.slice)
			if err != nil {
				return err
			}
			both = append(both, rate)
			if rate, err = perSecond(ctx, callers, r.slice, func() error { return w.whole(ctx) }); err != nil {
				return err
			}
			durable = append(durable, rate)
		}
		f := Figure{Part: pgIntents, Name: fmt.Sprintf("whole intents/s, %d callers", callers), Unit: "/s", Direct: Value(unknown),
			Reference: Value(unknown), Holdfast: Value(median(both))}
		if callers == manyCallers {
			f = f.atLeast(f.Holdfast, pgIntentsPerSec, "≥ 10,000/s")
		}
		r.report.add(f)
		r.report.add(Figure{Part: pgIntents, Name: fmt.Sprintf("… that wait for the settling, %d callers", callers), Unit: "/s",
			Direct: Value(unknown), Reference: Value(unknown), Holdfast: Value(median(durable))})
	}
	return nil
}

// whole is an intent whose settling is waited for, as with durability: strict.
func (w *writer) whole(ctx context.Context) error {
	claim := w.claim()
	if err := w.commit(ctx, claim); err != nil {
		return err
	}
	settle := w.settle(claim)
	settle.Relaxed = false
	return w.commit(ctx, settle)
}

// jobs measures the queue beside another one on the same Postgres.
func (r *pgRun) jobs(ctx context.Context) error {
	r.progress("%s: %d", pgJobs, r.Jobs)
	q := QueueConfig{Jobs: r.Jobs, Connections: 64, Reference: r.Rival}
	w, err := r.open(ctx, r.Databases[0])
	if err != nil {
		return err
	}
	ours, err := q.on(ctx, w.l, false)
	if err != nil {
		return err
	}
	theirs := Reference{Rate: Rate{Submitted: unknown, Worked: unknown}}
	if r.Rival != "" {
		r.progress("%s: %d by %s", pgJobs, r.Jobs, r.Rival)
		at, err := r.schema(ctx, r.Databases[0])
		if err != nil {
			return err
		}
		other, err := q.refer(ctx, "", "-postgres", at)
		if err != nil {
			return err
		}
		theirs = *other
	}
	row := func(name string, theirs, ours float64, of string) Figure {
		return Figure{Part: pgJobs, Name: name, Unit: "/s", ReferenceName: of, Direct: Value(unknown), Reference: Value(theirs), Holdfast: Value(ours),
			Ratio: Value(ours / theirs)}
	}
	r.report.add(row("submitted/s, 64 clients", theirs.Submitted, ours.Submitted, theirs.Name))
	f := row("worked/s", theirs.Worked, ours.Worked, theirs.Name)
	r.report.add(f.atLeast(f.Ratio, pgRival, "≥ 1.50 × River"))
	return nil
}
