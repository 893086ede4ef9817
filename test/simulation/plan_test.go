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
)

// try is one request.
type try struct {
	Wait     time.Duration // before it
	Leave    leave
	After    time.Duration // of early
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
	For   time.Duration // of a fault of the disk; of a drain
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

// sickDisk says that commits may fail for a time: what was not recorded then is found by the next process only.
func (p *plan) sickDisk() bool {
	return slices.ContainsFunc(p.Events, func(e event) bool { return e.Kind == "slow" || e.Kind == "eio" || e.Kind == "enospc" })
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
	case m.chance(0.08):
		o := m.endangered(len(p.Ops) + 1)
		p.Ops, p.Events = append(p.Ops, o), append(p.Events, m.death(&o))
	case m.chance(0.5):
		for range 1 + m.IntN(2) {
			p.Events = append(p.Events, m.event())
		}
	}
	return p
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
	case m.chance(0.1):
		m.seeker(&o)
		return o
	case o.Stream && m.chance(0.1):
		m.resumer(&o)
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

// crowd has many ask at once: a vote without a key, with one a storm of retries.
func (m maker) crowd(o *op) {
	at := m.between(0, 2*time.Second)
	for range 2 + m.IntN(5) {
		o.Clients = append(o.Clients, client{At: at + m.between(0, 200*time.Millisecond), Tries: []try{patient()}})
	}
}

// flood has many leave answers behind that take long.
func (m maker) flood(o *op) {
	o.Key, o.Workflow = false, "default"
	for range 3 + m.IntN(6) {
		o.Turns = append(o.Turns, turn{Do: works, Work: m.between(2*time.Second, 9*time.Second)})
		t := patient()
		t.Leave, t.After = early, m.between(20*time.Millisecond, 900*time.Millisecond)
		o.Clients = append(o.Clients, client{At: m.between(0, time.Second), Tries: []try{t}})
	}
}

// twins has some ask at the same instant for what one has lost, while it still runs.
func (m maker) twins(o *op) {
	o.Key, o.Workflow = false, "default"
	o.Turns = []turn{{Do: works, Work: m.between(time.Second, 4*time.Second), Pace: m.between(0, time.Second)}}
	t := patient()
	t.Leave, t.Part, t.After = pick(m, early, early, resets, broken), m.Float64(), m.between(10*time.Millisecond, 900*time.Millisecond)
	at := m.between(time.Second, 5*time.Second)
	o.Clients = []client{{At: at - m.between(0, time.Second), Tries: []try{t}}}
	for range 2 + m.IntN(2) {
		o.Clients = append(o.Clients, client{At: at + m.between(0, 30*time.Millisecond), Tries: []try{patient()}})
	}
}

// seeker loses its answer again and again, and asks until it has it.
func (m maker) seeker(o *op) {
	o.Key, o.Workflow = false, "default"
	c := client{At: m.between(0, 3*time.Second), Counted: m.chance(0.3)}
	if m.chance(0.3) {
		o.Turns = []turn{{Do: works, Work: m.between(0, 4*time.Second), Pace: m.between(0, time.Second)}}
	}
	for range 1 + m.IntN(3) {
		t := m.try()
		t.Fresh, t.Deadline, t.Timeout = false, 0, 0
		t.Leave = pick(m, early, resets, resets, broken, broken, hears)
		c.Tries = append(c.Tries, t)
	}
	last := patient()
	last.Wait = m.between(60*time.Millisecond, 3*time.Second)
	c.Tries = append(c.Tries, last)
	o.Clients = []client{c}
}

// endangered asks for an effect that takes its time, and again when its gateway died meanwhile.
func (m maker) endangered(id int) op {
	o := op{ID: id, Wire: pick(m, "openai", "anthropic", "gemini"), Stream: m.chance(0.5), Workflow: pick(m, "external", "external", "strict"), Key: true}
	o.Turns = []turn{{Do: pick(m, works, hangs), Work: m.between(0, time.Second), Wait: m.between(0, 3*time.Second), Pace: m.between(0, time.Second)}}
	c := client{At: m.between(time.Second, 3*time.Second), Counted: m.chance(0.5)}
	for range 2 + m.IntN(3) {
		t := patient()
		t.Wait = m.between(60*time.Millisecond, 3*time.Second)
		c.Tries = append(c.Tries, t)
	}
	o.Clients = []client{c}
	return o
}

// death comes while o's first call is on its way.
func (m maker) death(o *op) event {
	t := o.Turns[0]
	return event{At: o.Clients[0].At + m.between(time.Millisecond, t.Work+t.Wait+2*t.Pace+10*time.Millisecond), Kind: pick(m, "power", "kill", "restart"), For: m.between(0, 2*time.Second)}
}

// resumer asks for the rest of a stream that the provider, or the network, cut.
func (m maker) resumer(o *op) {
	t := m.try()
	t.Leave, t.Part = pick(m, stays, resets, broken), 0.3+0.6*m.Float64()
	if m.chance(0.7) {
		o.Turns = []turn{{Do: pick(m, cuts, errs, stops, stalls), Part: 0.4 + 0.5*m.Float64(), Wait: m.between(0, 8*time.Second), Reset: m.chance(0.5)}}
	}
	o.Clients = []client{{At: m.between(0, 3*time.Second), Resumes: true, Tries: []try{t, m.try(), patient()}}}
}

func (m maker) client(o *op) client {
	c := client{At: m.between(0, 6*time.Second), Counted: m.chance(0.3), Resumes: o.Stream && m.chance(0.3)}
	for range 1 + m.IntN(3) {
		c.Tries = append(c.Tries, m.try())
	}
	if o.Key && m.chance(0.2) {
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

// parts names everything of the plan that can be left out of it.
func (p *plan) parts() (names []string) {
	for i := range p.Ops {
		o := &p.Ops[i]
		names = append(names, fmt.Sprintf("o%d", o.ID))
		for j := range o.Turns {
			names = append(names, fmt.Sprintf("o%dt%d", o.ID, j))
		}
		for j := range o.Clients {
			names = append(names, fmt.Sprintf("o%dc%d", o.ID, j))
			for k := range o.Clients[j].Tries {
				names = append(names, fmt.Sprintf("o%dc%dl%d", o.ID, j, k))
			}
		}
	}
	for i := range p.Events {
		names = append(names, fmt.Sprintf("e%d", i))
	}
	return names
}

// without leaves parts out: operations, clients and events are gone, turns work, tries stay.
func (p *plan) without(parts []string) *plan {
	out := func(format string, a ...any) bool { return slices.Contains(parts, fmt.Sprintf(format, a...)) }
	q := *p
	q.Ops, q.Events = nil, nil
	for _, o := range p.Ops {
		if out("o%d", o.ID) {
			continue
		}
		o.Turns = slices.Clone(o.Turns)
		for j := range o.Turns {
			if out("o%dt%d", o.ID, j) {
				o.Turns[j] = turn{Do: works}
			}
		}
		var kept []client
		for j, c := range o.Clients {
			c.Tries = slices.Clone(c.Tries)
			for k := range c.Tries {
				if out("o%dc%dl%d", o.ID, j, k) {
					c.Tries[k] = patient()
				}
			}
			if !out("o%dc%d", o.ID, j) {
				kept = append(kept, c)
			}
		}
		o.Clients = kept
		q.Ops = append(q.Ops, o)
	}
	for i, e := range p.Events {
		if !out("e%d", i) {
			q.Events = append(q.Events, e)
		}
	}
	return &q
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
			fmt.Fprintf(&b, "    client at %v counted=%t resumes=%t %s\n", c.At, c.Counted, c.Resumes, c.Twist)
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
