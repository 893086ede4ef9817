// Package intent is the log of intended effects: what may happen to an operation, written before it happens.
package intent

import (
	"fmt"

	"github.com/holdfast-ai/holdfast/ledger"
)

// The states of an operation (interface.md §3):
//
//	        ┌─── definite failure, may be tried again (attempt + 1, ready_at) ───┐
//	        ▼                                                                    │
//	intent_created ─► dispatched ────────────────────────────────────────────────┤
//	        │             │  └─► unknown ──(evidence: did not happen)────────────┘
//	        │             ▼          │
//	        │         confirmed ◄────┘ (evidence: happened; or a person)
//	        ▼             ▼
//	     settled ◄────────┘          (created ─► settled: cancelled, expired, discarded)
//
// dispatched ─► dispatched is the next attempt: after an unknown one only under on_unknown: retry (semantics 2).
// Every change of state in the program is one of these steps; there is no other way to move an intent.
type step uint8

const (
	stepCreate   step = iota // a new intent, nothing sent
	stepDispatch             // the first attempt may leave
	stepAttempt              // a further attempt may leave
	stepRelease              // a definite failure: back to where nothing is on its way
	stepLose                 // the outcome of what was sent is not known
	stepConfirm              // the outcome is known, by the answer itself
	stepResolve              // evidence or a person: it happened, or it failed and nobody asks any more
	stepReturn               // evidence: it did not happen, and the work is still wanted
	stepSettle               // finished
	stepDiscard              // finished without anything having been sent
	stepContinue             // no change of state: progress on an unsettled intent
	steps        = int(stepContinue) + 1
)

type arrow struct {
	name string
	from []ledger.State
	to   ledger.State // 0: stays
}

// arrows is the diagram as a table: the only place that says which steps are legal.
var arrows = [steps]arrow{
	stepCreate:   {"create", nil, ledger.Created},
	stepDispatch: {"dispatch", []ledger.State{ledger.Created}, ledger.Dispatched},
	stepAttempt:  {"attempt", []ledger.State{ledger.Dispatched}, ledger.Dispatched},
	stepRelease:  {"release", []ledger.State{ledger.Dispatched}, ledger.Created},
	stepLose:     {"lose", []ledger.State{ledger.Dispatched}, ledger.Unknown},
	stepConfirm:  {"confirm", []ledger.State{ledger.Dispatched}, ledger.Confirmed},
	stepResolve:  {"resolve", []ledger.State{ledger.Unknown}, ledger.Confirmed},
	stepReturn:   {"return", []ledger.State{ledger.Unknown}, ledger.Created},
	stepSettle:   {"settle", []ledger.State{ledger.Confirmed}, ledger.Settled},
	stepDiscard:  {"discard", []ledger.State{ledger.Created}, ledger.Settled},
	stepContinue: {"continue", []ledger.State{ledger.Created, ledger.Dispatched, ledger.Unknown, ledger.Confirmed}, 0},
}

// IllegalStepError says that a step does not begin in the state an intent is in. It is a defect of the caller,
// never of the input.
type IllegalStepError struct {
	Step  string
	State ledger.State
}

func (e *IllegalStepError) Error() string {
	return fmt.Sprintf("intent: %s is no step from %s", e.Step, e.State)
}

// next returns the state after s, or an *IllegalStepError.
func next(from ledger.State, s step) (ledger.State, error) {
	a := arrows[s]
	if from == 0 && a.from == nil {
		return a.to, nil
	}
	for _, f := range a.from {
		if f != from {
			continue
		}
		if a.to == 0 {
			return from, nil
		}
		return a.to, nil
	}
	return 0, &IllegalStepError{Step: a.name, State: from}
}
