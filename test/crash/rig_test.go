package crash

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/proc"
)

// config is the gateway's: SIM is the far side.
const config = `
env: crash
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "sk-crash"}
workflows:
  external: {match: {paths: ["/by-name-only"]}, effect: external, durability: strict}
  pipeline: {match: {paths: ["/by-name-only"]}, effect: external, durability: strict, idempotency: {derive: always}}
  quick: {match: {paths: ["/by-name-only"]}, effect: external, durability: strict, timeouts: {first_token: 1s, attempt: 1s, total: 1s, request: 2s}}
  strict: {match: {paths: ["/by-name-only"]}, durability: strict}
  relaxed: {match: {paths: ["/by-name-only"]}}
  "off": {match: {paths: ["/by-name-only"]}, idempotency: {derive: "off"}}
  jobs:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 2, base: 5ms, max: 50ms, share: 1}
    breaker: {failure_threshold: 30, reset_timeout: 1s}
    lanes: {background_retry: {max_attempts: 4, max_queue_age_ms: 600000}}
  acts:
    match: {paths: ["/by-name-only"]}
    effect: external
    retry: {max_attempts: 2, base: 5ms, max: 50ms, share: 1}
    breaker: {failure_threshold: 30, reset_timeout: 1s}
    lanes: {background_retry: {max_attempts: 4, max_queue_age_ms: 600000}}
  lined:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 2, base: 5ms, max: 50ms, share: 1}
    bulkhead: {max_concurrent: 4, wait: true}
    breaker: {failure_threshold: 30, reset_timeout: 1s}
    backpressure: {concurrency_key: [owner_key], release_order: [ready_at, priority, created_at]}
    lanes: {background_retry: {max_attempts: 4, max_queue_age_ms: 600000}}
  told:
    match: {paths: ["/by-name-only"]}
    callbacks: {secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", allow: [127.0.0.1]}
  default: {}
tools:
  shop:
    base_url: "SIM/shop"
    routes:
      - {match: "POST /orders", key: "{order}", timeout: 1s,
         reconcile: {get: "/orders?key={key}", happened: "len(body.items) > 0", every: 200ms, quiet: 1500ms, attempts: 20}}
limits: {commit_wait: 20s}
`

// rig is one store with the gateways that come and go on it, and a far side that stays.
type rig struct {
	t       *testing.T
	dir     string
	sim     *proc.Process
	gateway *proc.Process // the present one
	client  *http.Client
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	sim, err := proc.Sim(proc.Command{Exe: binary, Args: []string{"--effects", r.path("effects.jsonl")}})
	if err != nil {
		t.Fatal(err)
	}
	r.sim = sim
	t.Cleanup(func() {
		if r.gateway != nil {
			r.gateway.Kill()
		}
		if err := sim.Stop(10 * time.Second); err != nil {
			t.Errorf("the far side did not end well: %v", err)
		}
	})
	text := strings.ReplaceAll(config, "SIM", sim.URL)
	if err := os.WriteFile(r.path("holdfast.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }
func (r *rig) store() string           { return r.path("holdfast.db") }

// command starts a gateway on r's store, armed to crash at a point where crash names one.
func (r *rig) command(crash string) proc.Command {
	return proc.Command{Exe: binary, Dir: r.dir, Env: []string{"HOLDFAST_CRASH=" + crash, "HOLDFAST_MUTANT=" + os.Getenv("HOLDFAST_MUTANT")},
		Args: []string{"--config", r.path("holdfast.yaml"), "--store", "sqlite:" + r.store(), "--log-level", "info"}}
}

// start brings a gateway up. False: it reached its crash point before it served.
func (r *rig) start(crash string) bool {
	r.t.Helper()
	err := r.serve(r.command(crash))
	if errors.Is(err, proc.ErrDied) && crash != "" {
		return false
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return true
}

func (r *rig) serve(c proc.Command) error {
	p, err := proc.Serve(c)
	if err != nil {
		return err
	}
	r.client.CloseIdleConnections()
	r.gateway = p
	return nil
}

// kill is kill -9.
func (r *rig) kill() {
	r.gateway.Kill()
	r.gateway = nil
}

// stop ends the gateway in order.
func (r *rig) stop() {
	r.t.Helper()
	if err := r.gateway.Stop(patience); err != nil {
		r.t.Errorf("the gateway did not end well: %v", err)
	}
	r.gateway = nil
}

// dead says that the gateway is gone.
func (r *rig) dead() bool {
	select {
	case <-r.gateway.Done():
		return true
	default:
		return false
	}
}

// mustDie fails the test with complaint unless the gateway is dying, which a client sees before we do.
func (r *rig) mustDie(complaint string) {
	r.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-r.gateway.Done():
	case <-timer.C:
		r.t.Error(complaint)
	}
}

// send is one request of a client. The error says that no whole answer came.
func (r *rig) send(base, path string, body []byte, header map[string]string) (*answer, error) {
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a := &answer{status: resp.StatusCode, header: resp.Header}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		return nil, err
	}
	a.pending = resp.Header.Get("Holdfast-Stored") != "" || resp.Trailer.Get("Holdfast-Stored") != ""
	return a, nil
}

// answer is one whole answer.
type answer struct {
	status  int
	header  http.Header
	body    []byte
	pending bool // not yet durable, says the gateway
}

func (a *answer) code() string   { return a.header.Get("Holdfast-Error") }
func (a *answer) intent() string { return a.header.Get("Holdfast-Intent") }
func (a *answer) replayed() bool { return a.header.Get("Idempotency-Replayed") == "true" }

func (a *answer) String() string {
	return fmt.Sprintf("%d %s intent %s: %.200s", a.status, a.code(), a.intent(), a.body)
}

// getJSON reads a control or admin API.
func (r *rig) getJSON(url string, into any) {
	r.t.Helper()
	resp, err := r.client.Get(url)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("GET %s: %d %v", url, resp.StatusCode, err)
	}
}

// counts are the far side's counters by operation.
type counts struct {
	Calls    int64 `json:"calls"`
	InFlight int64 `json:"in_flight"`
}

func (r *rig) calls() map[string]counts {
	var s struct {
		Ops map[string]counts `json:"ops"`
	}
	r.getJSON(r.sim.URL+"/sim/v1/stats", &s)
	return s.Ops
}

func (r *rig) callsOf(o *op) int64 {
	var n counts
	r.getJSON(r.sim.URL+"/sim/v1/ops/"+o.name, &n)
	return n.Calls
}

// effects reads the far side's own log: it is synced before any answer, whatever became of anybody.
func (r *rig) effects() map[string]int {
	r.t.Helper()
	b, err := os.ReadFile(r.path("effects.jsonl"))
	if err != nil {
		r.t.Fatal(err)
	}
	n := map[string]int{}
	for line := range bytes.Lines(b) {
		var e struct {
			Op string `json:"op"`
		}
		if !bytes.HasSuffix(line, []byte("\n")) {
			continue // being written: not synced, so nobody was told
		}
		if err := json.Unmarshal(line, &e); err != nil {
			r.t.Fatalf("effects: %v: %s", err, line)
		}
		n[e.Op]++
	}
	return n
}
