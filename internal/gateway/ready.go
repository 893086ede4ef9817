package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/holdfast-ai/holdfast/ledger"
)

var (
	errDraining  = errors.New("draining: no new work is taken on")
	errStoreAway = errors.New("the store is unavailable")
	errBeatLate  = errors.New("the store has no current heartbeat of this replica")
)

// Readiness is what /readyz says to who asks for JSON. Whoever asks has no credential: no path, host or error is in it.
type Readiness struct {
	Ready     bool   `json:"ready"`
	Store     string `json:"store"`     // ok, degraded (one of several databases is away, and its keys with it), unavailable
	Heartbeat string `json:"heartbeat"` // ok, late
	// SharedState is "local" where none is configured, "ok", or "degraded" while its store is away: then each replica goes by what
	// it knows, and is ready all the same.
	SharedState string `json:"shared_state"`
	Draining    bool   `json:"draining"`

	why error
}

// Leave has this gateway take calls on as before, but no jobs, and say that it is not ready: it was told to stop, and who sends calls
// here is to notice before they are refused.
func (g *Gateway) Leave() { g.leaving.Store(true) }

// Ready is nil while calls are to be sent here, else the reason why not.
func (g *Gateway) Ready() error { return g.Readiness().why }

// Readiness is the truth about this gateway at this moment.
func (g *Gateway) Readiness() Readiness {
	r := Readiness{Store: "ok", Heartbeat: "ok", SharedState: "local", Draining: g.leaving.Load() || g.draining.Load()}
	if g.shared != nil {
		if r.SharedState = "ok"; g.shared.Degraded() {
			r.SharedState = "degraded"
		}
	}
	if g.beat != nil {
		if err := g.beat(); err != nil {
			r.Heartbeat, r.why = "late", fmt.Errorf("%w: %w", errBeatLate, err)
		}
	}
	if err := g.ledger.Healthy(); err != nil {
		r.Store, r.why = "unavailable", fmt.Errorf("%w: %w", errStoreAway, err)
	}
	if parts, several := g.ledger.(ledger.Parted); several && r.Store == "ok" && parts.Away() > 0 {
		r.Store = "degraded"
	}
	if r.Draining {
		r.why = errDraining
	}
	r.Ready = r.why == nil
	return r
}

// word is the reason without what it was made of.
func (r *Readiness) word() error {
	for _, word := range []error{errDraining, errStoreAway, errBeatLate} {
		if errors.Is(r.why, word) {
			return word
		}
	}
	return r.why
}

// WriteReady answers a readiness check: in a word, or in JSON where that is asked for.
func WriteReady(w http.ResponseWriter, req *http.Request, r Readiness) {
	status := http.StatusOK
	if !r.Ready {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case strings.Contains(req.Header.Get("Accept"), "application/json"):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(r) // a client that left
	case r.Ready:
		w.WriteHeader(status)
		_, _ = w.Write([]byte("ready\n"))
	default:
		http.Error(w, "not ready: "+r.word().Error(), status)
	}
}
