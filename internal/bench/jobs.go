package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/internal/proc"
)

// QueueConfig says how the queue is measured. Exe is needed.
type QueueConfig struct {
	Exe string
	Env []string
	Dir string // as Config.Dir
	// Jobs is how many are submitted, Connections by how many clients. Defaults 10,000 and 64.
	Jobs, Connections int
}

// QueueReport is what Queue measured.
type QueueReport struct {
	Jobs          int     `json:"jobs"`
	Connections   int     `json:"connections"`
	SubmitSeconds float64 `json:"submit_seconds"`
	Submitted     float64 `json:"submitted_per_second"` // acknowledged, and durable with that
	TotalSeconds  float64 `json:"total_seconds"`        // from the first submission to the last settlement
	Worked        float64 `json:"worked_per_second"`
}

// WriteText prints r for people.
func (r *QueueReport) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d jobs by %d clients\nsubmitted  %8.0f/s  (%.2f s, each durable before it is acknowledged)\nworked     %8.0f/s  (%.2f s to the last settlement)\n",
		r.Jobs, r.Connections, r.Submitted, r.SubmitSeconds, r.Worked, r.TotalSeconds)
	return err
}

// Queue submits jobs to a gateway in front of the simulator, each a process of its own, and waits until the last is done.
func Queue(ctx context.Context, c QueueConfig) (report *QueueReport, err error) {
	dir, err := os.MkdirTemp(c.Dir, "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	base := proc.Command{Exe: c.Exe, Env: c.Env, Dir: dir}
	sim, err := proc.Sim(base)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sim.Stop(stopPatience)) }()
	base.Args = []string{"--store", "sqlite:" + filepath.Join(dir, "holdfast.db"), "--upstream", "openai=" + sim.URL + "/v1"}
	gateway, err := proc.Serve(base)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, gateway.Stop(stopPatience)) }()
	q := &queueLoad{base: gateway.URL, jobs: c.Jobs, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: c.Connections}}}
	defer q.client.CloseIdleConnections()
	began := time.Now()
	if err := q.submit(ctx, c.Connections); err != nil {
		return nil, err
	}
	submitted := time.Since(began)
	if err := q.await(ctx); err != nil {
		return nil, err
	}
	total := time.Since(began)
	return &QueueReport{Jobs: c.Jobs, Connections: c.Connections, SubmitSeconds: submitted.Seconds(), TotalSeconds: total.Seconds(),
		Submitted: float64(c.Jobs) / submitted.Seconds(), Worked: float64(c.Jobs) / total.Seconds()}, nil
}

type queueLoad struct {
	base   string
	jobs   int
	next   atomic.Int64
	client *http.Client
}

// submit submits all jobs, by so many clients at a time.
func (q *queueLoad) submit(ctx context.Context, clients int) error {
	errs := make([]error, clients)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for n := q.next.Add(1); n <= int64(q.jobs) && errs[i] == nil; n = q.next.Add(1) {
				errs[i] = q.submitOne(ctx, n)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (q *queueLoad) submitOne(ctx context.Context, n int64) error {
	body := fmt.Appendf(nil, `{"path":"/v1/chat/completions","idempotency_key":"job-%d","body":{"model":"gpt-5-mini","messages":[{"role":"user","content":"hello"}]}}`, n)
	return q.call(ctx, http.MethodPost, "/holdfast/v1/jobs", body, http.StatusAccepted, nil)
}

// await waits until no job is unsettled.
func (q *queueLoad) await(ctx context.Context) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		var left []struct{}
		if err := q.call(ctx, http.MethodGet, "/holdfast/v1/jobs?limit=1", nil, http.StatusOK, &left); err != nil {
			return err
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

func (q *queueLoad) call(ctx context.Context, method, path string, body []byte, want int, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, q.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := q.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != want:
		return fmt.Errorf("%s %s answered %s: %.200s", method, path, resp.Status, text)
	case into != nil:
		return json.Unmarshal(text, into)
	}
	return nil
}
