// Command river measures River on SQLite or Postgres as `holdfast bench queue` and `bench postgres` measure our queue: the reference row of
// the same run.
//
// It is a module of its own, so that River is no dependency of what it is compared with.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	_ "modernc.org/sqlite" // the driver that River's documentation names
)

// report has the names of `holdfast bench queue --json`.
type report struct {
	Name          string  `json:"name"`
	Jobs          int     `json:"jobs"`
	SubmitSeconds float64 `json:"submit_seconds"`
	Submitted     float64 `json:"submitted_per_second"`
	TotalSeconds  float64 `json:"total_seconds"`
	Worked        float64 `json:"worked_per_second"`
}

func main() {
	db := flag.String("db", "", "file of a new database")
	pg := flag.String("postgres", "", "address of a Postgres with an empty schema, instead of -db")
	url := flag.String("url", "", "where each job posts its body; none: it does nothing")
	jobs := flag.Int("jobs", 10_000, "how many jobs")
	connections := flag.Int("connections", 64, "callers that insert at a time")
	flag.Parse()
	var r *report
	var err error
	if *pg != "" {
		r, err = onPostgres(context.Background(), *pg, *url, *jobs, *connections)
	} else {
		r, err = onSQLite(context.Background(), *db, *url, *jobs, *connections)
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

// call is a job: one request with this body.
type call struct {
	Body string `json:"body"`
}

func (call) Kind() string { return "call" }

// caller works jobs as a Holdfast worker does: one request, whose answer has to be a success.
type caller struct {
	river.WorkerDefaults[call]
	url    string
	client *http.Client
}

func (c *caller) Work(ctx context.Context, j *river.Job[call]) error {
	if c.url == "" {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader([]byte(j.Args.Body)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// open opens a database whose commits last as ours do: synchronous=FULL.
func open(ctx context.Context, file string) (*sql.DB, error) {
	if file == "" {
		return nil, errors.New("-db names a file that is not there yet")
	}
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // as River's documentation says for SQLite
	m, err := rivermigrate.New(riversqlite.New(db), nil)
	if err == nil {
		_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	return db, err
}

func onSQLite(ctx context.Context, file, url string, jobs, connections int) (r *report, err error) {
	db, err := open(ctx, file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	left := func(ctx context.Context) (n int, err error) { return n, db.QueryRowContext(ctx, unfinished).Scan(&n) }
	return measure[*sql.Tx](ctx, "River on SQLite", riversqlite.New(db), left, url, jobs, connections)
}

// unfinished counts the jobs that are not completed.
const unfinished = `SELECT count(*) FROM river_job WHERE state <> 'completed'`

// onPostgres measures with the driver that River's documentation names, and a connection for every worker and inserter at hand.
func onPostgres(ctx context.Context, address, url string, jobs, connections int) (*report, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, errors.New("the address of the database is wrong") // it may name a password
	}
	config.MaxConns = 32
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	m, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err == nil {
		_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		return nil, err
	}
	left := func(ctx context.Context) (n int, err error) { return n, pool.QueryRow(ctx, unfinished).Scan(&n) }
	return measure[pgx.Tx](ctx, "River", riverpgxv5.New(pool), left, url, jobs, connections)
}

// measure inserts and works jobs; left says how many are not completed, by the database's own word.
func measure[Tx any](ctx context.Context, name string, driver riverdriver.Driver[Tx], left func(context.Context) (int, error), url string, jobs, connections int) (r *report, err error) {
	w := &caller{url: url, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	defer w.client.CloseIdleConnections()
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	client, err := river.NewClient(driver, &river.Config{Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: maxWorkers(name)}},
		FetchCooldown: time.Millisecond, FetchPollInterval: 5 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if err := client.Start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Stop(ctx)) }()
	began := time.Now()
	if err := insert(ctx, client, jobs, connections); err != nil {
		return nil, err
	}
	submitted := time.Since(began)
	if err := await(ctx, left); err != nil {
		return nil, err
	}
	total := time.Since(began)
	return &report{Name: name, Jobs: jobs, SubmitSeconds: submitted.Seconds(), TotalSeconds: total.Seconds(),
		Submitted: float64(jobs) / submitted.Seconds(), Worked: float64(jobs) / total.Seconds()}, nil
}

// maxWorkers are as many as ours has there.
func maxWorkers(name string) int {
	if name == "River" {
		return 256
	}
	return 64
}

func insert[Tx any](ctx context.Context, client *river.Client[Tx], jobs, connections int) error {
	errs := make([]error, connections)
	var next atomic.Int64
	var all sync.WaitGroup
	for i := range connections {
		all.Go(func() {
			for next.Add(1) <= int64(jobs) && errs[i] == nil {
				_, errs[i] = client.Insert(ctx, call{Body: `{"model":"gpt-5-mini","messages":[{"role":"user","content":"hello"}]}`}, nil)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// await waits until every job is completed.
func await(ctx context.Context, left func(context.Context) (int, error)) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		n, err := left(ctx)
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
