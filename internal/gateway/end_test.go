package gateway

import (
	"testing"

	"github.com/holdfast-ai/holdfast/internal/budget"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
)

// Who hears of an end behind which no record is on its way, and comes again with the key, joins nothing that is over.
func TestEndedIsNotJoined(t *testing.T) {
	g := &edition{Gateway: &Gateway{mem: budget.New(0)}}
	e := g.newExecution(&call{})
	e.key = "k"
	g.registry.join(e.key, e)
	ended := false
	e.cancel = func(error) { // the last step of the end
		ended = true
		if g.registry.find(e.key) != nil {
			t.Error("it has ended and can still be joined")
		}
	}
	e.endUnkept(ending{fail: errorf(CodeShed, "no place")})
	if !ended {
		t.Error("it has not ended")
	}
}

// An answer whose record lands at once, while its client is gone, stays for whoever adopts it until the sighting has it.
func TestAdoptedBetweenRecordAndEnd(t *testing.T) {
	g := &edition{Gateway: &Gateway{mem: budget.New(0)}}
	e := g.newExecution(&call{wf: &policy.Workflow{}})
	e.leave()
	e.unref()
	e.landed(nil)
	if !e.tryHold() {
		t.Fatal("it is gone before it has ended: a retry would be sent again")
	}
	e.end(ending{})
	e.leave()
	e.unref()
	if e.tryHold() {
		t.Error("it is held by nobody and can still be had")
	}
}

// A client that leaves in the instant before a wait begins has left it as one has that leaves in it.
func TestLeftBeforeTheWait(t *testing.T) {
	g := &edition{Gateway: &Gateway{mem: budget.New(0)}}
	e := g.newExecution(&call{wf: &policy.Workflow{}})
	e.leave()
	if e.rest() {
		t.Error("it waits for nobody")
	}
	if !leftAlone(e.cause()) {
		t.Errorf("it ended by %v", e.cause())
	}
}

// A stream's last event is shown with the end of the body, unless something follows it.
func TestLastEventWaitsForItsEnd(t *testing.T) {
	g := &edition{Gateway: &Gateway{mem: budget.New(0)}}
	s := &streaming{e: g.newExecution(&call{wf: &policy.Workflow{}})}
	defer s.goOn()
	p := provider.Progress{Completing: -1, Last: 20, Committed: 30}
	if to := s.withoutLast(&p); to != 20 {
		t.Errorf("shown up to %d, and the last event begins at 20", to)
	}
	p.Last = -1
	if to := s.withoutLast(&p); to != 30 {
		t.Errorf("shown up to %d, and what was taken for the last event was none", to)
	}
}
