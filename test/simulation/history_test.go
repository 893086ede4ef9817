package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite/faultdisk"
)

// configuration is every gateway's. WORKERS is the plan's.
const configuration = `
env: sim
providers:
  openai: {type: openai, base_url: "http://127.0.0.1/v1"}
  anthropic: {type: anthropic, base_url: "http://127.0.0.1"}
  gemini: {type: gemini, base_url: "http://127.0.0.1"}
limits: {workers: WORKERS}
workflows:
  external: {match: {paths: ["/by-name-only"]}, effect: external, idempotency: {window: 10m}, TIMES}
  strict: {match: {paths: ["/by-name-only"]}, durability: strict, TIMES}
  pipeline: {match: {paths: ["/by-name-only"]}, idempotency: {derive: always}, TIMES}
  conflict: {match: {paths: ["/by-name-only"]}, idempotency: {on_in_flight: conflict}, TIMES}
  wait: {match: {paths: ["/by-name-only"]}, idempotency: {on_in_flight: wait}, TIMES}
  cancel: {match: {paths: ["/by-name-only"]}, on_disconnect: cancel, TIMES}
  default: {TIMES}
`

const times = `bridge_after: 1s, finish_limit: 20s, timeouts: {first_token: 8s, idle: 5s, attempt: 12s, total: 15s, request: 25s, stream: 30s}`

func configure(workers int) (*policy.Config, error) {
	text := strings.ReplaceAll(strings.ReplaceAll(configuration, "TIMES", times), "WORKERS", fmt.Sprint(workers))
	cfg, faults := policy.Parse("simulation.yaml", []byte(text), os.LookupEnv)
	if cfg == nil {
		return nil, fmt.Errorf("policy: %v", faults)
	}
	return cfg, nil
}

const storePath = "/disk/holdfast.db"

// world is what every history begins with.
type world struct {
	disk     *faultdisk.Disk
	policies map[int]*policy.Config
	dir      string
	verbose  bool
	dirs     atomic.Int64
}

// history is one life of the engine.
type history struct {
	world *world
	plan  *plan
	disk  *faultdisk.Disk
	began time.Time
	far   *provider

	mu       sync.Mutex
	near     *process // nil while it is down
	skew     time.Duration
	fault    func(faultdisk.Op) error
	downs    []time.Time // when a process ended, or the disk suffered
	hard     []time.Time // … and could do nothing, not only was slow
	requests []*request
	maxDrain int
	wrong    []string
	log      strings.Builder

	dead   sync.WaitGroup // what is left of processes that died
	cutRng *rand.Rand
}

func (h *history) logf(format string, a ...any) {
	if !h.world.verbose {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprintf(&h.log, "%9.3fs  ", time.Since(h.began).Seconds())
	fmt.Fprintf(&h.log, format+"\n", a...)
}

// violation notes that an invariant does not hold.
func (h *history) violation(format string, a ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrong = append(h.wrong, fmt.Sprintf(format, a...))
}

// happen lets one event come.
func (h *history) happen(e event) {
	h.mu.Lock()
	p := h.near
	h.mu.Unlock()
	switch e.Kind {
	case "power", "kill":
		if p != nil && e.Point == "" {
			h.die(p, e.Kind)
		} else if p != nil {
			p.armed.Store(&e)
		}
	case "restart":
		h.restart(p, e.For)
	case "step":
		h.mu.Lock()
		h.skew += e.Step
		h.mu.Unlock()
	default:
		h.suffer(e)
	}
}

func (h *history) restart(p *process, patience time.Duration) {
	if p == nil || p.dead.Load() {
		return
	}
	h.logf("event: restart")
	h.mu.Lock()
	h.near = nil
	h.suffers(true)
	h.mu.Unlock()
	p.shut(patience)
	if !p.dead.Load() { // else its death revives it
		h.revive()
	}
}

// suffers notes the time of a fault, or of its end; h.mu is held.
func (h *history) suffers(hard bool) {
	h.downs = append(h.downs, time.Now())
	if hard {
		h.hard = append(h.hard, time.Now())
	}
}

// suffer makes the disk slow or faulty for a time, or for one sync of the log.
func (h *history) suffer(e event) {
	h.logf("event: disk: %s for %v", e.Kind, e.For)
	var once atomic.Bool
	h.setFault(e.Kind != "slow" || e.Delay > mild, func(op faultdisk.Op) error {
		switch {
		case e.Kind == "sync" && op.Kind == faultdisk.Sync && strings.HasSuffix(op.File, "-wal") && once.CompareAndSwap(false, true):
			return syscall.EIO
		case e.Kind == "slow" && op.Kind == faultdisk.Sync:
			time.Sleep(e.Delay)
		case e.Kind == "eio" && (op.Kind == faultdisk.Sync || op.Kind == faultdisk.Write):
			return syscall.EIO
		case e.Kind == "enospc" && op.Kind == faultdisk.Write:
			return syscall.ENOSPC
		}
		return nil
	})
	time.Sleep(e.For)
	h.setFault(e.Kind != "slow" || e.Delay > mild, nil)
	h.logf("event: disk: well")
}

func (h *history) setFault(hard bool, f func(faultdisk.Op) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault = f
	h.suffers(hard)
	h.disk.SetFault(f)
}

// live plays the plan to its end. It is called in a bubble.
func (h *history) live() {
	h.began = time.Now()
	h.cutRng = rand.New(rand.NewPCG(h.plan.Seed, 9))
	h.disk.SetFault(nil)
	h.far = newProvider(h)
	defer h.far.close()
	p, err := h.start()
	if err != nil {
		h.violation("the first start: %v", err)
		return
	}
	h.near = p
	var clients, events sync.WaitGroup
	for i := range h.plan.Ops {
		o := &h.plan.Ops[i]
		for j := range o.Clients {
			clients.Go(func() { h.client(o, j) })
		}
	}
	for _, e := range h.plan.Events {
		events.Go(func() { time.Sleep(e.At); h.happen(e) })
	}
	watched := make(chan struct{})
	ended := make(chan struct{})
	go func() { defer close(watched); h.watch(ended) }()
	clients.Wait()
	events.Wait()
	h.dead.Wait()
	h.probe()
	close(ended)
	<-watched
	h.rest()
}

// watch samples what must stay bounded.
func (h *history) watch(ended chan struct{}) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		h.mu.Lock()
		p := h.near
		h.mu.Unlock()
		if p != nil {
			for _, g := range p.gateways() {
				h.maxDrain = max(h.maxDrain, g.Holding().Drains)
			}
		}
	}
}

// probe asks once more for everything that has a key, of a gateway that suffers nothing.
func (h *history) probe() {
	time.Sleep(10 * time.Second)
	var all sync.WaitGroup
	for i := range h.plan.Ops {
		o := &h.plan.Ops[i]
		if o.Key || o.Workflow == "pipeline" {
			all.Go(func() { h.ask(o, -1, nil, &try{Leave: stays, Delay: time.Millisecond, Room: 64 << 10}, 0, false) })
		}
	}
	all.Wait()
}

// rest waits until everything must be over, checks, and ends the last process.
func (h *history) rest() {
	h.mu.Lock()
	p := h.near
	h.mu.Unlock()
	if p == nil {
		return
	}
	time.Sleep(90 * time.Second)
	for _, g := range p.gateways() {
		if held := g.Holding(); held != (gateway.Holding{}) {
			h.violation("at rest the gateway holds %+v", held)
		}
	}
	p.armed.Store(nil)
	records := h.records(p.store)
	attempts := h.attempts(p.store, records)
	p.shut(30 * time.Second)
	h.check(records, attempts)
}

func (h *history) records(l ledger.Ledger) []*ledger.Record {
	var all []*ledger.Record
	before := ""
	for {
		page, err := l.List(context.Background(), ledger.Filter{Limit: 1000, Before: before})
		if err != nil {
			h.violation("the log cannot be read: %v", err)
			return all
		}
		all = append(all, page...)
		if len(page) < 1000 {
			return all
		}
		before = page[len(page)-1].ID
	}
}

// attempts are those of one intent, as its history has them.
type attempts struct {
	began int
	ends  []ledger.AttemptEnd
}

func (h *history) attempts(l ledger.Ledger, records []*ledger.Record) map[string]attempts {
	byID := map[string]attempts{}
	for _, r := range records {
		list, err := l.History(context.Background(), r.ID)
		if err != nil {
			h.violation("the history of %s cannot be read: %v", r.ID, err)
		}
		var a attempts
		for _, e := range list {
			switch e.Kind {
			case "attempt":
				a.began++
			case "attempt_end":
				a.ends = append(a.ends, e.End)
			}
		}
		byID[r.ID] = a
	}
	return byID
}
