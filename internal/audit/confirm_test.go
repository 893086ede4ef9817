package audit

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// office is a far side in which logging a session out is safe, and where more happens than the audit's own calls.
type office struct {
	mu       sync.Mutex
	sessions map[string]string
	events   []args
	revoked  int
	beside   func(o *office) // after each revocation
	stalls   bool            // the list of events gives no answer
}

func newOffice(beside func(o *office)) *office {
	return &office{beside: beside, sessions: map[string]string{"ses_1": "ana", "ses_2": "bo", "ses_3": "eva", "ses_4": "finn", "ses_5": "gus"}}
}

func (o *office) serve() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "office", Version: "1"}, nil)
	tool := func(name, properties string, reads bool, do func(context.Context, args) any) {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(schemaText(properties)), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: reads}},
			func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				a := args{}
				if err := json.Unmarshal(r.Params.Arguments, &a); err != nil {
					return nil, err
				}
				return result(do(ctx, a), nil), nil
			})
	}
	tool("list_sessions", "", true, func(context.Context, args) any {
		o.mu.Lock()
		defer o.mu.Unlock()
		return args{"sessions": maps.Clone(o.sessions)}
	})
	tool("list_events", "", true, func(ctx context.Context, _ args) any {
		o.mu.Lock()
		stalls, events := o.stalls, append([]args{}, o.events...)
		o.mu.Unlock()
		if stalls {
			<-ctx.Done()
		}
		return args{"events": events}
	})
	tool("revoke_session", "session_id:string*", false, func(_ context.Context, a args) any {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.sessions, a["session_id"].(string))
		o.revoked++
		if o.beside != nil {
			o.beside(o)
		}
		return "revoked"
	})
	return server
}

func (o *office) event(title string) { o.events = append(o.events, args{"id": title, "title": title}) }

// TestWhatSomebodyElseDoesIsNoEffect has the one effect of a repeat that is there come from elsewhere: while the audit's third
// call, the repeat in sequence, is answered, somebody puts an event into the calendar.
func TestWhatSomebodyElseDoesIsNoEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := auditOf(t, newOffice(func(o *office) {
			if o.revoked == 3 {
				o.event("review")
			}
		}).serve())
		got, _ := r.find("revoke_session")
		if got.Verdict != Safe {
			t.Errorf("%s, want safe (%s)\n%s", got.Verdict, got.Says, probes(got))
		}
	})
}

// TestEffectElsewhereOfEachRepeat has a repeat whose effect is nowhere near the first call's, each time.
func TestEffectElsewhereOfEachRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := 5
		r := auditOf(t, newOffice(func(o *office) {
			if len(o.sessions) == left { // nobody was logged out
				o.event("alarm " + itoa(o.revoked))
			}
			left = len(o.sessions)
		}).serve())
		got, _ := r.find("revoke_session")
		if got.Verdict != DuplicateEffect {
			t.Errorf("%s, want duplicate effect (%s)\n%s", got.Verdict, got.Says, probes(got))
		}
	})
}

// TestNoAnswerIsNoEffect compares states of which one was not read to its end.
func TestNoAnswerIsNoEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(nil)
		o.event("stocktaking")
		c, err := Config{AllowWrites: true, Timeout: 5 * time.Second, connect: inside(t, o.serve())}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		a := newAuditor(c)
		if err := a.restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer a.server.close()
		for _, tool := range a.readers() {
			a.readings = append(a.readings, reading{tool: tool})
		}
		whole := a.snapshot(t.Context())
		o.mu.Lock()
		o.stalls = true
		o.mu.Unlock()
		partly := a.snapshot(t.Context())
		if got := slices.Concat(a.changes(whole, partly), a.changes(partly, whole)); len(got) > 0 {
			t.Errorf("a read without an answer shows %v", got)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if got := a.changes(whole, a.snapshot(over)); len(got) > 0 {
			t.Errorf("a look that was broken off shows %v", got)
		}
	})
}

// TestResourcesThatWereNotListed tells a list of resources that broke off from one that a resource has left.
func TestResourcesThatWereNotListed(t *testing.T) {
	a := newAuditor(Config{})
	with, without := newState(), newState()
	with.values["note://a"] = "x"
	if got := a.changes(with, without); len(got) != 1 {
		t.Errorf("a resource that is gone shows %v", got)
	}
	without.listed = false
	if got := slices.Concat(a.changes(with, without), a.changes(without, with)); len(got) > 0 {
		t.Errorf("a list that broke off shows %v", got)
	}
}
