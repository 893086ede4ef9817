package audit

import (
	"testing"
	"time"
)

// TestEffectThatIsThereAtOnce has an effect that came with the answer told from one that came later in real time, too: looks
// take some, and a tool whose effects are there at once need not be waited for as long as one whose effects are not.
func TestEffectThatIsThereAtOnce(t *testing.T) {
	s := newShop()
	c, err := Config{AllowWrites: true, connect: inside(t, s.serve()), Settle: 3 * time.Second}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	a := newAuditor(c)
	defer func() { a.server.close() }()
	if err := a.restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, tool := range a.readers() {
		if tool.name == "list_tickets" {
			a.readings = append(a.readings, reading{tool: tool})
		}
	}
	before := a.snapshot(t.Context())
	if got := a.server.call(t.Context(), "create_ticket", Args{"title": "now"}); got.wrong() {
		t.Fatal(got.says())
	}
	after, took := a.settled(t.Context(), before, 3*time.Second)
	if took != 0 || len(a.changes(before, after)) == 0 {
		t.Errorf("took %s, %d changes", took, len(a.changes(before, after)))
	}
}
