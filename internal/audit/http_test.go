package audit

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestLostReplyOverHTTP has a tool that knows a repeat by its session only: the client of a broken connection comes
// back in another.
func TestLostReplyOverHTTP(t *testing.T) {
	shop := newShop().serve()
	var authorized atomic.Bool
	handler := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		authorized.Store(r.Header.Get("Authorization") == "Bearer secret")
		return shop
	}, nil)
	far := httptest.NewServer(handler)
	defer far.Close()
	r, err := Run(t.Context(), Config{
		URL: far.URL, Header: http.Header{"Authorization": {"Bearer secret"}}, AllowWrites: true,
		Tools: []string{"subscribe_feed", "create_contact", "set_ticket_status"}, Settle: 30 * time.Millisecond, Late: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if !authorized.Load() {
		t.Error("the header did not arrive")
	}
	want := map[string]Verdict{"subscribe_feed": DuplicateEffect, "create_contact": Safe, "set_ticket_status": Safe}
	for _, got := range r.Tools {
		if got.Verdict != want[got.Name] {
			t.Errorf("%s: %s, want %s\n%s", got.Name, got.Verdict, want[got.Name], probes(got))
		}
		if got.Name != "subscribe_feed" {
			continue
		}
		i := slices.IndexFunc(got.Findings, func(f Finding) bool { return f.Probe == LostReply })
		if i < 0 || got.Findings[i].Verdict != DuplicateEffect || got.Findings[0].Verdict != Safe {
			t.Errorf("the repeat in another session was not told from the one in the same:\n%s", probes(got))
		}
	}
	hints := map[string]Hint{"subscribe_feed": HintFalse, "create_contact": HintFalse, "set_ticket_status": HintAbsent}
	for _, got := range r.Tools {
		if got.Hints.ReadOnly != hints[got.Name] {
			t.Errorf("%s: readOnlyHint %s, want %s", got.Name, got.Hints.ReadOnly, hints[got.Name])
		}
	}
}
