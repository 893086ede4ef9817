package intent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// Patrol says how unknown outcomes are found out. Plan is needed.
type Patrol struct {
	// Plan is how the outcome of r is found out; false: a person decides. It is asked before each check.
	Plan func(r *ledger.Record) (Plan, bool)
	// Returned is told of work that did not happen and is to be done again.
	Returned func(id string)
}

const (
	// sweepEvery is how often the log is read for unknown outcomes that nobody announced.
	sweepEvery = time.Minute
	// checkLimit bounds one read of the far side.
	checkLimit = 30 * time.Second
	// checksAtOnce bounds the reads under way.
	checksAtOnce = 8
	// checkRetry is the wait where the store kept a check from being recorded.
	checkRetry = 5 * time.Second
)

// patrol is what is known in this process of checks to come; all of it can be read again from the log.
type patrol struct {
	mu    sync.Mutex
	due   map[string]time.Time // ledger time of the next check
	fresh []string             // became unknown and are not planned yet
	busy  map[string]bool
	asked map[string]bool // a person was asked; only evidence from elsewhere changes that
	waits map[string]bool // could not be looked at when it was due
	turn  int             // of Reconsider
	nudge chan struct{}
}

func newPatrol() *patrol {
	return &patrol{due: map[string]time.Time{}, busy: map[string]bool{}, asked: map[string]bool{}, waits: map[string]bool{}, nudge: make(chan struct{}, 1)}
}

func (p *patrol) wake() {
	select {
	case p.nudge <- struct{}{}:
	default:
	}
}

// maxFresh bounds what waits to be planned; the sweep finds the rest.
const maxFresh = 1 << 12

// lost is told of an operation whose outcome has become unknown.
func (p *patrol) lost(id string) {
	p.mu.Lock()
	delete(p.asked, id)
	if len(p.fresh) < maxFresh {
		p.fresh = append(p.fresh, id)
	}
	p.mu.Unlock()
	p.wake()
}

// found is told of an operation whose outcome is no longer unknown.
func (p *patrol) found(id string) { p.forget(id, false) }

// NextCheck is how long it takes until the outcome of an unknown operation is looked for again, at least; false where
// a person decides, or nothing is planned yet.
func (g *Log) NextCheck(id string) (time.Duration, bool) {
	p := g.patrol
	p.mu.Lock()
	at, ok := p.due[id]
	if p.busy[id] {
		ok = true
	}
	p.mu.Unlock()
	return max(at.Sub(g.ledger.Now()), 0), ok
}

// Reconsider has every unknown operation looked at again now: a plan may have come that was not there before.
func (g *Log) Reconsider() {
	p := g.patrol
	p.mu.Lock()
	clear(p.asked)
	p.turn++
	for id := range p.waits {
		if _, due := p.due[id]; due {
			p.due[id] = time.Time{}
		}
	}
	p.fresh = append(p.fresh, "")
	p.mu.Unlock()
	p.wake()
}

// Reconcile finds out the outcomes of unknown operations until ctx ends, and returns when no check is under way. It is
// called once. The schedule is read from the log: a restart goes on where the last process stopped, with what
// recovery found too.
func (g *Log) Reconcile(ctx context.Context, c Patrol) error {
	p := g.patrol
	var all sync.WaitGroup
	defer all.Wait()
	slots := make(chan struct{}, checksAtOnce)
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	g.sweepUnknown(ctx, &c)
	for {
		g.planFresh(ctx, &c)
		timer.Reset(g.runDue(ctx, &c, &all, slots))
		select {
		case <-ctx.Done():
			return nil
		case <-p.nudge:
		case <-timer.C:
		case <-sweep.C:
			g.sweepUnknown(ctx, &c)
		}
	}
}

// planFresh plans what became unknown since the last look.
func (g *Log) planFresh(ctx context.Context, c *Patrol) {
	p := g.patrol
	p.mu.Lock()
	fresh := p.fresh
	p.fresh = nil
	p.mu.Unlock()
	for _, id := range fresh {
		if id == "" {
			g.sweepUnknown(ctx, c)
			continue
		}
		g.plan(ctx, c, id)
	}
}

// sweepUnknown plans every unknown operation of the log that is not planned yet.
func (g *Log) sweepUnknown(ctx context.Context, c *Patrol) {
	for before := ""; ctx.Err() == nil; {
		records, err := g.ledger.List(ctx, ledger.Filter{States: []ledger.State{ledger.Unknown}, Unsettled: true, Before: before, Limit: page})
		if err != nil {
			if ctx.Err() == nil {
				g.logger.Warn("unknown outcomes could not be read; the next sweep tries again", "error", err)
			}
			return
		}
		for _, r := range records {
			before = r.ID
			if !g.patrol.known(r.ID) {
				g.planRecord(ctx, c, r)
			}
		}
		if len(records) < page {
			return
		}
	}
}

func (p *patrol) known(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, due := p.due[id]
	return due || p.busy[id] || p.asked[id]
}

func (g *Log) plan(ctx context.Context, c *Patrol, id string) {
	r, err := g.ledger.Get(ctx, id)
	if err != nil {
		return // swept, or the store is away: the sweep finds it
	}
	g.planRecord(ctx, c, r)
}

// planRecord sets the time of the next check of one operation, or asks a person.
func (g *Log) planRecord(ctx context.Context, c *Patrol, r *ledger.Record) {
	p := g.patrol
	plan, ok := c.Plan(r)
	if r.State != ledger.Unknown || !ok {
		p.forget(r.ID, r.State == ledger.Unknown)
		return
	}
	events, err := g.ledger.History(ctx, r.ID)
	if err != nil {
		return
	}
	s := standingOf(events)
	at, more := s.next(&plan)
	if !more {
		g.ask(r, &s)
		p.forget(r.ID, true)
		return
	}
	p.mu.Lock()
	p.due[r.ID] = at
	p.mu.Unlock()
}

func (p *patrol) forget(id string, asked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.due, id)
	delete(p.asked, id)
	delete(p.waits, id)
	if asked {
		p.asked[id] = true
	}
}

// ask says once that no check can tell: it waits for a person.
func (g *Log) ask(r *ledger.Record, s *standing) {
	if s.alerted {
		return
	}
	g.logger.Warn("an outcome stays unknown: no check could tell, a person decides (holdfast intents resolve)", "intent", r.ID,
		"workflow", r.Workflow, "checks", s.checks, "since", s.since)
	reason := fmt.Sprintf("%d checks could not tell what became of it: it waits for a person", s.checks)
	err := g.Load(r).Patient().alert(ledger.Event{Kind: alertKind, Actor: "engine", Reason: reason, Rule: "reconcile.attempts"})
	if err != nil {
		g.logger.Warn("an alert could not be recorded; it is given again", "intent", r.ID, "error", err)
	}
}

// runDue begins the checks whose time has come and returns how long it is until the next.
func (g *Log) runDue(ctx context.Context, c *Patrol, all *sync.WaitGroup, slots chan struct{}) time.Duration {
	p := g.patrol
	wait := sweepEvery
	now := g.ledger.Now()
	var ready []string
	p.mu.Lock()
	for id, at := range p.due {
		if d := at.Sub(now); d > 0 {
			wait = min(wait, d)
		} else if !p.busy[id] {
			ready = append(ready, id)
		}
	}
	p.mu.Unlock()
	for _, id := range ready {
		select {
		case slots <- struct{}{}:
		default:
			return wait // whoever is done looks again
		}
		p.begin(id)
		all.Go(func() {
			defer func() { <-slots; p.wake() }()
			g.check(ctx, c, id)
		})
	}
	return wait
}

func (p *patrol) begin(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.due, id)
	p.busy[id] = true
}

// done says when to look again; zero: it was planned anew, or is no longer unknown.
func (p *patrol) done(id string, again time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.busy, id)
	if !again.IsZero() {
		p.due[id] = again
	}
}

// check looks at the far side once, records what it found and draws the conclusion.
func (g *Log) check(ctx context.Context, c *Patrol, id string) {
	var again time.Time
	defer func() { g.patrol.done(id, again) }()
	retry := func() { again = g.ledger.Now().Add(checkRetry) }
	r, err := g.ledger.Get(ctx, id)
	if err != nil {
		if !errors.Is(err, ledger.ErrNotFound) {
			retry()
		}
		return
	}
	plan, ok := c.Plan(r)
	if !ok || r.State != ledger.Unknown {
		return
	}
	s, due, err := g.dueNow(ctx, r, &plan)
	switch {
	case err != nil:
		retry()
		return
	case !due:
		g.planRecord(ctx, c, r)
		return
	}
	turn := g.patrol.now()
	release, err := g.watch(r, &plan)
	switch {
	case errors.Is(err, ErrNotNow):
		_, _ = g.look(ctx, &plan, r) // which says why
		again = g.waitLonger(r, &plan, turn)
		return
	case err != nil:
		retry()
		return
	}
	began := g.ledger.Now()
	f, looked := g.look(ctx, &plan, r)
	if ctx.Err() != nil {
		release()
		return // a look that was broken off says nothing and counts for nothing
	}
	if !looked {
		release()
		again = g.waitLonger(r, &plan, turn)
		return
	}
	err = g.conclude(c, &plan, r, &s, f, began)
	if err != nil && !errors.Is(err, ledger.ErrStale) {
		g.logger.Warn("a check could not be recorded; it is made again", "intent", id, "error", err)
		retry()
		return
	}
	g.plan(ctx, c, id)
}

// conclude records a check and moves the operation where it proves something.
func (g *Log) conclude(c *Patrol, plan *Plan, r *ledger.Record, s *standing, f Finding, began time.Time) error {
	found, final, reason := s.judge(plan, f, began)
	line := f.event(plan, s.checks+1, found, reason, began)
	o := g.Load(r).Patient()
	var err error
	switch {
	case !final:
		g.logger.Info("checked an unknown outcome", "intent", r.ID, "by", plan.Name, "check", s.checks+1, "found", found.String(), "reason", reason)
		return o.checkedOnce(line)
	case found == Happened:
		err = o.happened(f, plan, line)
	default:
		var again bool
		if again, err = o.didNotHappen(f, plan, line); err == nil && again && c.Returned != nil {
			c.Returned(r.ID)
		}
	}
	if errors.Is(err, ledger.ErrStale) { // a person or a late answer was quicker
		return g.note(r.ID, line)
	}
	if err == nil {
		g.logger.Info("reconciled", "intent", r.ID, "by", plan.Name, "check", s.checks+1, "found", found.String(), "reason", reason)
	}
	return err
}

// now counts the calls of Reconsider.
func (p *patrol) now() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turn
}

// waitLonger says when to try again what could not be looked at: at once, where Reconsider was called since turn.
func (g *Log) waitLonger(r *ledger.Record, plan *Plan, turn int) time.Time {
	p, now := g.patrol, g.ledger.Now()
	p.mu.Lock()
	again, waited := p.turn != turn, p.waits[r.ID]
	p.waits[r.ID] = true
	p.mu.Unlock()
	if again {
		return now
	}
	if !waited {
		g.logger.Warn("an outcome stays unknown for now: it cannot be looked for", "intent", r.ID, "workflow", r.Workflow, "by", plan.Name)
	}
	return now.Add(plan.Every)
}

// look asks the reconciler, within bounds. Its error says nothing of the effect. looked is false where it could not look.
func (g *Log) look(ctx context.Context, plan *Plan, r *ledger.Record) (f Finding, looked bool) {
	ctx, stop := context.WithTimeout(ctx, checkLimit)
	defer stop()
	defer func() {
		if broke := recover(); broke != nil {
			g.logger.Error("panic in a reconciler", "intent", r.ID, "by", plan.Name, "panic", fmt.Sprint(broke), "stack", string(debug.Stack()))
			f, looked = Finding{Reason: "the reconciler panicked"}, true
		}
	}()
	f, err := plan.Reconciler.Check(ctx, r)
	if errors.Is(err, ErrNotNow) {
		g.logger.Debug("an unknown outcome could not be looked for", "intent", r.ID, "by", plan.Name, "error", err)
		return Finding{}, false
	}
	if err != nil {
		g.logger.Warn("a check failed", "intent", r.ID, "by", plan.Name, "error", err)
		f = Finding{Reason: cmp.Or(f.Reason, "the check failed"), Evidence: f.Evidence}
		if errors.Is(err, context.DeadlineExceeded) {
			f.Reason = "the check took too long"
		}
	}
	return f, true
}
