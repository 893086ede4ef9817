package gateway

import (
	"net/http"
	"time"
)

// A failure that is given again says so, as an answer does: whoever reads it could not tell a gateway that is stuck from one that has
// asked nobody. It says no Retry-After: a client that keeps to one would come back just when it is sent again, which is what the
// hold is there to prevent (semantics 21).

// told writes what is known of a failure that is given again, or that something stands in the place of.
func (h *held) told(out http.Header) {
	if h.trail != "" {
		set(out, "Holdfast-Trail", h.trail)
	}
	if id := h.intent(); id != "" {
		set(out, "Holdfast-Intent", id)
	}
}

// replayed marks the failure itself.
func (h *held) replayed(out http.Header) {
	h.told(out)
	if h.since.IsZero() { // what nobody knows is no answer that could be given again
		return
	}
	set(out, "Idempotency-Replayed", "true")
	set(out, "Holdfast-Source", "replay")
	set(out, "Holdfast-Original-Date", h.since.UTC().Format(time.RFC3339))
}

// intent is the operation that failed so.
func (h *held) intent() string {
	switch {
	case h == nil:
		return ""
	case h.reply != nil:
		return h.reply.id
	}
	return h.fail.Intent
}
