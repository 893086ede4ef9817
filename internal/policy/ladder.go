package policy

import (
	"fmt"
	"time"
)

// Ladder is the nest of time-outs from the innermost to what stands around the gateway, in one line:
// attempt ≤ total < request < client SDK < balancer. The last two are not ours: they are what to set there.
func (w *Workflow) Ladder() string {
	t := w.Timeouts
	client, balancer := outside(t.Request)
	return fmt.Sprintf("%s: attempt %s ≤ total %s < request %s < client SDK (set %s) < balancer (set %s); streams: first token %s, idle %s, stream %s",
		w.Name, Span(t.Attempt), Span(t.Total), Span(t.Request), Span(client), Span(balancer), Span(t.FirstToken), Span(t.Idle), Span(t.Stream))
}

// outside proposes time-outs beyond ours, so that our own answer always arrives first: 30s gives 33s and 35s.
func outside(request time.Duration) (client, balancer time.Duration) {
	client = (request + max(request/10, time.Second)).Round(time.Second)
	balancer = (request + max(request/6, 2*time.Second)).Round(time.Second)
	return client, max(balancer, client+time.Second)
}
