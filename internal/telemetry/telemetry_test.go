package telemetry

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

func read(m *Meter) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func has(t *testing.T, m *Meter, lines ...string) {
	t.Helper()
	text := "\n" + read(m)
	for _, line := range lines {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("there is no %s in\n%s", line, text)
		}
	}
}

// What was in the log at the start counts, and a count never goes below nothing.
func TestIntentsAreThoseOfTheLog(t *testing.T) {
	m, err := New()
	if err != nil {
		t.Fatal(err)
	}
	m.Seed(map[ledger.State]int64{ledger.Created: 2, ledger.Unknown: 1})
	has(t, m, `holdfast_intents{state="intent_created"} 2`, `holdfast_intents{state="unknown"} 1`, `holdfast_intents{state="dispatched"} 0`)
	head := &ledger.Intent{Workflow: "w"}
	m.Change(intent.Change{Head: head, From: ledger.Unknown, To: ledger.Settled, Outcome: ledger.OutcomeSuccess})
	m.Change(intent.Change{Head: head, From: ledger.Dispatched, To: ledger.Confirmed}) // told of before its dispatch is
	has(t, m, `holdfast_intents{state="unknown"} 0`, `holdfast_intents{state="settled"} 1`, `holdfast_intents{state="dispatched"} 0`)
	m.Change(intent.Change{Head: head, From: ledger.Created, To: ledger.Dispatched})
	has(t, m, `holdfast_intents{state="intent_created"} 1`, `holdfast_intents{state="dispatched"} 0`, `holdfast_intents{state="confirmed"} 1`)
}

// What alerts are made of is there before its first event.
func TestWatchedBeginAtZero(t *testing.T) {
	m, err := New()
	if err != nil {
		t.Fatal(err)
	}
	m.Watch([]Watched{{Workflow: "w", Tiers: []string{"a"}}})
	zeros := []string{`holdfast_idempotency_store_errors_total{workflow="w"} 0`, `holdfast_unknown_resolved_total{outcome="failed",workflow="w"} 0`,
		`holdfast_unknown_resolved_total{outcome="success",workflow="w"} 0`, `holdfast_bulkhead_rejected_total{tier="a",workflow="w"} 0`,
		`holdfast_config_reloads_total{result="refused"} 0`}
	has(t, m, append(zeros, `holdfast_unknown_entered_total{workflow="w"} 0`)...)
	m.Change(intent.Change{Head: &ledger.Intent{Workflow: "w"}, From: ledger.Dispatched, To: ledger.Unknown})
	m.Watch([]Watched{{Workflow: "w", Tiers: []string{"a"}}}) // again, by another configuration
	has(t, m, append(zeros, `holdfast_unknown_entered_total{workflow="w"} 1`)...)
}
