package mcp

import (
	"context"
	"slices"
	"sync"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// history is the order in which write tools of one server were executed: any other write ends the window of a call that comes
// without a key template (semantics 41). Writes are named by their intents, so that a process that takes the log over goes on
// with the windows as they were.
type history struct {
	mu   sync.Mutex
	last []written
}

type written struct {
	id          string // intent
	base        string // which calls are the same within their session; empty: made by an earlier process
	fingerprint [32]byte
	key         string // of one that an earlier process made
}

const keepWritten = 256

// window names the last write before now that is another one than c; "": none. key makes c's key within a window.
func (h *history) window(c *call, key func(window string) (string, error)) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	window := ""
	if mutant.On("window-past-other-write") {
		return window, nil
	}
	for i := range h.last {
		w := &h.last[i]
		same := w.base == c.base
		if w.base == "" && w.fingerprint == c.fingerprint { // of this session, or of another: its key tells
			own, err := key(window)
			if err != nil {
				return "", err
			}
			same = own == w.key
		}
		if !same {
			window = w.id
		}
	}
	return window, nil
}

// add puts a write on record that is about to be sent. What certainly did nothing is taken out again.
func (h *history) add(w written) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.last); n > 0 && h.last[n-1].id == w.id { // a further round of the same call
		return
	}
	if len(h.last) == keepWritten {
		h.last = h.last[:copy(h.last, h.last[1:])]
	}
	h.last = append(h.last, w)
}

func (h *history) remove(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = slices.DeleteFunc(h.last, func(w written) bool { return w.id == id })
}

// loadWritten is how many of a server's last writes are read back: what is wanted is the last one that is another.
const loadWritten = 64

// load reads what earlier processes executed.
func (h *history) load(ctx context.Context, l ledger.Ledger, server string) error {
	records, err := l.List(ctx, ledger.Filter{Workflow: server, NewerThan: l.Now().Add(-heldAge), Limit: loadWritten})
	if err != nil {
		return err
	}
	for _, r := range slices.Backward(records) {
		if r.Provider == "mcp" && r.State != ledger.Created && r.Outcome != ledger.OutcomeFailed && r.Outcome != ledger.OutcomeDiscarded && !mutant.On("windows-forgotten") {
			h.add(written{id: r.ID, fingerprint: r.Fingerprint, key: r.Key})
		}
	}
	return nil
}
