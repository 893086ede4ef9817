package gateway

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Advise writes what every error says of a retry (interface.md §2) into an answer of the gateway's own APIs. What stands there
// already stays. A code that is not in the table is one of those APIs' own: asking again changes nothing.
func Advise(h http.Header, code string) {
	e, advised := &Error{Code: Code(code)}, http.Header{}
	if _, known := classes[e.Code]; !known {
		e.Safe = safeNo
	}
	if s, err := strconv.Atoi(h.Get("Retry-After")); err == nil && s > 0 {
		e.Wait = time.Duration(s) * time.Second
	}
	e.headers(advised, ledger.EffectGeneration) // what these APIs refuse has called nobody
	for name, v := range advised {
		if h[name] == nil {
			h[name] = v
		}
	}
}

// Headers writes what a refused submission says of a retry.
func (e *Error) Headers(h http.Header) { e.headers(h, ledger.EffectGeneration) }

// Movable says why a parked job would only wait if it were sent again by a route: the configuration has no place for it now.
// With another route than SameRoute its own provider is not asked for.
func (g *Gateway) Movable(head *ledger.Intent, override string) error {
	if intent.IsCallback(head) { // whose address is its own
		return nil
	}
	as := *head
	if override != "" && override != SameRoute {
		as.Trigger = overrideTrigger + override
	}
	if _, err := g.current.Load().jobCandidate(&as); err != nil {
		return errors.New(err.Message + ": it would only wait for that; configure it again, choose another route, or discard the job")
	}
	return nil
}
