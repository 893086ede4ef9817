package sqlite

import (
	"fmt"

	"github.com/holdfast-ai/holdfast/ledger"
)

// The kinds of event that the law counts (ledger.Event).
const (
	eventTransition = "transition"
	eventAttempt    = "attempt"
	eventAttemptEnd = "attempt_end"
)

// verifyHistory follows one intent through its events.
type verifyHistory struct {
	seq     int64
	orphan  bool
	id      string
	state   ledger.State // of its status
	attempt int
	billed  int
	heir    bool // it may have taken over its predecessor's counts (semantics 20)

	at       ledger.State // where the transitions so far lead
	moved    bool
	first    int // number of the first attempt
	attempts int // how many are logged
	ends     map[int]ledger.AttemptEnd
	marked   map[int]bool // attempts marked possibly_billed
	unread   bool
}

func (h *verifyHistory) read(v *verifier, text []byte) {
	events, err := decodeEvents(nil, text)
	if err != nil {
		h.unread = true
		v.report("event", h.id, err.Error())
		return
	}
	for i := range events {
		switch e := &events[i]; e.Kind {
		case eventTransition:
			h.move(v, e)
		case eventAttempt:
			if h.attempts == 0 && (h.heir || e.Attempt == 1) {
				h.first = e.Attempt
			}
			if e.Attempt != h.first+h.attempts {
				v.report("attempt", h.id, fmt.Sprintf("attempt %d is logged where %d was due", e.Attempt, h.first+h.attempts))
			}
			h.attempts++
		case eventAttemptEnd:
			h.end(v, e)
		}
	}
}

func (h *verifyHistory) move(v *verifier, e *ledger.Event) {
	switch {
	case h.at == ledger.Settled:
		v.report("transition", h.id, fmt.Sprintf("goes on to %s after it was settled", e.To))
	case e.From != h.at:
		v.report("transition", h.id, fmt.Sprintf("leaves %s where it was %s", e.From, h.at))
	}
	h.at, h.moved = e.To, true
}

func (h *verifyHistory) end(v *verifier, e *ledger.Event) {
	if h.ends == nil {
		h.ends, h.marked = map[int]ledger.AttemptEnd{}, map[int]bool{}
	}
	if e.Attempt < h.first || e.Attempt >= h.first+h.attempts {
		v.report("attempt", h.id, fmt.Sprintf("attempt %d ends and never began", e.Attempt))
	}
	// An end may be told twice: unknown first, and what became of it when that is known.
	h.ends[e.Attempt] = e.End
	h.marked[e.Attempt] = h.marked[e.Attempt] || e.Billed
}

// judge compares the history with the status and holds the law of semantics 1: every call but one was a definite
// failure or is marked possibly_billed.
func (h *verifyHistory) judge(v *verifier) {
	if h.unread || h.orphan || h.seq == 0 {
		return
	}
	if h.moved && h.at != h.state {
		v.report("transition", h.id, fmt.Sprintf("its history leads to %s, its status says %s", h.at, h.state))
	}
	if h.attempts > h.attempt || !h.heir && h.attempts != h.attempt {
		v.report("attempt", h.id, fmt.Sprintf("%d attempts are logged, its status counts %d", h.attempts, h.attempt))
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
		v.report("law", h.id, fmt.Sprintf("%d calls were made, and only %d of them failed for certain or are marked possibly_billed",
			calls, excused))
	}
	if marked > h.billed || !h.heir && marked != h.billed {
		v.report("law", h.id, fmt.Sprintf("%d attempts are marked possibly_billed, its status counts %d", marked, h.billed))
	}
}
