package verify

import (
	"fmt"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

// The kinds of event that the law counts (ledger.Event).
const (
	eventTransition = "transition"
	eventAttempt    = "attempt"
	eventAttemptEnd = "attempt_end"
)

// Status is what an intent's status says, which its history has to lead to.
type Status struct {
	ID      string
	State   ledger.State
	Attempt int
	Billed  int
	Heir    bool // it may have taken over its predecessor's counts (semantics 20)
	Version int64
	Outcome ledger.Outcome
	Waits   bool // it has a time at which its next attempt is due
}

// History follows one intent through its events.
type History struct {
	Status
	Orphan bool // it has no head: another check reports it

	told     int64        // how many versions have events
	at       ledger.State // where the transitions so far lead
	moved    bool
	first    int // number of the first attempt
	attempts int // how many are logged
	ends     map[int]ledger.AttemptEnd
	marked   map[int]bool // attempts marked possibly_billed
	unread   bool
	evidence bool // evidence or a person has spoken: it was unknown, and went on
}

// Read takes in the events of one write: of the change to version, or the n-th that were appended to it.
func (h *History) Read(v *Report, version, n int64, text []byte) {
	if n == 0 && len(text) > 0 {
		if h.told++; version != h.told && !h.Orphan {
			v.Add("version", h.ID, fmt.Sprintf("its history goes on with version %d where %d was due", version, h.told))
			h.told = version
		}
	}
	events, err := stored.DecodeEvents(nil, text)
	if err != nil {
		h.unread = true
		v.Add("event", h.ID, err.Error())
		return
	}
	for i := range events {
		switch e := &events[i]; e.Kind {
		case eventTransition:
			h.move(v, e)
		case eventAttempt:
			if h.attempts == 0 && (h.Heir || e.Attempt == 1) {
				h.first = e.Attempt
			}
			if e.Attempt != h.first+h.attempts {
				v.Add("attempt", h.ID, fmt.Sprintf("attempt %d is logged where %d was due", e.Attempt, h.first+h.attempts))
			}
			h.attempts++
		case eventAttemptEnd:
			h.end(v, e)
		}
	}
}

func (h *History) move(v *Report, e *ledger.Event) {
	switch {
	case h.at == ledger.Settled:
		v.Add("transition", h.ID, fmt.Sprintf("goes on to %s after it was settled", e.To))
	case e.From != h.at:
		v.Add("transition", h.ID, fmt.Sprintf("leaves %s where it was %s", e.From, h.at))
	}
	h.evidence = h.evidence || e.From == ledger.Unknown && e.To != ledger.Unknown
	h.at, h.moved = e.To, true
}

func (h *History) end(v *Report, e *ledger.Event) {
	if h.ends == nil {
		h.ends, h.marked = map[int]ledger.AttemptEnd{}, map[int]bool{}
	}
	if e.Attempt < h.first || e.Attempt >= h.first+h.attempts {
		v.Add("attempt", h.ID, fmt.Sprintf("attempt %d ends and never began", e.Attempt))
	}
	// An end may be told twice: unknown first, and what became of it when that is known.
	h.ends[e.Attempt] = e.End
	h.marked[e.Attempt] = h.marked[e.Attempt] || e.Billed
}

// Judge compares the history with the status and holds the law of semantics 1: every call but one was a definite
// failure or is marked possibly_billed.
func (h *History) Judge(v *Report) {
	if h.unread || h.Orphan {
		return
	}
	if h.moved && h.at != h.State {
		v.Add("transition", h.ID, fmt.Sprintf("its history leads to %s, its status says %s", h.at, h.State))
	}
	if h.told < h.Version {
		v.Add("version", h.ID, fmt.Sprintf("its history ends with version %d, its status is %d", h.told, h.Version))
	}
	h.agree(v)
	if h.attempts > h.Attempt || !h.Heir && h.attempts != h.Attempt {
		v.Add("attempt", h.ID, fmt.Sprintf("%d attempts are logged, its status counts %d", h.attempts, h.Attempt))
	}
	calls, excused, marked := h.attempts, 0, 0
	for n := h.first; n < h.first+h.attempts; n++ {
		switch {
		case h.ends[n] == ledger.AttemptNotSent:
			calls--
		case h.ends[n] == ledger.AttemptFailed || h.marked[n]:
			excused++
		}
		if h.marked[n] {
			marked++
		}
	}
	if calls-1 > excused {
		v.Add("law", h.ID, fmt.Sprintf("%d calls were made, and only %d of them failed for certain or are marked possibly_billed",
			calls, excused))
	}
	if marked > h.Billed || !h.Heir && marked != h.Billed {
		v.Add("law", h.ID, fmt.Sprintf("%d attempts are marked possibly_billed, its status counts %d", marked, h.Billed))
	}
}

// agree holds what the status says to how the attempts ended. An heir's may have ended in its predecessor's history.
func (h *History) agree(v *Report) {
	won, sent, running := false, false, false
	for n := h.first; n < h.first+h.attempts; n++ {
		end, ended := h.ends[n]
		won = won || end == ledger.AttemptSuccess
		sent = sent || !ended || end == ledger.AttemptSuccess || end == ledger.AttemptUnknown
		running = running || !ended
	}
	report := func(wrong bool, detail string) {
		if wrong {
			v.Add("attempt", h.ID, detail)
		}
	}
	report(h.Outcome == ledger.OutcomeSuccess && !won && !h.evidence, "is a success, and no attempt of it succeeded nor did evidence say so")
	report(h.Outcome == ledger.OutcomeDiscarded && sent && !h.evidence, "was discarded, and an attempt of it may have reached the far side")
	report(h.State == ledger.Created && sent && !h.evidence, "is created, and an attempt of it may have reached the far side")
	report(h.State == ledger.Unknown && !sent, "is unknown, and no attempt of it can have reached the far side")
	report(h.State >= ledger.Unknown && running, "is "+h.State.String()+", and an attempt of it never ended")
	report(h.State == ledger.Dispatched && h.attempts == 0 && !h.Heir, "is dispatched, and has no attempt")
	report(h.State == ledger.Dispatched && h.Waits && running, "waits for its next attempt, and the last one never ended")
}
