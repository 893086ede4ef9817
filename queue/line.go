package queue

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"time"

	"github.com/holdfast-ai/holdfast/bulkhead"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// entry is what the schedule knows of a job.
type entry struct {
	id       string
	bucket   int64 // of ready_at: priority decides within a second (semantics 38)
	readyAt  int64 // microseconds
	created  int64
	expires  int64 // the greatest number where it does not age
	attempt  int
	crashes  int
	priority int8           // 0 goes first
	fresh    *ledger.Record // what was written of it a moment ago; a lease on it is refused if it has moved since
}

var priorities = map[string]int8{"high": 0, "normal": 1, "low": 2}

func entryOf(r *ledger.Record) *entry {
	e := &entry{id: r.ID, created: r.CreatedAt.UnixMicro(), expires: 1<<63 - 1, attempt: r.Attempt, crashes: r.Crashes, priority: 1}
	if p, ok := priorities[r.Priority]; ok {
		e.priority = p
	}
	if !r.ExpiresAt.IsZero() {
		e.expires = r.ExpiresAt.UnixMicro()
	}
	e.readyAt = e.created
	if !r.ReadyAt.IsZero() {
		e.readyAt = r.ReadyAt.UnixMicro()
	}
	e.bucket = e.readyAt / time.Second.Microseconds()
	return e
}

// defaultOrder is release_order where a policy says nothing, and the one between lines.
var defaultOrder = []string{"ready_at", "priority", "created_at"}

// less reports whether a leaves before b. It is a total order: what is alike in all that order names goes by its id.
func less(order []string, a, b *entry) bool {
	if mutant.On("release-order-ignored") {
		return a.id > b.id
	}
	for _, name := range order {
		if c := compare(name, a, b); c != 0 {
			return c < 0
		}
	}
	return a.id < b.id
}

func compare(name string, a, b *entry) int {
	switch name {
	case "ready_at":
		return cmp.Compare(a.bucket, b.bucket)
	case "priority":
		return cmp.Compare(a.priority, b.priority)
	case "created_at":
		return cmp.Compare(a.created, b.created)
	case "expires_at":
		return cmp.Compare(a.expires, b.expires)
	case "attempt":
		return cmp.Compare(a.attempt, b.attempt)
	}
	return 0
}

// entries is a heap.
type entries struct {
	list  []*entry
	order []string
	exact bool // by ready_at to the microsecond: those whose time has not come
}

func (h *entries) Len() int { return len(h.list) }
func (h *entries) Less(i, j int) bool {
	if h.exact {
		return h.list[i].readyAt < h.list[j].readyAt
	}
	return less(h.order, h.list[i], h.list[j])
}
func (h *entries) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *entries) Push(x any)    { h.list = append(h.list, x.(*entry)) }
func (h *entries) Pop() any {
	last := len(h.list) - 1
	e := h.list[last]
	h.list[last] = nil
	h.list = h.list[:last]
	return e
}

// lineKey is all that a policy and a route can tell jobs apart by.
type lineKey struct {
	tenant, workflow, owner, provider, path, endpoint, model, trigger string
	// last marks those that the next crash of their worker gives up.
	last bool
}

// line is the jobs of one kind: they have the same rules, and stand or run together.
type line struct {
	key     lineKey
	head    ledger.Intent // of one of them
	rules   Rules
	later   entries
	ready   entries
	slots   *bulkhead.Semaphore // of the concurrency key, shared by all lines that come to it
	working int
	until   time.Time // nothing of it is started before
	barred  bool      // what is begun next is a probe
	spread  time.Duration
	calm    time.Time // until then they go one after the other
}

// lineOf finds or makes the line of a job.
func (q *Queue) lineOf(r *ledger.Record) *line {
	k := lineKey{r.Tenant, r.Workflow, r.OwnerKey, r.Provider, r.Path, r.Endpoint, r.RequestedModel, r.Trigger, q.lastChance(r)}
	if l := q.lines[k]; l != nil {
		return l
	}
	l := &line{key: k, head: r.Intent, later: entries{exact: true}}
	q.rule(l)
	q.lines[k] = l
	return l
}

// replayed is the version of a job's record before which no person can have sent it back: it is made, parked and revived.
const replayed = 3

// as makes of a record that is about to enter the schedule what it counts as there. What is known already costs nothing.
func (q *Queue) as(ctx context.Context, r *ledger.Record) {
	if q.As == nil || r.Version < replayed || !q.ready(r) {
		return
	}
	q.mu.Lock()
	_, known := q.known[r.ID]
	full := len(q.known) >= mostKnown
	q.mu.Unlock()
	if known || full {
		return
	}
	events, err := q.Ledger.History(ctx, r.ID)
	if err != nil {
		return // its worker reads it again
	}
	if said := intent.LifeOf(events).Said; said != nil {
		r.Intent = q.As(r.Intent, said)
	}
}

// lastChance reports whether one more crash ends a job that has been through some. Workers die with all that they have in
// hand, and only one of it was the cause: of such jobs one at a time is begun, so that each is given up for a crash of its own.
func (q *Queue) lastChance(r *ledger.Record) bool {
	if r.Crashes == 0 || mutant.On("crash-takes-all") {
		return false
	}
	most := q.Rules(&r.Intent).MaxAttempts
	return most > 0 && r.Crashes+1 >= most
}

// rule gives a line the rules that hold for it now.
func (q *Queue) rule(l *line) {
	l.rules = q.Rules(&l.head)
	if len(l.rules.Order) == 0 {
		l.rules.Order = defaultOrder
	}
	l.ready.order = l.rules.Order
	heap.Init(&l.ready)
	limit := q.Workers
	if l.rules.Limit > 0 && l.rules.Key != "" {
		limit = min(limit, l.rules.Limit)
	}
	was := l.slots
	l.slots = q.group.Get(l.rules.Key, bulkhead.Config{Max: limit, Waiting: -1})
	if was != nil {
		q.group.Put(was)
	}
	l.until, l.barred = time.Time{}, false
}

// Reload asks for the rules of every line again, and has as many workers as it says from now on. Jobs in a worker's hands
// end by the rules that they were taken by.
func (q *Queue) Reload(workers int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.Workers = workers
	for _, l := range q.lines {
		q.rule(l)
	}
	q.wake()
}

// drop forgets a line of which nothing is left.
func (q *Queue) drop(l *line) {
	if len(l.ready.list) == 0 && len(l.later.list) == 0 && l.working == 0 {
		delete(q.lines, l.key)
		q.group.Put(l.slots)
	}
}

func (l *line) push(e *entry) { heap.Push(&l.later, e) }

func (l *line) pop() *entry { return heap.Pop(&l.ready).(*entry) }

// promote moves those whose time has come, and returns how long it is until the next one's.
func (l *line) promote(now time.Time) time.Duration {
	for len(l.later.list) > 0 {
		if wait := time.UnixMicro(l.later.list[0].readyAt).Sub(now); wait > 0 {
			return wait
		}
		heap.Push(&l.ready, heap.Pop(&l.later))
	}
	return 0
}

// hands is what a worker has of the line whose job it does.
type hands struct {
	line  *line
	rules Rules
	slots *bulkhead.Semaphore // nil where it has none of them
}

// take counts a job of the line as worked on. The caller has seen that there is room, under the queue's lock.
func (l *line) take() hands {
	l.working++
	h := hands{line: l, rules: l.rules}
	if l.slots.Try(bulkhead.Batch) {
		h.slots = l.slots
	}
	return h
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
