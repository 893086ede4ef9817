package crash

import (
	"errors"
	"github.com/holdfast-ai/holdfast/test/farside"
	"os"
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
	*farside.Side
	t       *testing.T
	gateway *proc.Process // the present one
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, Side: farside.New(t, binary)}
	t.Cleanup(func() {
		if r.gateway != nil {
			r.gateway.Kill()
		}
	})
	text := strings.ReplaceAll(config, "SIM", r.Sim.URL)
	if err := os.WriteFile(r.Path("holdfast.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) store() string { return r.Path("holdfast.db") }

// command starts a gateway on r's store, armed to crash at a point where crash names one.
func (r *rig) command(crash string) proc.Command {
	return proc.Command{Exe: binary, Dir: r.Dir, Env: []string{"HOLDFAST_CRASH=" + crash, "HOLDFAST_MUTANT=" + os.Getenv("HOLDFAST_MUTANT")},
		Args: []string{"--config", r.Path("holdfast.yaml"), "--store", "sqlite:" + r.store(), "--log-level", "info"}}
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
	r.Client.CloseIdleConnections()
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
