package mcp

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// held finds calls of unknown outcome again whose keys belong to sessions that may be over: a client that comes back after a
// crash is a new session, and its repetition must not become a second effect. So are calls found that wait for their owner, whose word
// may come when the session, or the window of its key, is over. It only saves a search of the log.
type held struct {
	mu  sync.Mutex
	all map[heldKey]string // intent
}

type heldKey struct {
	tenant, server string
	fingerprint    [32]byte
}

const (
	heldPage = 500
	// heldAge is how far back a success is looked for that was unknown once: claims of tools last a day unless a policy
	// says more, and those with a policy are found by their own keys.
	heldAge = 24 * time.Hour
)

// loadServer reads what is unknown, and what was and has been resolved as a success: who was told not to repeat it may be a new
// session by now.
func (h *held) loadServer(ctx context.Context, l ledger.Ledger, name string) error {
	unknown := ledger.Filter{States: []ledger.State{ledger.Created, ledger.Unknown, ledger.Dispatched}, Unsettled: true, Workflow: name, Limit: heldPage}
	resolved := ledger.Filter{States: []ledger.State{ledger.Settled}, Outcomes: []ledger.Outcome{ledger.OutcomeSuccess, ledger.OutcomeDiscarded}, Workflow: name,
		NewerThan: l.Now().Add(-heldAge), Limit: heldPage}
	for _, f := range []ledger.Filter{resolved, unknown} {
		if err := h.read(ctx, l, f); err != nil {
			return err
		}
	}
	return nil
}

func (h *held) read(ctx context.Context, l ledger.Ledger, f ledger.Filter) error {
	for {
		records, err := l.List(ctx, f)
		if err != nil {
			return err
		}
		h.mu.Lock()
		for _, r := range records {
			f.Before = r.ID
			if r.Provider == "mcp" && remembered(r) {
				h.all[heldKey{r.Tenant, r.Workflow, r.Fingerprint}] = r.ID
			}
		}
		h.mu.Unlock()
		if len(records) < heldPage {
			return nil
		}
	}
}

// remembered reports whether a call is found across sessions: what is unknown, or was and has been resolved; and what waits for
// its owner, or for its client since he has approved it, or was rejected by him.
func remembered(r *ledger.Record) bool {
	switch r.State {
	case ledger.Created:
		return r.Attempt == 0
	case ledger.Settled:
		return rejected(r) || r.Hold && r.BilledMaybe > 0
	}
	return r.Hold
}

func (h *held) add(c *call, id string) {
	if c.base == "" { // a key of business arguments is found by itself
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[c.heldKey()] = id
}

func (c *call) heldKey() heldKey { return heldKey{c.s.caller.Tenant, c.s.srv.name, c.plain} }

// find returns the intent of unknown outcome that c would repeat, also once it has been resolved, while its claim lasts. Nil:
// there is none.
func (h *held) find(ctx context.Context, l ledger.Ledger, c *call) *ledger.Record {
	if c.base == "" {
		return nil
	}
	h.mu.Lock()
	id := h.all[c.heldKey()]
	h.mu.Unlock()
	if id == "" {
		return nil
	}
	r, err := l.Get(ctx, id)
	switch {
	case err != nil:
	case r.State == ledger.Unknown, r.State == ledger.Dispatched, r.State == ledger.Created:
		r.Fingerprint = c.fingerprint // one that is repeated on purpose is held, too
		return r
	case (r.State == ledger.Settled && r.Outcome == ledger.OutcomeSuccess || rejected(r)) && c.reason == "" && l.Now().Before(r.ClaimUntil):
		return r
	}
	if err == nil && r.State == ledger.Settled {
		h.mu.Lock()
		delete(h.all, c.heldKey())
		h.mu.Unlock()
	}
	return nil
}
