package sdk

import "testing"

// TestRetryOfClient: without a key and with no gateway's word against it, a client's retry is a second call; with
// the gateway's word it is not made.
func TestRetryOfClient(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		op := theRig.op()
		_, tape, err := c.ask(t.Context(), false, call{op: op, prompt: "once", script: `{"steps":[{"status":500},{}]}`})
		n := theRig.counts(t, op)
		if theRig.direct() && c.retry {
			if err != nil || tape.attempts() != 2 || n.Calls != 2 {
				t.Errorf("%d attempts, %d calls, %v: this client retries by itself", tape.attempts(), n.Calls, err)
			}
			return
		}
		if err == nil || tape.attempts() != 1 || n.Calls != 1 {
			t.Errorf("%d attempts, %d calls, %v, want one of each and the error", tape.attempts(), n.Calls, err)
		}
	})
}
