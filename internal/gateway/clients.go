package gateway

import (
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Who waits for an execution: clients come, go and come back, and what none of them waits for is finished within bounds, or ended.

// hold adds a client.
func (e *execution) hold() {
	e.refs.Add(1)
	e.counted()
}

// tryHold adds a client unless nothing of e is left.
func (e *execution) tryHold() bool {
	for {
		n := e.refs.Load()
		if n <= 0 {
			return false
		}
		if e.refs.CompareAndSwap(n, n+1) {
			e.counted()
			return true
		}
	}
}

// counted adds a client that has its reference.
func (e *execution) counted() {
	e.mu.Lock()
	e.clients++
	e.mu.Unlock()
	if e.undrain() {
		e.shelve("", "a client came back to it")
	}
}

// undrain asks draining first: a follower may come before its leader has a nest.
func (e *execution) undrain() bool {
	d := e.draining.Swap(nil)
	if d != nil {
		d.remove(e)
	}
	return d != nil
}

// shelve says where a stream stands for which nobody waits.
func (e *execution) shelve(lane, reason string) {
	e.mu.Lock()
	op := e.op
	e.mu.Unlock()
	if op != nil && op.Head().Stream && !mutant.On("drain-in-no-lane") {
		op.Shelve(lane, reason, "semantics 25")
	}
}

// leave takes a client away. When the last one goes, the call ends where on_disconnect says so; else it is
// finished for whoever asks again, within bounds (semantics 25).
func (e *execution) leave() {
	e.mu.Lock()
	e.clients--
	gone, resting, remote := e.clients == 0 && !e.settled, e.resting, e.remote
	e.mu.Unlock()
	switch {
	case !gone:
	case remote:
		e.stop(errUnwatched)
	case resting:
		e.stop(errGone)
	case e.wf.OnDisconnect == policy.Cancel:
		e.stop(errClientsGone)
	case e.effect == ledger.EffectGeneration && e.at.Load() != nil:
		e.at.Load().drain(e)
	}
}

func (e *execution) attached() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.clients
}
