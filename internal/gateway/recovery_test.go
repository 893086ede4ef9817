package gateway_test

import (
	"bytes"
	"testing"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// A stream that is finished for a client that left stands in stream_recovery until it comes back, and is the same stream.
func TestStreamWaitsForItsClient(t *testing.T) {
	r := newRig(t)
	r.script("left", `{"chunks":6,"hold":"gate","hold_at":"event","hold_n":4}`)
	conn, first := r.rawUntil(streamed("left").key("left-1"), func(b []byte) bool { return bytes.Count(b, []byte("\n\n")) >= 2 })
	reset(conn)
	stands := func(lane string) {
		t.Helper()
		wait(t, func() bool {
			all, err := r.store.List(t.Context(), ledger.Filter{Unsettled: true, Limit: 10})
			return err == nil && len(all) == 1 && all[0].State == ledger.Dispatched && all[0].Lane == lane
		})
	}
	stands(intent.LaneStream)
	back := make(chan *answered, 1)
	go func() { back <- r.must(streamed("left").key("left-1"), 200) }()
	stands("")
	r.sim.Release("gate")
	a := <-back
	if !bytes.HasPrefix(a.body, bodyOf(t, first)) {
		t.Errorf("another stream: %q, then %q", first, a.body)
	}
	r.settled(a.header.Get("Holdfast-Intent"))
	r.calls("left", 1)
}

// A stream that broke before anything was visible waits for its next attempt in stream_recovery, with its client.
func TestBrokenStreamIsRecovered(t *testing.T) {
	r := nestRig(t)
	r.script("broke", `{"status":503,"headers":{"Retry-After":"3"}}`)
	done := make(chan *answered, 1)
	go func() { done <- r.must(streamed("broke"), 200) }()
	wait(t, func() bool {
		all, err := r.store.List(t.Context(), ledger.Filter{Lane: intent.LaneStream, Limit: 10})
		return err == nil && len(all) == 1 && all[0].Attempt == 1 && !all[0].ReadyAt.IsZero()
	})
	a := <-done
	if rec := r.settled(a.header.Get("Holdfast-Intent")); rec.Attempt != 2 || rec.Lane != "" || rec.Outcome != ledger.OutcomeSuccess {
		t.Errorf("%+v", rec.Status)
	}
	r.calls("broke", 2)
}
