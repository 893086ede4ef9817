package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// providerTakes is what the simulated provider takes for a call: short, for a model, so that what a backlog adds is seen.
	providerTakes = 100 * time.Millisecond
	// besideSlots are the places of the bulkhead; a fifth of them no job takes (bulkhead.interactive_reserve).
	besideSlots = 40
	// askers ask at a time: as many as have places of their own.
	askers = 8
	// besideTarget is how much later than with an empty queue the 99th of 100 calls may be answered.
	besideTarget = 1.5
)

const besidePolicy = `
workflows:
  default:
    bulkhead: {max_concurrent: %d, wait: true}
    lanes: {interactive_admission: {max_wait_ms: 4000}}
`

// Beside is how calls that somebody waits for fare beside jobs that wait on the same route.
type Beside struct {
	Calls    int     `json:"calls"`
	Provider float64 `json:"provider_ms"`  // what the provider itself takes
	Slots    int     `json:"slots"`        // of the bulkhead that calls and jobs share
	Waiting  [2]int  `json:"jobs_waiting"` // at the first of the calls, and after the last
	// Empty is with nothing in the queue, Full with the jobs.
	Empty  Latency `json:"empty"`
	Full   Latency `json:"full"`
	Ratio  float64 `json:"p99_ratio"`
	Target float64 `json:"target"`
}

// Latency is how long calls took, in milliseconds.
type Latency struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

func (b *Beside) text() string {
	met := "met"
	if b.Ratio > b.Target {
		met = "MISSED"
	}
	row := func(l Latency) string { return fmt.Sprintf("p50 %6.1f  p99 %6.1f  max %6.1f ms", l.P50, l.P99, l.Max) }
	return fmt.Sprintf("%d calls by %d clients on one route, %d slots, a provider that takes %.0f ms\nempty queue  %s\n%6d jobs  %s  (%d still waited after the last call)\np99 ratio    %.2f, target %.1f: %s\n",
		b.Calls, askers, b.Slots, b.Provider, row(b.Empty), b.Waiting[0], row(b.Full), b.Waiting[1], b.Ratio, b.Target, met)
}

// beside measures a gateway of its own: first with an empty queue, then with jobs that wait on the same route and are
// worked on meanwhile.
func (c QueueConfig) beside(ctx context.Context, dir string, start starter) (*Beside, error) {
	file := filepath.Join(dir, "beside.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, besidePolicy, besideSlots), 0o600); err != nil {
		return nil, err
	}
	q, err := start("--config", file, "--store", "sqlite:"+filepath.Join(dir, "beside.db"))
	if err != nil {
		return nil, err
	}
	defer q.client.CloseIdleConnections()
	takes := fmt.Appendf(nil, `[{"name":"takes","match":{"path":"/v1/**"},"times":-1,"steps":[{"delay_ms":%d}]}]`, providerTakes.Milliseconds())
	if err := q.call(ctx, http.MethodPost, q.sim+"/sim/v1/rules", takes, 0, nil); err != nil {
		return nil, err
	}
	b := &Beside{Calls: c.Interactive, Slots: besideSlots, Provider: float64(providerTakes.Milliseconds()), Target: besideTarget}
	if _, err := q.ask(ctx, askers*4); err != nil { // connections and pages are warm for both
		return nil, err
	}
	if b.Empty, err = q.ask(ctx, c.Interactive); err != nil {
		return nil, err
	}
	all := []byte(`{"route":"*","reason":"the backlog is built up"}`)
	if err := q.call(ctx, http.MethodPost, q.admin+"/holdfast/v1/routes/pause", all, 0, nil); err != nil {
		return nil, err
	}
	if err := q.submit(ctx, c.Connections); err != nil {
		return nil, err
	}
	if err := q.call(ctx, http.MethodPost, q.admin+"/holdfast/v1/routes/resume", all, 0, nil); err != nil {
		return nil, err
	}
	if b.Waiting[0], err = q.waiting(ctx); err != nil {
		return nil, err
	}
	if b.Full, err = q.ask(ctx, c.Interactive); err != nil {
		return nil, err
	}
	if b.Waiting[1], err = q.waiting(ctx); err != nil {
		return nil, err
	}
	if b.Waiting[1] == 0 {
		return nil, errors.New("the jobs were done before the calls were: measure with more --jobs or fewer --interactive")
	}
	b.Ratio = b.Full.P99 / b.Empty.P99
	return b, nil
}

// ask makes so many calls, each a new question, and says how long they took. Each must succeed.
func (q *queueLoad) ask(ctx context.Context, calls int) (Latency, error) {
	took := make([]time.Duration, calls)
	errs := make([]error, askers)
	var next atomic.Int64
	var all sync.WaitGroup
	for i := range askers {
		all.Go(func() {
			for n := next.Add(1); n <= int64(calls) && errs[i] == nil; n = next.Add(1) {
				body := fmt.Appendf(nil, `{"model":"gpt-5-mini","messages":[{"role":"user","content":"question %d of %d"}]}`, q.asked.Add(1), calls)
				began := time.Now()
				errs[i] = q.call(ctx, http.MethodPost, q.base+"/v1/chat/completions", body, http.StatusOK, nil)
				took[n-1] = time.Since(began)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return Latency{}, err
	}
	slices.Sort(took)
	at := func(share float64) float64 { return ms(took[int(share*float64(len(took)-1))]) }
	return Latency{P50: at(0.5), P99: at(0.99), Max: at(1)}, nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// laneDepth is the figure of the jobs that wait in the gateway's metrics.
var laneDepth = regexp.MustCompile(`(?m)^holdfast_lane_depth\{[^}]*lane="background_retry"[^}]*\} (\d+)`)

// waiting counts the jobs that wait for a worker.
func (q *queueLoad) waiting(ctx context.Context) (n int, err error) {
	var text rawText
	if err := q.call(ctx, http.MethodGet, q.admin+"/metrics", nil, http.StatusOK, &text); err != nil {
		return 0, err
	}
	m := laneDepth.FindSubmatch(text)
	if m == nil {
		return 0, errors.New("the gateway's metrics do not say how many jobs wait")
	}
	return strconv.Atoi(string(m[1]))
}
