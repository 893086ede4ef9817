package replicas

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-ai/holdfast/test/farside"
)

// word is what one request was told of its key.
type word struct {
	kind string // answered, unknown, failed
	body string // answered
}

// key is a register: the first success is written once and read ever after; a failure leaves it as it was; an unknown outcome stays one
// until there is evidence. Which replica says so makes no difference.
var key = porcupine.Model{
	Init: func() any { return word{} },
	Step: func(state, _, output any) (bool, any) {
		is, said := state.(word), output.(word)
		switch said.kind {
		case "answered":
			return is.kind != "answered" || is.body == said.body, said
		case "unknown":
			return is.kind != "answered", said
		}
		return is.kind != "answered", is
	},
	DescribeOperation: func(_, output any) string { return fmt.Sprintf("%.80v", output) },
	DescribeState:     func(state any) string { return fmt.Sprintf("%.80v", state) },
}

// linear holds the history of every key whose answers are durable before they are told to the register.
func (s *storm) linear() {
	s.t.Helper()
	checked := 0
	for _, o := range s.ops {
		if !o.Keyed || !o.Strict {
			continue
		}
		history := told(o)
		checked += len(history)
		if r := porcupine.CheckOperationsTimeout(key, history, time.Minute); r != porcupine.Ok {
			s.t.Errorf("op %s (%s): what its clients were told is no history of one register (%s):", o.Name, o.Kind.Name, r)
			for _, h := range history {
				s.t.Logf("  %9.3f ms to %9.3f ms: %.200v", float64(h.Call)/1e6, float64(h.Return)/1e6, h.Output)
			}
		}
	}
	s.t.Logf("%d answers are the histories of registers", checked)
}

// told are the requests that were told something of the key itself.
func told(o *farside.Op) (history []porcupine.Operation) {
	began := time.Unix(0, math.MaxInt64)
	for _, a := range o.Asked {
		if a.Called.Before(began) {
			began = a.Called
		}
	}
	for i, a := range o.Asked {
		var said word
		switch {
		case a.Answer == nil || a.Answer.Pending:
			continue
		case o.Whole(a.Answer):
			said = word{"answered", string(a.Answer.Body)}
		case a.Answer.Code() == "outcome_unknown":
			said = word{kind: "unknown"}
		case a.Answer.Code() == "" && a.Answer.Status >= 400 && a.Answer.Intent() != "": // the far side's own word
			said = word{kind: "failed"}
		default:
			continue // nothing was sent, says the answer
		}
		history = append(history, porcupine.Operation{ClientId: i, Output: said,
			Call: int64(a.Called.Sub(began)), Return: int64(a.Returned.Sub(began))})
	}
	return history
}
