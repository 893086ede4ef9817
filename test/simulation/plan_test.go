package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// plan is one history before it happens: everything that its seed decides.
type plan struct {
	Why     string `json:",omitempty"` // of a kept one: what it once showed
	Seed    uint64
	Workers int // limits.workers
	Pieces  int // contents of every answer
	Ops     []op
	Events  []event
	End     time.Duration // when the last client begins, at the latest
}

// op is one meaning: the requests of all its clients say the same.
type op struct {
	ID       int
	Workflow string
	Wire     string
	Stream   bool
	Key      bool // the caller's own key
	Turns    []turn
	Clients  []client
}

// client asks until it has its answer, or gives up.
type client struct {
	At      time.Duration
	Tries   []try
	Counted bool   // its SDK counts retries
	Resumes bool   // it asks for the rest of a stream
	Twist   string // "path", "number": the same key for another request
	Rival   bool   // it asks the program's other gateway, which shares the log and knows of no running call of this one
}

// how a client leaves its connection.
type leave string

const (
	stays   leave = "stays"
	early   leave = "early"   // before any byte came, by a reset
	resets  leave = "resets"  // by a reset, at a byte of the body
	closes  leave = "closes"  // in order as far as it can, at a byte of the body
	hears   leave = "hears"   // by a reset behind the last byte
	broken  leave = "broken"  // the network resets it, at a byte of the answer
	dark    leave = "dark"    // the network falls silent, at a byte of the answer
	endless leave = "endless" // it stops reading for long, at a byte of the body
	silent  leave = "silent"  // the network falls silent, and the client soon asks again: nobody here has heard of an end
)

// try is one request.
type try struct {
	Wait     time.Duration // before it
	Leave    leave
	After    time.Duration // of early, and of a silent network: the client's patience
	Part     float64       // of the answer
	Delay    time.Duration // of the network
	Room     int           // in the buffers
	Slow     time.Duration // between two reads
	Fresh    bool
	Deadline time.Duration
	Timeout  time.Duration // announced
}

// event is what happens to the gateway.
type event struct {
	At    time.Duration
	Kind  string
	For   time.Duration // of a fault of the disk, at the longest; of a drain
	Delay time.Duration // of each sync
	Step  time.Duration // of the wall clock
	Point string        // in a commit, for "power" and "kill"
}

// turn is what the provider does with the n-th call of an operation.
func (p *plan) turn(id, n int) turn {
	for i := range p.Ops {
		if o := &p.Ops[i]; o.ID == id && n < len(o.Turns) {
			return o.Turns[n]
		}
	}
	return turn{Do: works, Work: time.Millisecond}
}

func (p *plan) op(id int) *op {
	for i := range p.Ops {
		if p.Ops[i].ID == id {
			return &p.Ops[i]
		}
	}
	return nil
}

// faulty says that the gateway's process or disk suffers in this history.
func (p *plan) faulty() bool {
	return slices.ContainsFunc(p.Events, func(e event) bool { return e.Kind != "step" })
}

// maker draws a plan.
type maker struct{ *rand.Rand }

func (m maker) chance(p float64) bool { return m.Float64() < p }

func (m maker) between(lo, hi time.Duration) time.Duration {
	return (lo + time.Duration(m.Int64N(int64(hi-lo)+1))).Truncate(time.Millisecond)
}

func pick[T any](m maker, list ...T) T { return list[m.IntN(len(list))] }

// newPlan draws the history of a seed.
func newPlan(seed uint64) *plan {
	m := maker{rand.New(rand.NewPCG(seed, 7))}
	p := &plan{Seed: seed, Pieces: 2 + m.IntN(3), Workers: pick(m, 1000, 1000, 1000, 10, 5), End: 8 * time.Second}
	for i := range 1 + m.IntN(4) {
		p.Ops = append(p.Ops, m.op(i+1))
	}
	switch {
	case m.chance(0.4):
		o := op{ID: len(p.Ops) + 1, Wire: pick(m, "openai", "anthropic", "gemini")}
		pick(m, m.endangered, m.endangered, m.rivals, m.orphan, m.hasty, m.forgotten)(p, &o)
		p.Ops = append(p.Ops, o)
	case m.chance(0.5):
		for range 1 + m.IntN(2) {
			p.Events = append(p.Events, m.event())
		}
	}
	return p
}

// rival says that the program has another gateway in this history.
func (p *plan) rival() bool {
	return slices.ContainsFunc(p.Ops, func(o op) bool { return slices.ContainsFunc(o.Clients, func(c client) bool { return c.Rival }) })
}

func (m maker) op(id int) op {
	o := op{ID: id, Wire: pick(m, "openai", "openai", "anthropic", "gemini"), Stream: m.chance(0.6),
		Workflow: pick(m, "default", "default", "default", "strict", "external", "external", "pipeline", "cancel", "conflict", "wait")}
	o.Key = m.chance(0.45) && o.Workflow != "pipeline" || o.Workflow == "external"
	switch {
	case o.Key && m.chance(0.15) || o.Workflow == "default" && m.chance(0.2):
		m.crowd(&o)
		return o
	case m.chance(0.07):
		m.flood(&o)
		return o
	case m.chance(0.1):
		m.twins(&o)
		return o
	case m.chance(0.05):
		m.hurried(&o)
		return o
	case m.chance(0.1):
		m.seeker(&o)
		return o
	case o.Stream && m.chance(0.2):
		m.resumer(&o)
		return o
	case m.chance(0.07):
		m.stubborn(&o)
		return o
	}
	for range 1 + m.IntN(3) {
		o.Clients = append(o.Clients, m.client(&o))
	}
	if m.chance(0.5) {
		for range 1 + m.IntN(3) {
			o.Turns = append(o.Turns, m.turn(o.Stream))
		}
	}
	return o
}

// patient is a client's try that nothing happens to.
func patient() try {
	return try{Wait: time.Second, Leave: stays, Delay: time.Millisecond, Room: 64 << 10}
}

func (m maker) client(o *op) client {
	c := client{At: m.between(0, 6*time.Second), Counted: m.chance(0.3), Resumes: o.Stream && m.chance(0.3)}
	for range 1 + m.IntN(3) {
		c.Tries = append(c.Tries, m.try())
	}
	if o.Key && m.chance(0.35) {
		c.Twist = pick(m, "path", "number")
	}
	return c
}

func (m maker) try() try {
	t := try{Wait: m.between(60*time.Millisecond, 3*time.Second), Leave: stays, Part: m.Float64() * 1.05, After: m.between(0, time.Second),
		Delay: pick(m, 0, time.Millisecond, 5*time.Millisecond, 20*time.Millisecond), Room: pick(m, 64<<10, 64<<10, 300)}
	if m.chance(0.55) {
		t.Leave = pick(m, early, resets, resets, closes, hears, broken, broken, broken, dark, endless)
	}
	if m.chance(0.15) {
		t.Slow = m.between(10*time.Millisecond, 400*time.Millisecond)
	}
	if m.chance(0.08) {
		t.Fresh = true
	}
	if m.chance(0.08) {
		t.Deadline = m.between(100*time.Millisecond, 5*time.Second)
	}
	if m.chance(0.1) {
		t.Timeout = m.between(time.Second, 8*time.Second).Round(time.Second)
	}
	return t
}

func (m maker) turn(stream bool) turn {
	t := turn{Do: pick(m, works, refuses, failsAfter, drops, loses, hangs, cuts, cuts, stalls, stalls), Part: m.Float64(),
		Status: pick(m, 400, 429, 500, 503, 529), Wait: m.between(0, 10*time.Second), Work: m.between(0, time.Second), Reset: m.chance(0.5)}
	if stream && m.chance(0.5) {
		t.Do = pick(m, errs, stops, leads, leads)
		t.Pace = m.between(0, 300*time.Millisecond)
	}
	return t
}

func (m maker) event() event {
	e := event{At: m.between(200*time.Millisecond, 9*time.Second), Kind: pick(m, "power", "power", "kill", "restart", "slow", "slow", "eio", "enospc", "step"),
		For: m.between(100*time.Millisecond, 4*time.Second), Delay: m.between(50*time.Millisecond, 3*time.Second), Step: pick(m, time.Hour, -time.Hour)}
	if e.Kind == "power" || e.Kind == "kill" {
		e.Point = pick(m, "", "", "commit.before", "commit.write", "commit.sync", "commit.synced", "commit.after")
	}
	return e
}

func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d workers, %d pieces\n", p.Seed, p.Workers, p.Pieces)
	for _, o := range p.Ops {
		fmt.Fprintf(&b, "  op %d: %s %s stream=%t key=%t\n", o.ID, o.Workflow, o.Wire, o.Stream, o.Key)
		for _, t := range o.Turns {
			fmt.Fprintf(&b, "    turn %+v\n", t)
		}
		for _, c := range o.Clients {
			fmt.Fprintf(&b, "    client at %v counted=%t resumes=%t rival=%t %s\n", c.At, c.Counted, c.Resumes, c.Rival, c.Twist)
			for _, t := range c.Tries {
				fmt.Fprintf(&b, "      %+v\n", t)
			}
		}
	}
	for _, e := range p.Events {
		fmt.Fprintf(&b, "  event %+v\n", e)
	}
	return b.String()
}
