package gateway

import (
	"context"

	"github.com/holdfast-ai/holdfast/bulkhead"
	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
)

// edition is the gateway as one revision of the configuration makes it. Nothing of it changes any more: a call holds the
// one that was in force when it came, so that what is on record of it is what it was judged by (semantics 5). What lives
// longer than a configuration is the Gateway's, the routes' and, for bulkheads, what editions share.
type edition struct {
	*Gateway
	policy    *policy.Config
	providers map[string]*target
	wires     map[string]*target // first provider of each type
	guard     *Guard
	tools     map[string]*toolServer
	keyers    map[string]*idempotency.Keyer // by workflow
	nests     map[string]*rules             // by workflow
	caches    map[string]*caching           // by workflow
	common    *shared
	epoch     uint64 // of the routes' configuration
	absent    absence
}

// edition compiles a configuration. Nothing that is in use changes by it.
func (g *Gateway) edition(cfg *policy.Config) (*edition, error) {
	e := &edition{Gateway: g, policy: cfg, guard: NewGuard(cfg.Auth, heads(cfg)...), common: newShared(g.shared, g.current.Load())}
	var err error
	if e.providers, e.wires, err = targets(cfg); err != nil {
		return nil, err
	}
	if e.keyers, err = keyers(cfg); err != nil {
		return nil, err
	}
	if e.caches, err = caches(cfg); err != nil {
		return nil, err
	}
	e.nests = nests(cfg, e.providers, e.common)
	for _, t := range e.providers {
		t.mark = g.credentialMark(t.key)
	}
	if e.tools, err = tools(cfg, e.common); err != nil {
		return nil, err
	}
	for _, t := range e.tools {
		t.target.mark = g.credentialMark(t.conf.Name)
	}
	if g.routes != nil {
		e.epoch = g.routes.Epoch()
	}
	return e, nil
}

// Reload puts a configuration in force for the requests that come from now on; those in progress keep theirs. Slots in
// use, lines of those who wait, waiting jobs, breakers, cool-downs and retry budgets live on. limits.body_memory stays as it was at the
// start. One caller at a time. An error has changed nothing.
func (g *Gateway) Reload(cfg *policy.Config) error {
	next, err := g.edition(cfg)
	if err != nil {
		return err
	}
	if err := g.recount(context.Background(), cfg, daily(cfg, g.current.Load().policy)); err != nil {
		return err
	}
	next.common.resize()
	if g.routes != nil {
		next.epoch = g.routes.Reload()
	}
	g.current.Store(next)
	g.jobs.Reload(jobWorkers(cfg))
	g.callbacks.Reload(callbackWorkers)
	return nil
}

// Guard is that of the configuration in force.
func (g *Gateway) Guard() *Guard { return g.current.Load().guard }

// revision is what is recorded of the call's configuration.
func (c *call) revision() string {
	if mutant.On("reload-moves-calls") {
		return c.g.current.Load().policy.Revision
	}
	return c.g.policy.Revision
}

// shared is what tiers have in common, within an edition and with the one before: slots by their bulkhead, and who drains
// in them.
type shared struct {
	before *shared // nil once this one is in force
	of     Shared  // nil: each process counts for itself
	slots  map[string]slots
	sizes  map[string]bulkhead.Config
	drains map[string]*drains // "": in limits.workers
}

func newShared(of Shared, inForce *edition) *shared {
	s := &shared{of: of, slots: map[string]slots{}, sizes: map[string]bulkhead.Config{}, drains: map[string]*drains{}}
	if inForce != nil && !mutant.On("reload-new-bulkheads") {
		s.before = inForce.common
	}
	return s
}

// slotsOf are those in use under a key, which keep their size until resize; else new ones: of all replicas together where they share
// their state, else this one's part.
func (s *shared) slotsOf(key string, size bulkhead.Config, replicas int) slots {
	if s.of == nil {
		size.Max = part(size.Max, replicas)
	}
	slots := s.slots[key]
	if slots == nil && s.before != nil {
		slots = s.before.slots[key]
	}
	if slots == nil {
		slots = s.newSlots(key, size)
	}
	s.slots[key], s.sizes[key] = slots, size
	return slots
}

func (s *shared) drainsOf(key string) *drains {
	d := s.drains[key]
	if d == nil && s.before != nil {
		d = s.before.drains[key]
	}
	if d == nil {
		d = &drains{}
	}
	s.drains[key] = d
	return d
}

func (s *shared) newSlots(key string, size bulkhead.Config) slots {
	if s.of == nil {
		return bulkhead.New(size)
	}
	return s.of.Semaphore(key, size)
}

// resize gives all slots the size that this configuration says, and lets go of the one before.
func (s *shared) resize() {
	for key, slots := range s.slots {
		slots.Configure(s.sizes[key])
	}
	if s.before != nil {
		for key, old := range s.before.slots {
			if c, ok := old.(interface{ Close() }); ok && s.slots[key] != old {
				c.Close()
			}
		}
	}
	s.before = nil
}
