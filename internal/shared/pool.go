package shared

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

const (
	// leaseTTL is after what time the slots of a process that has died are free again.
	leaseTTL = 5 * time.Second
	// trusted is for how long a process counts on its lease: less than the store does, whatever their clocks do meanwhile.
	trusted = 4 * time.Second
	// renewEvery is how often a lease is renewed, and with it heard whether others want slots.
	renewEvery = 500 * time.Millisecond
	// idleAfter is how long a slot that nobody uses is kept for the next call.
	idleAfter = time.Second
	// unmetTTL is for how long others are told that something was wanted in vain.
	unmetTTL = time.Second
	// refusedFor is for how long the store's refusal is taken for an answer to others.
	refusedFor = 20 * time.Millisecond
	// gathering is how long after an outage a process takes no more than its share: so long others may not have said what they hold.
	gathering = 2 * time.Second
)

// Local is what hands slots out in this process.
type Local interface {
	// Lend sets how many slots there are, none for 0; those in use beyond that finish, and no others begin meanwhile.
	Lend(all, batch int)
	// Usage says how many are in use, and how many calls wait for one.
	Usage() (all, batch, waiting int)
}

// Pool has a limit hold over all processes: each has as many of its slots on lease as it needs for now, and hands them out by itself.
// The store never lets more out than the limit, so at no time are there more calls than that, however many processes there are; but for
// those of one that was cut off or stopped for longer than its lease, whose slots others have then.
type Pool struct {
	s     *State
	key   string
	local Local
	// until is when the slots that are lent are not ours any more, in nanoseconds since epoch; 0: never.
	until atomic.Int64
	// refused is until when there is no slot to be had, by the same clock; the second is for low-urgency work alone.
	refused [2]atomic.Int64

	mu     sync.Mutex
	limit  Slots
	open   Slots         // what Local may hand out
	told   Slots         // what the store believes that this process has
	link   *link         // under which; nil: the store is away
	joined time.Time     // since when
	seq    uint64        // of the last claim
	asking chan struct{} // closed when the claim in progress has ended; nil: none is
	renew  time.Time     // when the next claim is due
	peak   Slots         // most in use since window began
	window time.Time
	fleet  int  // holders, as last heard
	again  bool // a link before this one was lost
}

// epoch is where the clock of leases begins: monotonic, and one word.
var epoch = time.Now()

func since(t time.Time) int64 { return int64(t.Sub(epoch)) }

// Pool returns the pool of a name, which is the same in all processes, over what hands its slots out here. Close ends the sharing.
func (s *State) Pool(name string, local Local, limit Slots) *Pool {
	p := &Pool{s: s, key: "slots/" + name, local: local, limit: limit, fleet: 1}
	s.pools.add(p)
	return p
}

// Resize changes the limit that holds over all processes.
func (p *Pool) Resize(limit Slots) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit = limit; p.link == nil {
		p.lend(p.s.shareOf(limit))
		return
	}
	p.lend(p.open.atMost(limit))
}

// Close ends the sharing. What it has on lease runs out.
func (p *Pool) Close() { p.s.pools.remove(p) }

// Valid reports whether what is lent may be handed out: the lease has not run out unnoticed.
func (p *Pool) Valid() bool {
	until := p.until.Load()
	return until == 0 || since(time.Now()) < until || mutant.On("slot-lease-forever")
}

// Refused reports whether the store said a moment ago that there are no more slots, or is away.
func (p *Pool) Refused(batch bool) bool {
	now := since(time.Now())
	return !p.s.up.Load() || now < p.refused[0].Load() || batch && now < p.refused[1].Load()
}

// Limit is that over all processes.
func (p *Pool) Limit() Slots {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit
}

func (p *Pool) lend(n Slots) {
	p.open = n
	p.local.Lend(n.All, n.Batch)
}

// hold is what this process has in any case: what Local may hand out, and what is in use. It does not grow until lend. p.mu is held.
func (p *Pool) hold() Slots {
	used, batch, _ := p.local.Usage()
	return Slots{All: max(p.open.All, used), Batch: max(p.open.Batch, batch)}
}

// align takes notice of the store's coming and going: away, what is lent is the share; back, only what is in use is held, until the store
// has heard of it.
func (p *Pool) align(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link == l && (l != nil || p.open == p.s.shareOf(p.limit)) {
		return
	}
	p.again = p.again || p.link != nil || !p.joined.IsZero()
	p.link, p.told, p.renew = l, Slots{}, time.Time{}
	p.until.Store(0)
	p.refused[0].Store(0)
	p.refused[1].Store(0)
	if l == nil {
		p.lend(p.s.shareOf(p.limit))
		return
	}
	p.joined = time.Now()
	p.lend(Slots{})
}

// More asks the store for one slot more, and reports whether it is worth to look again. It is called where Local has none left. It waits
// for one call to the store at most and holds no lock meanwhile.
func (p *Pool) More(batch bool) bool {
	if p.Refused(batch) {
		return false
	}
	p.mu.Lock()
	if wait := p.asking; wait != nil { // what is being asked for may be enough for this one, too
		p.mu.Unlock()
		return p.awaits(wait)
	}
	c, done, l := p.claim(1, batch)
	p.mu.Unlock()
	return p.ask(c, done, l)
}

// awaits waits for somebody else's claim, no longer than for one call.
func (p *Pool) awaits(done <-chan struct{}) bool {
	timer := time.NewTimer(p.s.cfg.Timeout / callShare)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// claim begins one, for at least so many more slots where there are not so many free here. p.mu is held, and nobody else's is in progress.
func (p *Pool) claim(more int, batch bool) (Claim, chan struct{}, *link) {
	if !p.Valid() { // what was lent may be somebody else's by now, but for what is in use
		p.lend(Slots{})
	}
	c := Claim{Hold: p.hold(), Limit: p.limit, TTL: leaseTTL, UnmetTTL: unmetTTL}
	used, usedBatch, _ := p.local.Usage()
	// A few besides, so that the next calls need not ask.
	few := max(more, p.limit.All/(8*p.fleet))
	if more > 0 && used >= p.open.All {
		c.Want.All = few
	}
	if more > 0 && batch && usedBatch >= p.open.Batch {
		c.Want.Batch = few
	}
	if p.again && time.Since(p.joined) < gathering {
		most := p.s.shareOf(p.limit)
		c.Want = c.Want.atMost(Slots{All: most.All - c.Hold.All, Batch: most.Batch - c.Hold.Batch})
	}
	p.seq = max(p.seq+1, uint64(time.Now().UnixMicro()))
	c.Seq = p.seq
	p.asking = make(chan struct{})
	return c, p.asking, p.link
}

// ask makes a claim and lends what comes of it.
func (p *Pool) ask(c Claim, done chan struct{}, l *link) (more bool) {
	sent := time.Now()
	var g Grant
	err := p.s.ask("slots", func(ctx context.Context, d Driver) (err error) {
		g, err = d.Lease(ctx, p.key, p.s.cfg.Holder, c)
		return err
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asking = nil
	close(done)
	if err != nil || l == nil || p.link != l {
		return p.link == nil // local by now: then the share decides
	}
	p.fleet, p.told, p.renew = max(1, g.Holders), g.Slots, sent.Add(renewEvery)
	p.until.Store(since(sent.Add(trusted)))
	got := Slots{All: g.All - c.Hold.All, Batch: g.Batch - c.Hold.Batch}
	for i, none := range []bool{got.All < min(1, c.Want.All), got.Batch < min(1, c.Want.Batch)} {
		if none {
			p.refused[i].Store(since(sent.Add(refusedFor)))
		}
	}
	next := Slots{All: p.open.All + max(0, got.All), Batch: p.open.Batch + max(0, got.Batch)}
	if g.Wanted {
		next = next.atMost(p.fair(next))
	}
	if next != p.open {
		p.lend(next)
	}
	return got != (Slots{}) || c.Want == (Slots{}) // nothing was asked for where a slot had come back meanwhile
}

// fair is what this process keeps where others want slots in vain: no more than its part, and nothing idle. p.mu is held.
func (p *Pool) fair(have Slots) Slots {
	used, batch, _ := p.local.Usage()
	part := Slots{All: p.limit.All / p.fleet, Batch: p.limit.Batch / p.fleet}
	busy := Slots{All: max(used, p.peak.All), Batch: max(batch, p.peak.Batch)}
	return have.atMost(part).atMost(busy)
}

// tend is what the background does with a pool now and then.
func (p *Pool) tend() {
	p.mu.Lock()
	now := time.Now()
	used, batch, waiting := p.local.Usage()
	p.peak = Slots{All: max(p.peak.All, used), Batch: max(p.peak.Batch, batch)}
	if now.Sub(p.window) > idleAfter {
		if next := p.open.atMost(p.peak); next != p.open && p.link != nil {
			p.lend(next)
		}
		p.window, p.peak = now, Slots{All: used, Batch: batch}
	}
	hold := p.hold()
	short := waiting > 0 && !p.Refused(false)
	switch {
	case p.link == nil || p.asking != nil:
	case short, hold != p.told, hold != (Slots{}) && now.After(p.renew):
		c, done, l := p.claim(min(waiting, max(1, p.limit.All)), waiting > 0)
		p.mu.Unlock()
		p.ask(c, done, l)
		return
	}
	p.mu.Unlock()
}

func (n Slots) atMost(m Slots) Slots {
	return Slots{All: max(0, min(n.All, m.All)), Batch: max(0, min(n.Batch, m.Batch))}
}

func (s *State) shareOf(n Slots) Slots { return Slots{All: s.share(n.All), Batch: s.share(n.Batch)} }

// tendEvery is how often slots are looked after: idle ones go back, those who wait are asked for.
const tendEvery = 50 * time.Millisecond

// pools are all slots that this process shares with others.
type pools struct {
	s    *State
	mu   sync.Mutex
	list map[*Pool]bool
}

func (g *pools) init(s *State) { g.s, g.list = s, map[*Pool]bool{} }

func (g *pools) add(p *Pool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list[p] = true
	p.align(g.inForce())
}

func (g *pools) remove(p *Pool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.list, p)
}

func (g *pools) inForce() *link {
	if !g.s.up.Load() {
		return nil
	}
	return g.s.link.Load()
}

// align has every pool take notice of the store's coming or going. It asks what is so now, so that the last one to do so is right,
// whatever the order in which they came.
func (g *pools) align() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range g.list {
		p.align(g.inForce())
	}
}

func (g *pools) all() []*Pool {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]*Pool, 0, len(g.list))
	for p := range g.list {
		out = append(out, p)
	}
	return out
}

// tend looks after all pools until the store is let go of.
func (g *pools) tend(ctx context.Context) {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, p := range g.all() {
				p.tend()
			}
		case <-ctx.Done():
			return
		}
	}
}

// leave gives all slots back but for those in use, which run out.
func (g *pools) leave(ctx context.Context, d Driver) {
	for _, p := range g.all() {
		p.mu.Lock()
		p.lend(Slots{})
		c, done, _ := p.claim(0, false)
		p.mu.Unlock()
		_, err := d.Lease(ctx, p.key, g.s.cfg.Holder, c)
		close(done)
		if err != nil {
			return
		}
	}
}
