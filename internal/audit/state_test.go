package audit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// watchTickets is an audit at work on a shop, which reads its tickets.
func watchTickets(t *testing.T, s *shop) *auditor {
	t.Helper()
	c, err := Config{AllowWrites: true, connect: inside(t, s.serve()), Settle: 3 * time.Second}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	a := newAuditor(c)
	if err := a.restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, tool := range a.readers() {
		if tool.name == "list_tickets" {
			a.readings = append(a.readings, reading{tool: tool})
		}
	}
	return a
}

// TestEffectThatIsThereAtOnce has an effect that came with the answer told from one that came later in real time, too: looks
// take some, and a tool whose effects are there at once need not be waited for as long as one whose effects are not.
func TestEffectThatIsThereAtOnce(t *testing.T) {
	a := watchTickets(t, newShop())
	defer a.server.close()
	before := a.snapshot(t.Context())
	if got := a.server.call(t.Context(), "create_ticket", Args{"title": "now"}); got.wrong() {
		t.Fatal(got.says())
	}
	after, took := a.settled(t.Context(), before, 3*time.Second)
	if took != 0 || len(a.changes(before, after)) == 0 {
		t.Errorf("took %s, %d changes", took, len(a.changes(before, after)))
	}
}

// TestStillWaitsForTheSecondHalf has a call that was given up act in two halves, further apart than effects are waited for behind
// an answer: what its repeat is compared with has both.
func TestStillWaitsForTheSecondHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		a := watchTickets(t, s)
		defer a.server.close()
		before := a.snapshot(t.Context())
		half := func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.put("tickets", args{"title": "half"})
		}
		half()
		time.AfterFunc(4*time.Second, half)
		after := a.still(t.Context(), before, a.cfg.Settle)
		time.Sleep(10 * time.Second)
		if more := a.changes(after, a.snapshot(t.Context())); len(more) > 0 {
			t.Errorf("it did not wait for %v", more)
		}
	})
}

// TestHeldRepeatIsNoError tells a repeat that a gateway holds, because nobody knows what became of the call, from one that a server
// answers with an error although its work was done.
func TestHeldRepeatIsNoError(t *testing.T) {
	a := newAuditor(Config{})
	before, after := newState(), newState()
	before.values["list"], after.values["list"] = "none", "one"
	for name, c := range map[string]struct {
		meta mcp.Meta
		want Verdict
	}{
		"held":  {mcp.Meta{"holdfast/unknown": true}, Safe},
		"error": {mcp.Meta{"holdfast/unknown": false}, ErrorOnRepeat},
	} {
		second := newAnswer(&mcp.CallToolResult{Meta: c.meta, IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "no"}}})
		f := a.judgeGivenUp(&subject{}, pair{probe: GivenUp, s0: before, s1: after, s2: after, first: answer{err: errGivenUp, silent: true}, second: second})
		if f.Verdict != c.want {
			t.Errorf("%s: %s (%s)", name, f.Verdict, f.Says)
		}
	}
	waits := answer{err: errGivenUp, silent: true} // behind a gateway a repeat waits for the call that was given up
	if f := a.judgeGivenUp(&subject{}, pair{probe: GivenUp, s0: before, s1: after, s2: after, first: waits, second: waits}); f.Verdict != CannotTell {
		t.Errorf("not answered: %s (%s)", f.Verdict, f.Says)
	}
}
