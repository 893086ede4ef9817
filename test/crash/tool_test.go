package crash

import (
	"fmt"
	"github.com/holdfast-ai/holdfast/test/farside"
	"testing"
	"time"
)

// toolSteps are what the far side does with the first call that writes: it loses the reply before or after the effect,
// acts beyond the time-out, or fails after it acted.
var toolSteps = map[string]string{
	"it answers":                   `"ok"`,
	"reply lost after the effect":  `"reply_lost"`,
	"reply lost before the effect": `"reset_after_body"`,
	"500 after the effect":         `"error_after_effect"`,
	"an effect beyond the timeout": `{"work_ms":1400}`,
}

// TestToolCrash kills the gateway at every point around a tool's call, and once more while the outcome is being found out.
// A client that asks until it is answered gets its one effect, or none of it twice.
func TestToolCrash(t *testing.T) {
	for name, step := range toolSteps {
		for _, point := range []string{"", "commit.before", "commit.after", "send.before", "send.after", "answer.before"} {
			t.Run(name+"/"+point, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				if !r.start(point) {
					t.Fatal("it died before it served")
				}
				op := "order"
				rule := fmt.Sprintf(`{"match":{"op":%q,"method":"POST"},"steps":[%s]}`, op, step)
				r.Rule(rule)
				a, died := r.insist(op)
				if reached := point != ""; died != reached && point != "answer.before" { // which an unknown call does not reach
					t.Errorf("died at its point: %v, want %v", died, reached)
				}
				if again := r.order(op); again == nil || again.Intent() != a.Intent() || !again.Replayed() {
					t.Errorf("answered twice: %v, %v", a, again)
				}
				if n := r.Effects()[op]; n != 1 {
					t.Errorf("%d effects, want 1", n)
				}
				r.stop()
			})
		}
	}
}

// order sends the write; nil: the gateway died of it.
func (r *rig) order(op string) *farside.Answer {
	r.t.Helper()
	a, err := r.Send(r.gateway.URL, "/tools/shop/orders", fmt.Appendf(nil, `{"order":"o-1","note":"op=%s"}`, op), nil)
	if err != nil {
		return nil
	}
	return a
}

// insist asks until the answer is no question of evidence any more. It restarts a gateway that died, and kills one that
// holds an unknown outcome, once.
func (r *rig) insist(op string) (a *farside.Answer, died bool) {
	r.t.Helper()
	killed := false
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		a = r.order(op)
		switch {
		case a == nil:
			r.mustDie("the gateway gave no answer and lives")
			r.gateway, died = nil, true
			r.start("")
		case a.Code() == "outcome_unknown" && !killed:
			killed = true
			r.kill()
			r.start("")
		case a.Status == 200:
			return a, died
		}
	}
	r.t.Fatal("no answer within two minutes")
	return nil, false
}
