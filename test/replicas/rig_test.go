package replicas

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/pgtest"
	"github.com/holdfast-ai/holdfast/internal/proc"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/postgres"
	"github.com/holdfast-ai/holdfast/test/farside"
)

// config is every replica's: SIM is the far side, MORE what a test adds.
const config = `
env: replicas
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "sk-replicas"}
workflows:
  external: {match: {paths: ["/by-name-only"]}, effect: external, durability: strict}
  strict: {match: {paths: ["/by-name-only"]}, durability: strict}
  relaxed: {match: {paths: ["/by-name-only"]}}
  conflict: {match: {paths: ["/by-name-only"]}, idempotency: {on_in_flight: conflict}}
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
  default: {}
tools:
  shop:
    base_url: "SIM/shop"
    routes:
      - {match: "POST /orders", key: "{order}", timeout: 5s,
         reconcile: {get: "/orders?key={key}", happened: "len(body.items) > 0", every: 200ms, quiet: 11s, attempts: 200}}
fleet: {drain_grace: 2s}
limits: {commit_wait: 4s}
MORE
`

// rig is one database, three replicas on it, each over a link of its own, and a far side that stays.
type rig struct {
	*farside.Side
	t        *testing.T
	pg       *pgtest.Server
	balancer *balancer
	replicas []*replica
	beat     time.Duration // of heartbeats; 0: the real one
	env      []string      // of every replica
}

// replica is one gateway over its lives.
type replica struct {
	r    *rig
	i    int
	link *cutter
	p    *proc.Process // nil: down
}

const size = 3

func newRig(t *testing.T, more string) *rig {
	t.Helper()
	if testing.Short() {
		t.Skip("this starts servers")
	}
	r := &rig{t: t, pg: pgtest.Start(t), Side: farside.New(t, binary)}
	r.Away = true
	r.pg.Exec(t, "postgres", "CREATE DATABASE holdfast")
	text := strings.NewReplacer("SIM", r.Sim.URL, "MORE", more).Replace(config)
	if err := os.WriteFile(r.Path("holdfast.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.balancer = newBalancer(t, size)
	for i := range size {
		r.replicas = append(r.replicas, &replica{r: r, i: i, link: newCutter(t, r.host())})
	}
	t.Cleanup(r.end)
	return r
}

// host is where the database is.
func (r *rig) host() string {
	u, err := url.Parse(r.pg.DSN("holdfast"))
	if err != nil {
		r.t.Fatal(err)
	}
	return u.Host
}

// store is the database's address over a link, or directly.
func (r *rig) store(over *cutter) string {
	u, err := url.Parse(r.pg.DSN("holdfast"))
	if err != nil {
		r.t.Fatal(err)
	}
	if over != nil {
		u.Host = over.addr
	}
	return u.String()
}

// end kills what runs, and shows what it said last where the test failed.
func (r *rig) end() {
	for _, k := range r.replicas {
		if k.p == nil {
			continue
		}
		_ = syscall.Kill(k.p.ID(), syscall.SIGCONT) // it may stand still
		k.p.Kill()
		if r.t.Failed() {
			r.t.Logf("replica %d said last:\n%s", k.i, k.p.Output())
		}
	}
}

// start brings all replicas up at once, as a deployment does.
func (r *rig) start() {
	r.t.Helper()
	failed := make(chan error, len(r.replicas))
	for _, k := range r.replicas {
		go func() { failed <- k.up() }()
	}
	for range r.replicas {
		if err := <-failed; err != nil {
			r.t.Fatal(err)
		}
	}
	r.whole()
}

// whole waits until the balancer has every replica that is up.
func (r *rig) whole() {
	r.t.Helper()
	for _, k := range r.replicas {
		if k.p != nil {
			k.awaitReady()
		}
	}
}

// stop ends all replicas in order.
func (r *rig) stop() {
	r.t.Helper()
	for _, k := range r.replicas {
		if k.p != nil {
			k.stop()
		}
	}
}

// up starts a replica.
func (k *replica) up() error {
	env := append([]string{"HOLDFAST_MUTANT=" + os.Getenv("HOLDFAST_MUTANT")}, k.r.env...)
	if k.r.beat > 0 {
		env = append(env, "HOLDFAST_TEST_BEAT="+k.r.beat.String())
	}
	p, err := proc.Serve(proc.Command{Exe: binary, Dir: k.r.Dir, Env: env,
		Args: []string{"--config", k.r.Path("holdfast.yaml"), "--store", k.r.store(k.link), "--log-level", "info"}})
	if err != nil {
		return fmt.Errorf("replica %d: %w", k.i, err)
	}
	k.p = p
	k.r.balancer.set(k.i, p.URL)
	return nil
}

// mustUp starts a replica, or fails the test.
func (k *replica) mustUp() {
	k.r.t.Helper()
	if err := k.up(); err != nil {
		k.r.t.Fatal(err)
	}
}

func (k *replica) awaitReady() {
	k.r.t.Helper()
	until(k.r.t, fmt.Sprintf("replica %d is ready", k.i), func() bool { return k.r.balancer.ready(k.i) })
}

// kill is kill -9.
func (k *replica) kill() {
	k.r.balancer.set(k.i, "")
	k.p.Kill()
	k.p = nil
}

// stop ends a replica in order. The balancer learns of it from the replica alone.
func (k *replica) stop() {
	k.r.t.Helper()
	if err := k.p.Stop(patience); err != nil {
		k.r.t.Errorf("replica %d did not end well: %v", k.i, err)
	}
	k.r.balancer.set(k.i, "")
	k.p = nil
}

func (k *replica) signal(s syscall.Signal) {
	k.r.t.Helper()
	if err := syscall.Kill(k.p.ID(), s); err != nil {
		k.r.t.Errorf("replica %d: %v: %v", k.i, s, err)
	}
}

// ledger opens the database beside the replicas.
func (r *rig) ledger() ledger.Ledger {
	r.t.Helper()
	l, err := postgres.OpenReadOnly(r.t.Context(), r.store(nil))
	if err != nil {
		r.t.Fatalf("read the store: %v", err)
	}
	return l
}

// read is everything that the store says.
func (r *rig) read() *farside.Book {
	r.t.Helper()
	l := r.ledger()
	defer func() { _ = l.Close() }() // it only read
	return r.Read(l)
}

// verify is `holdfast store verify`.
func (r *rig) verify() {
	r.t.Helper()
	out, err := exec.Command(binary, "store", "verify", "--store", r.store(nil)).CombinedOutput()
	if err != nil {
		r.t.Errorf("store verify: %v\n%s", err, out)
	}
}

// oracle holds what clients were told, what the far side did and what the store says to each other.
func (r *rig) oracle(ops []*farside.Op) *farside.Book {
	r.t.Helper()
	// The far side first: what it does while the store is read may be there only later, never the other way round.
	effects, calls := r.Effects(), r.Calls()
	b := r.read()
	for _, o := range ops {
		r.Judge(o, b, effects[o.Name], calls[o.Name].Calls)
	}
	r.verify()
	return b
}
