package queue

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// wayKey is all that a bar can tell jobs apart by. Whose they are is no part of it: owners may be as many as jobs.
type wayKey struct {
	tenant, workflow, provider, path, endpoint, model, trigger string
	// called marks those that have had their last call.
	called bool
}

func wayKeyOf(head *ledger.Intent) wayKey {
	return wayKey{head.Tenant, head.Workflow, head.Provider, head.Path, head.Endpoint, head.RequestedModel, head.Trigger, false}
}

// way is where the jobs of some lines go to: a bar holds all of them or none.
type way struct {
	head     ledger.Intent // of one of them
	standing ranked[*line] // those of which a job is ready, but for those that stand before a gate
	lines    int           // all
	waiting  int           // jobs
	low      int           // where so few are left, the log has more; see drained
	partial  bool          // the log has more of it than is known
	refused  uint64        // the sweep within or behind which that was so last
	shut     bool          // nothing of it is started before its alarm
	alarm    alarm
	barred   bool // what is begun next is a probe
	spread   time.Duration
	calm     time.Time // until then they go one after the other
	pos      int       // among those that are open
}

func (q *Queue) wayOf(k wayKey, head *ledger.Intent) *way {
	w := q.ways[k]
	if w == nil {
		w = &way{head: *head, standing: standing()}
		w.alarm.way = w
		q.ways[k] = w
	}
	return w
}

// openWays is a heap of ways of which a job may go next.
func openWays() ranked[*way] {
	return ranked[*way]{less: func(a, b *way) bool { return ahead(a.standing.first(), b.standing.first()) },
		place: func(w *way) *int { return &w.pos }}
}

// rank has a way stand among the others where its first job does.
func (q *Queue) rank(w *way) {
	switch in, open := w.pos > 0, !w.shut && !w.standing.empty(); {
	case in && open:
		q.open.moved(w)
	case open:
		q.open.add(w)
	case in:
		q.open.remove(w)
	}
}

const (
	// probeGap is how long the first job behind a bar is ahead of the next.
	probeGap = 100 * time.Millisecond
	// maxSpread bounds the time over which those are spread that waited for the same moment; probeGap is its least.
	maxSpread = time.Second
	// maxShut bounds how long a bar's word is taken for granted: what it waits for may be over before its time.
	maxShut = 30 * time.Second
	// perWay is what a bar waits at least for each way that there is, up to maxPerWay: so many are asked within a second.
	perWay    = 50 * time.Microsecond
	maxPerWay = 5 * time.Second
)

// shutFor has nothing of a way started for a time.
func (q *Queue) shutFor(w *way, now time.Time, wait time.Duration) {
	w.shut = true
	q.set(&w.alarm, now.Add(wait+time.Microsecond-1).UnixMicro())
	q.rank(w)
}

// bar asks whether a way's jobs may be started, and keeps the answer.
func (q *Queue) bar(w *way, now time.Time) (barred bool) {
	wait, probe := q.Barred(&w.head)
	if wait <= 0 {
		return false
	}
	if probe {
		w.barred, w.spread = true, max(w.spread, min(max(wait/10, probeGap), maxSpread))
	}
	wait = max(wait, min(time.Duration(len(q.ways))*perWay, maxPerWay))
	if wait = Spread(wait); !mutant.On("bar-outlives-its-cause") {
		wait = min(wait, maxShut)
	}
	q.shutFor(w, now, wait)
	return true
}

// pace says when the next of a way may follow the one that is begun now. Behind a bar the first goes alone: what becomes of
// it says whether others may follow. Those that wait then do so one after the other, for all of them waited for the same
// moment (design.md §4).
func (q *Queue) pace(w *way, now time.Time) {
	switch {
	case w.barred:
		q.shutFor(w, now, probeGap)
		w.barred, w.calm, w.spread = false, now.Add(probeGap+w.spread), 0
	case now.Before(w.calm) && !mutant.On("release-at-once"):
		gap := w.calm.Sub(now) / time.Duration(max(1, min(w.waiting, q.Workers)))
		q.shutFor(w, now, rand.N(2*gap+1))
	}
}

// Reopen asks for every way again whether its jobs may be started. Whoever changes something of the routes calls it, so that
// what waits hears of it now. Behind what was a bar the first goes alone all the same. What waits for the time that a route has
// named need not any more where that word is lifted; nil: of none.
func (q *Queue) Reopen(lifted func(route string) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.reopen(); lifted != nil {
		q.lift(lifted)
	}
	q.wake()
}

func (q *Queue) lift(lifted func(route string) bool) {
	now := q.Ledger.Now().UnixMicro()
	for _, l := range q.lines {
		for _, e := range slices.Clone(l.later.list) {
			if e.told != "" && lifted(e.told) {
				e.due(now)
				l.later.moved(e)
			}
		}
		q.later(l)
	}
}

func (q *Queue) reopen() {
	if mutant.On("bar-outlives-its-cause") {
		return
	}
	for _, w := range q.ways {
		if w.shut {
			q.unset(&w.alarm)
			w.shut = false
			q.rank(w)
		}
	}
}
