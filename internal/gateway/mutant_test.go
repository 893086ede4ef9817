package gateway_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// A client that leaves before dispatch causes no upstream call (semantics 25), and its key is free.
func TestClientThatLeavesBeforeDispatch(t *testing.T) {
	r, f := newFaultyRig(t)
	hold := make(chan struct{})
	f.set(func(f *faulty) { f.hold, f.held = hold, make(chan struct{}, 1) })
	ctx, leave := context.WithCancel(t.Context())
	q := chat("gone")
	req := httptest.NewRequestWithContext(ctx, "POST", r.server.URL+q.path, strings.NewReader(q.body))
	req.Header.Set("Idempotency-Key", "k")
	req.Header.Set("Holdfast-Workflow", "external")
	left, told := make(chan struct{}), httptest.NewRecorder()
	go func() {
		defer close(left)
		r.gw.ServeHTTP(told, req)
	}()
	<-f.held
	leave()
	f.set(func(f *faulty) { f.hold, f.held = nil, nil })
	close(hold)
	<-left
	r.calls("gone", 0)
	// Who closed its side only hears it.
	if h := told.Header(); told.Code != 503 || h.Get("Holdfast-Error") != string(gateway.CodeAdmission) || h.Get("Holdfast-Attempts") != "0" ||
		h.Get("Holdfast-Safe-To-Retry") != "yes" {
		t.Errorf("%d %v", told.Code, h)
	}
	list, err := r.store.List(t.Context(), ledger.Filter{})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d intents, %v", len(list), err)
	}
	if got := r.settled(list[0].ID); got.Outcome != ledger.OutcomeDiscarded || !got.ClaimUntil.IsZero() {
		t.Errorf("outcome %s, claim until %v", got.Outcome, got.ClaimUntil)
	}
	r.must(q.key("k").workflow("external"), 200)
	r.calls("gone", 1)
}
