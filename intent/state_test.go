package intent

import (
	"errors"
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
)

// TestEveryStep holds all pairs of state and step against the diagram of interface.md §3, written out once more.
func TestEveryStep(t *testing.T) {
	const none = ledger.State(0)
	legal := map[step]map[ledger.State]ledger.State{
		stepCreate:   {none: ledger.Created},
		stepDispatch: {ledger.Created: ledger.Dispatched},
		stepAttempt:  {ledger.Dispatched: ledger.Dispatched},
		stepRelease:  {ledger.Dispatched: ledger.Created},
		stepLose:     {ledger.Dispatched: ledger.Unknown},
		stepConfirm:  {ledger.Dispatched: ledger.Confirmed},
		stepResolve:  {ledger.Unknown: ledger.Confirmed},
		stepReturn:   {ledger.Unknown: ledger.Created},
		stepSettle:   {ledger.Confirmed: ledger.Settled},
		stepDiscard:  {ledger.Created: ledger.Settled},
		stepContinue: {ledger.Created: ledger.Created, ledger.Dispatched: ledger.Dispatched, ledger.Unknown: ledger.Unknown,
			ledger.Confirmed: ledger.Confirmed},
	}
	if len(legal) != steps {
		t.Fatalf("%d steps are held, there are %d", len(legal), steps)
	}
	for s := range step(steps) {
		for from := none; from <= ledger.Settled+1; from++ {
			want, ok := legal[s][from]
			to, err := next(from, s)
			var illegal *IllegalStepError
			switch {
			case ok && (err != nil || to != want):
				t.Errorf("%s from %s: %s, %v; want %s", arrows[s].name, from, to, err, want)
			case !ok && (!errors.As(err, &illegal) || to != none):
				t.Errorf("%s from %s: %s, %v; want an IllegalStepError", arrows[s].name, from, to, err)
			case !ok && (illegal.Step != arrows[s].name || illegal.State != from):
				t.Errorf("%s from %s: the error says %v", arrows[s].name, from, illegal)
			}
		}
	}
}
