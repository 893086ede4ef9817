package intent_test

import (
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// What done lets go of is gone when Settle returns: whoever hears of the end and comes again must not find it.
func TestSettleTellsItsOwnerFirst(t *testing.T) {
	inBubble(t, plan, finds(intent.Happened), func(r *patrolled) {
		o, err := r.log.Begin(begin("k"))
		if err != nil {
			r.Fatal(err)
		}
		told := false
		err = o.Settle(intent.Settlement{Ending: intent.Ending{End: ledger.AttemptFailed}, Outcome: ledger.OutcomeFailed}, false, func(error) {
			time.Sleep(time.Second)
			told = true
		})
		if err != nil || !told {
			r.Errorf("Settle returned %v; its owner had been told: %t", err, told)
		}
	})
}
