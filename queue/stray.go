package queue

import (
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// stray is a job that this engine has leased and that no worker has, as a sweep found it.
type stray struct {
	record      *ledger.Record
	since, last time.Time // it was found like that, at this version
	sweep       uint64    // the last one that found it so
}

// spot notes what looks left behind by its worker. One that has just been submitted may not be in its worker's hands yet, and
// the end of one may not be in the record yet: none is a stray before it was found so twice, half a minute apart.
func (q *Queue) spot(r *ledger.Record) {
	if r.JobID == "" || r.LeaseOwner != q.Log.Owner() || !q.Takes(&r.Intent) || mutant.On("strays-stay") {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.known[r.ID] != nil {
		delete(q.strays, r.ID)
		return
	}
	s, is := q.strays[r.ID]
	s.last = q.Ledger.Now()
	if !is || s.record.Version != r.Version {
		s.since = s.last
	}
	s.record, s.sweep = r, q.sweeps
	q.strays[r.ID] = s
}

// collect frees the strays. Whoever has taken or ended one meanwhile has moved it, and is not overruled. Where the store is away
// the next sweep goes on.
func (q *Queue) collect(number uint64) {
	for _, r := range q.straying(number) {
		freed, err := q.Log.Stray(r)
		if err != nil {
			q.Logger.Warn("a job that its worker left behind could not be freed yet", "intent", r.ID, "error", err)
			return
		}
		if freed {
			q.Logger.Warn("a job was left behind by its worker, and is freed", "intent", r.ID, "state", r.State.String())
		}
	}
}

// straying are those to be freed. What a sweep did not find so any more is forgotten.
func (q *Queue) straying(number uint64) (list []*ledger.Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, s := range q.strays {
		switch {
		case s.sweep < number || q.known[id] != nil:
			delete(q.strays, id)
		case s.last.Sub(s.since) >= sweepEvery:
			list = append(list, s.record)
		}
	}
	return list
}
