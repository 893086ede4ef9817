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
	"github.com/holdfast-ai/holdfast/ledger"
)

// QueueConfig says how the queue is measured. Exe is needed.
type QueueConfig struct {
	Exe string
	Env []string
	Dir string // as Config.Dir
	// Jobs is how many are submitted, Connections by how many clients. Defaults 10,000 and 64.
	Jobs, Connections int
	// Interactive is how many calls are made beside waiting jobs, and before that without any; 0 leaves this part out.
	Interactive int
	// OpenLedger opens a new store for the part that runs inside this process; nil leaves that out.
	OpenLedger func(path string) (ledger.Ledger, error)
	// Reference is a program that measures another queue in the same run, beside the same provider; empty: none. It is
	// called with -db FILE -url URL -jobs N -connections N, without -url for jobs that send nothing, and prints name and
	// rate as JSON.
	Reference string
}

// Rate is what a queue does in a second.
type Rate struct {
	Submitted float64 `json:"submitted_per_second"` // acknowledged, and durable with that
	Worked    float64 `json:"worked_per_second"`    // from the first submission to the last settlement
	// CPU is what a job took of a processor, in microseconds, submission and all; 0 where the system does not say.
	CPU float64 `json:"cpu_us_per_job,omitempty"`
}

// Reference is what another queue did.
type Reference struct {
	Name string `json:"name"`
	Rate
	Embedded Rate `json:"embedded"` // of jobs that send nothing
}

// QueueReport is what Queue measured.
type QueueReport struct {
	Jobs          int        `json:"jobs"`
	Connections   int        `json:"connections"`
	SubmitSeconds float64    `json:"submit_seconds"`
	Submitted     float64    `json:"submitted_per_second"` // acknowledged, and durable with that
	TotalSeconds  float64    `json:"total_seconds"`        // from the first submission to the last settlement
	Worked        float64    `json:"worked_per_second"`
	CPU           float64    `json:"cpu_us_per_job,omitempty"` // of the gateway, as in Rate
	Embedded      *Rate      `json:"embedded,omitempty"`       // inside one process, of jobs that send nothing
	Reference     *Reference `json:"reference,omitempty"`
	Beside        *Beside    `json:"beside,omitempty"`
}

// WriteText prints r for people.
func (r *QueueReport) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d jobs by %d clients\nsubmitted  %8.0f/s  (%.2f s, each durable before it is acknowledged)\nworked     %8.0f/s  (%.2f s to the last settlement%s)\n",
		r.Jobs, r.Connections, r.Submitted, r.SubmitSeconds, r.Worked, r.TotalSeconds, cpuText("; the gateway's processors", r.CPU))
	if e := r.Embedded; err == nil && e != nil {
		_, err = fmt.Fprintf(w, "embedded   %8.0f/s submitted, %.0f/s worked, of jobs that send nothing%s\n", e.Submitted, e.Worked, cpuText("; processors", e.CPU))
	}
	if ref := r.Reference; err == nil && ref != nil {
		_, err = fmt.Fprintf(w, "\n%s, in the same run\n%s", ref.Name, ref.text(r))
	}
	if err == nil && r.Beside != nil {
		_, err = fmt.Fprint(w, "\n", r.Beside.text())
	}
	return err
}

// cpuText is a job's time of processors, "" where it is not known.
func cpuText(whose string, us float64) string {
	if us == 0 {
		return ""
	}
	return fmt.Sprintf("%s %.0f µs a job", whose, us)
}

// Queue submits jobs to a gateway in front of the simulator, each a process of its own, and waits until the last is done.
// Then it measures calls beside a queue, with processes of their own again.
func Queue(ctx context.Context, c QueueConfig) (report *QueueReport, err error) {
	dir, err := os.MkdirTemp(c.Dir, "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	report = &QueueReport{Jobs: c.Jobs, Connections: c.Connections}
	if err := c.with(dir, func(start starter) error { return report.throughput(ctx, dir, start) }); err != nil {
		return nil, err
	}
	if c.OpenLedger != nil {
		rate, err := c.embedded(ctx, dir)
		if err != nil {
			return nil, err
		}
		report.Embedded = &rate
	}
	if c.Reference != "" {
		if report.Reference, err = c.reference(ctx, dir); err != nil {
			return nil, err
		}
	}
	if c.Interactive > 0 {
		err = c.with(dir, func(start starter) error {
			report.Beside, err = c.beside(ctx, dir, start)
			return err
		})
	}
	return report, err
}

// starter starts a gateway in front of the simulator.
type starter func(args ...string) (*queueLoad, error)

// with runs a part with a simulator and a gateway of its own, which end with it.
func (c QueueConfig) with(dir string, part func(starter) error) (err error) {
	base := proc.Command{Exe: c.Exe, Env: c.Env, Dir: dir}
	sim, err := proc.Sim(base)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sim.Stop(stopPatience)) }()
	var gateway *proc.Process
	defer func() {
		if gateway != nil {
			err = errors.Join(err, gateway.Stop(stopPatience))
		}
	}()
	return part(func(args ...string) (*queueLoad, error) {
		base.Args = append(args, "--upstream", "openai="+sim.URL+"/v1")
		if gateway, err = proc.Serve(base); err != nil {
			return nil, err
		}
		return &queueLoad{base: gateway.URL, admin: gateway.Admin, sim: sim.URL, jobs: c.Jobs, pid: gateway.ID(),
			client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: c.Connections}}}, nil
	})
}

func (r *QueueReport) throughput(ctx context.Context, dir string, start starter) error {
	q, err := start("--store", "sqlite:"+filepath.Join(dir, "holdfast.db"))
	if err != nil {
		return err
	}
	defer q.client.CloseIdleConnections()
	before, _ := cpuOf(q.pid) // 0 where the system does not say, and then it says the same behind
	began := time.Now()
	if err := q.submit(ctx, r.Connections); err != nil {
		return err
	}
	submitted := time.Since(began)
	if err := q.await(ctx); err != nil {
		return err
	}
	total := time.Since(began)
	after, _ := cpuOf(q.pid)
	r.CPU = float64((after - before).Microseconds()) / float64(r.Jobs)
	r.SubmitSeconds, r.TotalSeconds = submitted.Seconds(), total.Seconds()
	r.Submitted, r.Worked = float64(r.Jobs)/submitted.Seconds(), float64(r.Jobs)/total.Seconds()
	return nil
}

type queueLoad struct {
	base, admin, sim string
	jobs, pid        int
	next, asked      atomic.Int64
	client           *http.Client
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
	return q.call(ctx, http.MethodPost, q.base+"/holdfast/v1/jobs", body, http.StatusAccepted, nil)
}

// await waits until no job is unsettled.
func (q *queueLoad) await(ctx context.Context) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		var left []struct{}
		if err := q.call(ctx, http.MethodGet, q.base+"/holdfast/v1/jobs?limit=1", nil, http.StatusOK, &left); err != nil {
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

// call expects the status want, or where that is 0 any success.
func (q *queueLoad) call(ctx context.Context, method, url string, body []byte, want int, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := q.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != want && (want != 0 || resp.StatusCode/100 != 2):
		return fmt.Errorf("%s %s answered %s: %.200s", method, url, resp.Status, text)
	}
	switch into := into.(type) {
	case nil:
		return nil
	case *rawText:
		*into = text
		return nil
	}
	return json.Unmarshal(text, into)
}

// rawText takes an answer that is no JSON.
type rawText []byte
