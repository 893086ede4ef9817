package replicas

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// TestRollingRestart ends and starts one replica after the other, twice, under load: no request fails, and streams that are on their way finish.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.start()
	r.roll(r.balancer.URL, func(k *replica) { k.awaitReady() })
	r.stop()
	r.verify()
}

const rounds = 2

// roll restarts every replica in turn while clients ask, each of them once for everything.
func (r *rig) roll(base string, back func(*replica)) {
	r.t.Helper()
	var next, streams atomic.Int64
	var ended atomic.Bool
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			for !ended.Load() {
				n := next.Add(1)
				if r.one(base, n) {
					streams.Add(1)
				}
			}
		})
	}
	more := func(n int64) {
		was := next.Load()
		until(r.t, "more requests", func() bool { return next.Load() >= was+n })
	}
	for range rounds {
		for _, k := range r.replicas {
			more(30)
			k.stop()
			more(10)
			k.mustUp()
			back(k)
		}
	}
	more(30)
	ended.Store(true)
	all.Wait()
	calls := r.Calls()
	for n := range next.Load() {
		op := fmt.Sprintf("roll-%d", n+1)
		if calls[op].Calls != 1 {
			r.t.Errorf("%s: %d upstream calls", op, calls[op].Calls)
		}
	}
	r.t.Logf("%d requests, %d of them streams, over %d restarts", next.Load(), streams.Load(), rounds*size)
}

// one is one request that is sent once and must succeed; it says whether it was a stream.
func (r *rig) one(base string, n int64) bool {
	op, stream := fmt.Sprintf("roll-%d", n), n%3 == 0
	body := fmt.Appendf(nil, `{"model":%q,"stream":%v,"messages":[{"role":"user","content":"do it sim:{\"steps\":[{\"delay_ms\":40,\"chunks\":30,\"event_ms\":40}]} op=%s"}]}`, op, stream, op)
	header := map[string]string{"Holdfast-Workflow": [...]string{"relaxed", "external", "strict"}[n%5%3]}
	if n%2 == 0 {
		header["Idempotency-Key"] = "k-" + op
	}
	a, err := r.Send(base, "/v1/chat/completions", body, header)
	switch {
	case err != nil:
		r.t.Errorf("%s (stream %v): %v", op, stream, err)
	case a.Status != http.StatusOK || stream && !bytes.Contains(a.Body, []byte("data: [DONE]")):
		r.t.Errorf("%s (stream %v) at replica %s: %v; the balancer says %q", op, stream, a.Header.Get(replicaHeader), a, a.Header.Get("X-Test-Balancer"))
	}
	return stream
}
