package gateway

import "sync/atomic"

// inflight counts what is in progress, so that a drain can wait for its end. Unlike with a sync.WaitGroup work may still
// begin while somebody waits: who begins counts first and then looks whether a drain has begun, and leaves again if so.
type inflight struct {
	n    atomic.Int64
	idle chan struct{} // of capacity 1: a word that n was 0
}

func newInflight() inflight { return inflight{idle: make(chan struct{}, 1)} }

func (i *inflight) begin() { i.n.Add(1) }

func (i *inflight) end() {
	if i.n.Add(-1) == 0 {
		i.tell()
	}
}

func (i *inflight) tell() {
	select {
	case i.idle <- struct{}{}:
	default: // the word is out already
	}
}

// wait returns when nothing is in progress.
func (i *inflight) wait() {
	for i.n.Load() != 0 {
		<-i.idle
	}
	i.tell() // to whoever waits as well
}
