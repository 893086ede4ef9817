package gateway_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// A stream of which a client may have seen a part ends with its process; who asks again begins anew, as its successor.
func TestStreamCutByARestartHasASuccessor(t *testing.T) {
	r := newRig(t)
	r.script("stream", `{"chunks":8,"hold":"never","hold_at":"event","hold_n":5}`, "ok")
	conn, _ := r.rawUntil(streamed("stream"), func(b []byte) bool { return bytes.Contains(b, []byte("chat.completion.chunk")) })
	reset(conn) // before the shutdown: what that tells a client that is still there has arrived
	wait(t, func() bool { return gateway.Lost(r.gw) == 1 })
	now, cancel := context.WithCancel(t.Context())
	cancel()
	r.gw.Drain(now)
	r.close()
	r.start(rigConfig{})
	a := r.must(streamed("stream"), 200)
	r.calls("stream", 2)
	heir := r.settled(a.header.Get("Holdfast-Intent"))
	if heir.ParentID == "" {
		t.Fatalf("it has no predecessor: %+v", heir.Intent)
	}
	if first := r.record(heir.ParentID); first.State != ledger.Settled || first.Outcome != ledger.OutcomeFailed || first.BilledMaybe != 1 {
		t.Errorf("the predecessor is %s, %s, %d of its attempts may be billed", first.State, first.Outcome, first.BilledMaybe)
	}
}
