package queue

import (
	"container/heap"
	"slices"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// lineKey is all that a policy and a route can tell jobs apart by.
type lineKey struct {
	wayKey
	owner string
	// last marks those that the next crash of their worker gives up.
	last bool
}

// line is the jobs of one kind: they have the same rules, and stand or run together.
type line struct {
	key     lineKey
	head    ledger.Intent // of one of them
	rules   Rules
	way     *way
	gates   []*gate // which each of its jobs passes, and is counted at
	later   ranked[*entry]
	ready   ranked[*entry]
	working int
	alarm   alarm // of the first of later

	at  *ranked[*line] // those of its way, or those that stand before a gate; nil where none of its jobs is ready
	pos int
}

func newLine(k lineKey, head *ledger.Intent) *line {
	l := &line{key: k, head: *head, later: waiting(sooner)}
	l.ready = waiting(func(a, b *entry) bool { return less(l.rules.Order, a, b) })
	l.alarm.line = l
	return l
}

// first is the job of the line that goes next; there is one.
func (l *line) first() *entry { return l.ready.first() }

// ahead is the order between lines, whatever orders their jobs among themselves.
func ahead(a, b *line) bool { return less(defaultOrder, a.first(), b.first()) }

// standing is a heap of lines that have a job that is ready.
func standing() ranked[*line] {
	return ranked[*line]{less: ahead, place: func(l *line) *int { return &l.pos }}
}

// lineOf finds or makes the line of a job.
func (q *Queue) lineOf(head *ledger.Intent, crashes int) *line {
	return q.lineAt(lineKey{wayKeyOf(head), head.OwnerKey, q.lastChance(head, crashes)}, head)
}

func (q *Queue) lineAt(k lineKey, head *ledger.Intent) *line {
	if l := q.lines[k]; l != nil {
		return l
	}
	l := newLine(k, head)
	l.way = q.wayOf(k.wayKey, head)
	l.way.lines++
	q.rule(l)
	q.lines[k] = l
	return l
}

// lastChance reports whether one more crash ends a job that has been through some. Workers die with all that they have in
// hand, and only one of it was the cause: of such jobs one at a time is begun, so that each is given up for a crash of its own.
func (q *Queue) lastChance(head *ledger.Intent, crashes int) bool {
	if crashes == 0 || mutant.On("crash-takes-all") {
		return false
	}
	most := q.Rules(head).MaxAttempts
	return most > 0 && crashes+1 >= most
}

// rule gives a line the rules that hold for it now.
func (q *Queue) rule(l *line) {
	l.rules = q.Rules(&l.head)
	if len(l.rules.Order) == 0 {
		l.rules.Order = defaultOrder
	}
	heap.Init(&l.ready)
	was := l.gates
	l.gates = q.gatesOf(l)
	for _, g := range was {
		q.unhold(g)
	}
}

// Reload asks for the rules of every line again, and has as many workers as it says from now on. Jobs in a worker's hands
// end by the rules that they were taken by.
func (q *Queue) Reload(workers int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.Workers = workers
	for _, l := range q.lines {
		q.unplace(l)
		q.rule(l)
		q.place(l)
	}
	q.reopen()
	q.wake()
}

// place has a line stand where its next job has to: at the gate where it stands already, else with its way.
func (q *Queue) place(l *line) {
	switch {
	case l.ready.empty():
		q.unplace(l)
		return
	case l.at != nil:
		l.at.moved(l)
	default:
		l.at = &l.way.standing
		l.at.add(l)
	}
	q.rank(l.way)
}

func (q *Queue) unplace(l *line) {
	if l.at != nil {
		l.at.remove(l)
		l.at = nil
		q.rank(l.way)
	}
}

// push has a job wait until its time comes.
func (q *Queue) push(l *line, e *entry) {
	e.line, e.in = l, &l.later
	l.later.add(e)
	l.way.waiting++
	q.waiting++
	q.set(&l.alarm, l.later.first().readyAt)
	q.expect(e)
}

// promote moves those of a line whose time has come.
func (q *Queue) promote(l *line, now int64) {
	for !l.later.empty() && l.later.first().readyAt <= now {
		e := l.later.first()
		l.later.remove(e)
		e.in = &l.ready
		l.ready.add(e)
		q.ready++
	}
	q.later(l)
	q.place(l)
}

// later sets the alarm of a line by those whose time has not come.
func (q *Queue) later(l *line) {
	if l.later.empty() {
		q.unset(&l.alarm)
		return
	}
	q.set(&l.alarm, l.later.first().readyAt)
}

// pull takes a job out of its line, which stays.
func (q *Queue) pull(e *entry) {
	l, ready := e.line, e.in == &e.line.ready
	e.in.remove(e)
	e.line, e.in = nil, nil
	if e.late != nil {
		q.unset(e.late)
		e.late = nil
	}
	l.way.waiting--
	q.waiting--
	if ready {
		q.ready--
		q.place(l)
	} else {
		q.later(l)
	}
	q.drained(l.way)
}

// remove forgets a job that waits no more.
func (q *Queue) remove(e *entry) {
	l := e.line
	q.pull(e)
	delete(q.known, e.id)
	q.discount(e)
	q.drop(l)
}

// discount gives back what is kept of a job.
func (q *Queue) discount(e *entry) {
	if e.fresh != nil {
		q.kept -= e.fresh.size
	}
}

// drop forgets a line of which nothing is left, and a way without lines.
func (q *Queue) drop(l *line) {
	if !l.ready.empty() || !l.later.empty() || l.working > 0 || q.lines[l.key] != l {
		return
	}
	delete(q.lines, l.key)
	for _, g := range l.gates {
		q.unhold(g)
	}
	if l.way.lines--; l.way.lines == 0 {
		q.unset(&l.way.alarm)
		delete(q.ways, l.key.wayKey)
	}
}

// hands is what a worker has of the line whose job it does.
type hands struct {
	line  *line
	rules Rules
	gates []*gate
}

// take counts a job of the line as worked on. The caller has seen that there is room, under the queue's lock.
func (q *Queue) take(l *line) hands {
	q.working++
	l.working++
	for _, g := range l.gates {
		g.working++
	}
	return hands{l, l.rules, l.gates}
}

// giveBack frees what a worker has of a line.
func (q *Queue) giveBack(h hands) {
	for _, g := range h.gates {
		g.working--
		q.free(g)
		q.forget(g)
	}
	h.line.working--
	q.drop(h.line)
}

// Lane is where a job goes for a condition, "" where the policy sends it nowhere: review before dead letter
// (semantics 37).
func (r *Rules) Lane(condition string) string {
	switch {
	case condition == "":
		return ""
	case slices.Contains(r.Review, condition):
		return intent.LaneReview
	case slices.Contains(r.Dead, condition):
		return intent.LaneDead
	}
	return ""
}
