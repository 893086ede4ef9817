package gateway

import (
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// drains are the executions that are finished for clients that left: their answers wait for a retry (semantics
// 25). They are bounded in number and time, the oldest going first, so that work for nobody takes no place from
// work for somebody.
type drains struct {
	mu   sync.Mutex
	list []drain // oldest first
}

type drain struct {
	e     *execution
	limit *time.Timer
}

// drain has e, whose last client left, finished within the bounds of its tier.
func (t *tier) drain(e *execution) {
	t.drains.enter(e, t.quota)
	if e.over() || e.attached() > 0 { // it ended, or a client came, meanwhile, and did not see it here
		e.undrain()
		return
	}
	e.shelve(intent.LaneStream, "its last client left; the answer is finished for whoever asks again")
}

func (d *drains) enter(e *execution, quota int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !e.draining.CompareAndSwap(nil, d) { // its clients come and go: it is here once
		return
	}
	limit := time.AfterFunc(e.wf.FinishLimit, func() { e.stop(errFinishLimit) })
	d.list = append(d.list, drain{e, limit})
	for len(d.list) > quota && !mutant.On("drain-without-quota") {
		oldest := d.list[0]
		d.list = d.list[1:]
		oldest.limit.Stop()
		oldest.e.draining.CompareAndSwap(d, nil)
		oldest.e.stop(errDrainQuota)
	}
}

// remove takes e back out: a client came, or it ended.
func (d *drains) remove(e *execution) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.list {
		if d.list[i].e == e {
			d.list[i].limit.Stop()
			d.list = append(d.list[:i], d.list[i+1:]...)
			return
		}
	}
}
