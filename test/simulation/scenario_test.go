package simulation

import "time"

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

// stubborn asks again under its key while the provider fails in passing: no such failure is kept (semantics 14).
func (m maker) stubborn(o *op) {
	o.Key, o.Workflow = true, pick(m, "default", "strict", "wait", "conflict")
	for range 3 + m.IntN(6) {
		o.Turns = append(o.Turns, turn{Do: refuses, Status: pick(m, 500, 503, 529), Work: m.between(0, 100*time.Millisecond)})
	}
	c := client{At: m.between(0, 3*time.Second), Counted: m.chance(0.5)}
	for range 4 {
		t := patient()
		t.Wait = m.between(100*time.Millisecond, 2*time.Second)
		c.Tries = append(c.Tries, t)
	}
	o.Clients = []client{c}
}

// hurried has a vote whose network falls silent, and all ask again, counting their retries, before anybody here has
// heard of an end: as many predecessors, each to be adopted once (semantics 20).
func (m maker) hurried(o *op) {
	o.Key, o.Workflow = false, "default"
	o.Turns = []turn{{Do: works, Work: m.between(0, 2*time.Second)}}
	at := m.between(0, 3*time.Second)
	for range 2 + m.IntN(4) {
		t := patient()
		t.Leave, t.Part, t.After = silent, m.Float64(), m.between(500*time.Millisecond, 1500*time.Millisecond)
		again := patient()
		again.Wait = m.between(0, 300*time.Millisecond)
		o.Clients = append(o.Clients, client{At: at + m.between(0, 100*time.Millisecond), Counted: true, Tries: []try{t, again}})
	}
}

// endangered asks for an effect that takes its time, and again when its gateway died meanwhile, once or twice.
func (m maker) endangered(p *plan, o *op) {
	o.Stream, o.Workflow, o.Key = m.chance(0.5), pick(m, "external", "external", "strict"), true
	t := turn{Do: pick(m, works, hangs), Work: m.between(0, time.Second), Wait: m.between(0, 3*time.Second), Pace: m.between(0, time.Second)}
	o.Turns = []turn{t}
	c := client{At: m.between(time.Second, 3*time.Second), Counted: m.chance(0.5)}
	for range 2 + m.IntN(3) {
		again := patient()
		again.Wait = m.between(60*time.Millisecond, 3*time.Second)
		c.Tries = append(c.Tries, again)
	}
	o.Clients = []client{c}
	dies := m.death(c.At + m.between(time.Millisecond, t.Work+t.Wait+2*t.Pace+10*time.Millisecond))
	p.Events = append(p.Events, dies)
	if m.chance(0.4) {
		p.Events = append(p.Events, m.death(dies.At+m.between(100*time.Millisecond, 4*time.Second)))
	}
}

func (m maker) death(at time.Duration) event {
	return event{At: at, Kind: pick(m, "power", "kill", "restart"), For: m.between(0, 2*time.Second)}
}

// mild is a sync's delay that no commit outlives limits.commit_wait by.
const mild = 200 * time.Millisecond

// slow makes every sync take its time, so that what begins meanwhile meets on the way to the disk.
func (m maker) slow(p *plan, from, to time.Duration) {
	p.Events = append(p.Events, event{At: max(0, from-20*time.Millisecond), Kind: "slow", For: to - from + 500*time.Millisecond, Delay: m.between(50*time.Millisecond, 900*time.Millisecond)})
}

// rivals ask under one key, some of them the program's other gateway: only the log can say who was first (semantics 12).
func (m maker) rivals(p *plan, o *op) {
	o.Stream, o.Workflow, o.Key = m.chance(0.5), pick(m, "default", "external", "strict", "conflict", "wait"), true
	at := m.between(0, 3*time.Second)
	for i := range 2 + m.IntN(3) {
		o.Clients = append(o.Clients, client{At: at + m.between(0, 30*time.Millisecond), Rival: i%2 == 1, Tries: []try{patient(), patient()}})
	}
	m.slow(p, at, at+30*time.Millisecond)
}

// orphan is a repeatable call whose process dies; afterwards several want to go on with it at once (semantics 7).
func (m maker) orphan(p *plan, o *op) {
	o.Workflow, o.Key = pick(m, "default", "strict", "wait"), true
	o.Turns = []turn{{Do: works, Work: m.between(time.Second, 3*time.Second)}}
	at := m.between(500*time.Millisecond, 2*time.Second)
	o.Clients = []client{{At: at, Tries: []try{patient()}}}
	p.Events = append(p.Events, event{At: at + m.between(50*time.Millisecond, 900*time.Millisecond), Kind: pick(m, "power", "kill")})
	again := at + m.between(5*time.Second, 7*time.Second) // the next process is up by then
	for i := range 2 + m.IntN(3) {
		o.Clients = append(o.Clients, client{At: again + m.between(0, 30*time.Millisecond), Rival: i%2 == 1, Tries: []try{patient(), patient()}})
	}
	m.slow(p, again, again+30*time.Millisecond)
	e := &p.Events[len(p.Events)-1]
	e.Delay = min(e.Delay, mild)
}

// hasty leaves while its claim is on the way to the disk: no call is made for it (semantics 25).
func (m maker) hasty(p *plan, o *op) {
	o.Stream, o.Workflow = m.chance(0.5), pick(m, "default", "external", "strict", "cancel")
	o.Key = o.Workflow == "external" || m.chance(0.3)
	at := m.between(0, 3*time.Second)
	t := patient()
	t.Leave, t.After = early, m.between(10*time.Millisecond, 100*time.Millisecond)
	o.Clients = []client{{At: at, Tries: []try{t}}}
	m.slow(p, at, at)
	e := &p.Events[len(p.Events)-1]
	e.Delay = max(e.Delay, 200*time.Millisecond)
}

// forgotten is a call whose claim's first sync fails, before the power does: a disk that failed once has forgotten.
func (m maker) forgotten(p *plan, o *op) {
	o.Stream, o.Workflow = m.chance(0.5), pick(m, "default", "external", "strict")
	o.Key = o.Workflow == "external" || m.chance(0.5)
	at := m.between(time.Second, 4*time.Second)
	t := patient()
	t.Wait = m.between(10*time.Millisecond, 300*time.Millisecond)
	o.Clients = []client{{At: at, Tries: []try{t, t, patient(), patient()}}}
	p.Events = append(p.Events, event{At: at - time.Millisecond, Kind: "sync", For: 500 * time.Millisecond},
		event{At: at + m.between(5*time.Millisecond, time.Second), Kind: "power"})
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
