package admin

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Callback is one end of a job that was told, or is to be, as JSON.
type Callback struct {
	ID            string     `json:"id"`   // its own intent, and its webhook-id
	Type          string     `json:"type"` // job.settled, job.unknown, job.owner_review, job.dead_letter
	State         string     `json:"state"`
	Outcome       string     `json:"outcome"`
	Lane          string     `json:"lane"`
	Attempt       int        `json:"attempt"`
	LastErrorType string     `json:"last_error_type"`
	CreatedAt     *time.Time `json:"created_at"`
	ReadyAt       *time.Time `json:"ready_at"` // of the next attempt
	SettledAt     *time.Time `json:"settled_at"`
}

// mostCallbacks bounds those that are shown of a job: the last.
const mostCallbacks = 20

// callbacksOf reads what became of the callbacks that a history names. One that retention has removed is shown by its name.
func (a *API) callbacksOf(ctx context.Context, history []ledger.Event) ([]Callback, error) {
	var all []Callback
	for i := range history {
		if history[i].Kind != intent.CallbackKind {
			continue
		}
		var said struct{ Intent, Type string }
		if json.Unmarshal(history[i].Evidence, &said) == nil {
			all = append(all, Callback{ID: said.Intent, Type: said.Type})
		}
	}
	all = all[max(0, len(all)-mostCallbacks):]
	for i := range all {
		r, err := a.Ledger.Get(ctx, all[i].ID)
		switch {
		case errors.Is(err, ledger.ErrNotFound):
		case err != nil:
			return nil, err
		default:
			all[i] = Callback{ID: r.ID, Type: all[i].Type, State: r.State.String(), Outcome: r.Outcome.String(), Lane: r.Lane, Attempt: r.Attempt,
				LastErrorType: r.LastError, CreatedAt: when(r.CreatedAt), ReadyAt: when(r.ReadyAt), SettledAt: when(r.SettledAt)}
		}
	}
	return all, nil
}
