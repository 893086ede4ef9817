package office

import (
	"context"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// telemetry hands things to others and shows nothing of it: no tool or resource reads it.
type telemetry struct {
	mu     sync.Mutex
	texts  []textSend
	events map[string]eventTrack
}

func newTelemetry() *telemetry { return &telemetry{events: map[string]eventTrack{}} }

func (*telemetry) name() string { return "telemetry" }

func (t *telemetry) snapshot() any {
	t.mu.Lock()
	defer t.mu.Unlock()
	return frozen(map[string]any{"texts": t.texts, "events": t.events})
}

type textSend struct {
	To   string `json:"to" jsonschema:"Number in E.164" pattern:"^\\+[0-9]{7,15}$" example:"+15550100"`
	Text string `json:"text" jsonschema:"What to send" len:"480" example:"Your order is ready."`
}

type eventTrack struct {
	ID   string `json:"event_id" jsonschema:"Chosen by the client" len:"64" example:"ev-20"`
	Name string `json:"name" jsonschema:"What happened" enum:"signup|purchase|churn"`
}

func (t *telemetry) register(m *mcp.Server) {
	addTool(m, describe[textSend]("sms_send", "Send text message", "Send a text message.", adds), t.send)
	addTool(m, describe[eventTrack]("event_track", "Track event", "Report an event to analytics.", puts), t.track)
}

// send is at fault, where nobody can see it.
func (t *telemetry) send(_ context.Context, in textSend) (accepted, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.texts = append(t.texts, in)
	return accepted{true}, nil
}

func (t *telemetry) track(_ context.Context, in eventTrack) (accepted, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events[in.ID] = in
	return accepted{true}, nil
}
