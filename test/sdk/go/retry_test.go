package sdk

import "testing"

// TestRetryInside: with retries in the gateway the client sees one answer and sends one request.
func TestRetryInside(t *testing.T) {
	needGateway(t)
	each(t, func(t *testing.T, c client) {
		both(t, func(t *testing.T, streamed bool) {
			op := theRig.op()
			in := call{op: op, prompt: "second time lucky", script: `{"steps":[{"status":503},{}]}`,
				header: map[string]string{"Idempotency-Key": op, "Holdfast-Workflow": "persistent"}}
			got, tape, err := c.ask(t.Context(), streamed, in)
			if err != nil || got.text == "" || tape.attempts() != 1 {
				t.Fatalf("%q after %d attempts of the client, %v", got.text, tape.attempts(), err)
			}
			if n := theRig.counts(t, op); n.Calls != 2 || tape.last().header.Get("Holdfast-Attempts") != "2" {
				t.Errorf("%d calls upstream, Holdfast-Attempts %q, want 2", n.Calls, tape.last().header.Get("Holdfast-Attempts"))
			}
		})
	})
}

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
