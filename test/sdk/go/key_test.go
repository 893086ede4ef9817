package sdk

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"testing"
)

// TestReplay: the same key again gets the first answer, byte for byte, and the provider hears nothing of it.
func TestReplay(t *testing.T) {
	needGateway(t)
	each(t, func(t *testing.T, c client) {
		both(t, func(t *testing.T, streamed bool) {
			t.Run("text", func(t *testing.T) { replay(t, c, streamed, call{prompt: "once only"}) })
			t.Run("tool", func(t *testing.T) {
				replay(t, c, streamed, call{prompt: "once only", tool: true, script: toolScript("")})
			})
		})
	})
}

func replay(t *testing.T, c client, streamed bool, in call) {
	in.op = theRig.op()
	in.header = map[string]string{"Idempotency-Key": in.op}
	first, a, err := c.ask(t.Context(), streamed, in)
	if err != nil {
		t.Fatal(err)
	}
	second, b, err := c.ask(t.Context(), streamed, in)
	if err != nil {
		t.Fatal(err)
	}
	if a.last().replayed() || !b.last().replayed() {
		t.Errorf("Idempotency-Replayed: first %v, second %v", a.last().replayed(), b.last().replayed())
	}
	if first.text != second.text || first.text == "" && first.call == nil {
		t.Errorf("text %q, then %q", first.text, second.text)
	}
	if !bytes.Equal(a.last().bytes(), b.last().bytes()) {
		t.Errorf("bodies differ:\n%s\n%s", a.last().bytes(), b.last().bytes())
	}
	if a.last().header.Get("Holdfast-Intent") != b.last().header.Get("Holdfast-Intent") {
		t.Error("the replay names another intent")
	}
	calls := theRig.calls(t, in.op)
	if len(calls) != 1 {
		t.Fatalf("%d calls upstream, want 1", len(calls))
	}
	if calls[0].Key == in.op { // the caller's own never leaves (semantics 17)
		t.Error("the caller's key went to the provider")
	}
}

// TestReplayedFailure: a definite permanent failure is kept for its key, a transient one releases it (semantics 14).
func TestReplayedFailure(t *testing.T) {
	needGateway(t)
	each(t, func(t *testing.T, c client) {
		both(t, func(t *testing.T, streamed bool) {
			t.Run("400", func(t *testing.T) { secondAfter(t, c, streamed, 400, true) })
			t.Run("500", func(t *testing.T) { secondAfter(t, c, streamed, 500, false) })
		})
	})
}

func secondAfter(t *testing.T, c client, streamed bool, status int, kept bool) {
	op := theRig.op()
	in := call{op: op, prompt: "fail once", header: map[string]string{"Idempotency-Key": op}}
	in.script = fmt.Sprintf(`{"steps":[{"status":%d},{}]}`, status)
	if _, _, err := c.ask(t.Context(), streamed, in); err == nil || c.fault(err).status != status {
		t.Fatalf("first call: %v, want %d", err, status)
	}
	_, tape, err := c.ask(t.Context(), streamed, in)
	if kept && (err == nil || c.fault(err).status != status || !tape.last().replayed()) {
		t.Errorf("second call: %v, replayed %v, want the stored %d", err, tape.last().replayed(), status)
	}
	if !kept && (err != nil || tape.last().replayed()) {
		t.Errorf("second call: %v, replayed %v, want a new execution", err, tape.last().replayed())
	}
	want := 2
	if kept {
		want = 1
	}
	if n := theRig.counts(t, op); n.Calls != want {
		t.Errorf("%d calls upstream, want %d", n.Calls, want)
	}
}

// TestConcurrent: twenty at once with one key are one call upstream and twenty equal answers.
func TestConcurrent(t *testing.T) {
	needGateway(t)
	const callers = 20
	each(t, func(t *testing.T, c client) {
		both(t, func(t *testing.T, streamed bool) {
			op := theRig.op()
			in := call{op: op, prompt: "all together", script: `{"work_ms":200,"event_ms":10}`, header: map[string]string{"Idempotency-Key": op}}
			texts, tapes := make([]string, callers), make([]*tape, callers)
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					got, tape, err := c.ask(t.Context(), streamed, in)
					if err != nil {
						t.Errorf("caller %d: %v", i, err)
					}
					texts[i], tapes[i] = got.text, tape
				})
			}
			all.Wait()
			original := 0
			for i := range callers {
				if texts[i] != texts[0] || texts[i] == "" || !bytes.Equal(tapes[i].last().bytes(), tapes[0].last().bytes()) {
					t.Errorf("caller %d got %q, caller 0 %q", i, texts[i], texts[0])
				}
				if !tapes[i].last().replayed() {
					original++
				}
			}
			if n := theRig.counts(t, op); n.Calls != 1 || original != 1 {
				t.Errorf("%d calls upstream, %d answers without the replay marker, want 1 each", n.Calls, original)
			}
		})
	})
}

// TestConflict: where policy lets nobody wait, a duplicate is told to come back, and the clients that obey
// x-should-retry then get the first answer.
func TestConflict(t *testing.T) {
	needGateway(t)
	each(t, func(t *testing.T, c client) {
		op := theRig.op()
		in := call{op: op, prompt: "mine", script: fmt.Sprintf(`{"hold":%q}`, op), header: map[string]string{"Idempotency-Key": op, "Holdfast-Workflow": "conflict"}}
		var first, second answer
		var firstErr, secondErr error
		var all sync.WaitGroup
		all.Go(func() { first, _, firstErr = c.ask(t.Context(), false, in) })
		theRig.waitHeld(t, op)
		tape := &tape{onStatus: func(status int) {
			if status == http.StatusConflict {
				theRig.release(t, op)
				all.Wait()
			}
		}}
		second, _, secondErr = c.askOn(t.Context(), tape, false, in)
		all.Wait()
		if firstErr != nil {
			t.Fatal(firstErr)
		}
		if n := theRig.counts(t, op); n.Calls != 1 {
			t.Errorf("%d calls upstream, want 1", n.Calls)
		}
		if !c.retry {
			if f := c.fault(secondErr); secondErr == nil || f.status != http.StatusConflict || f.code != "request_in_flight" {
				t.Errorf("second call: %+v from %v, want 409 request_in_flight", f, secondErr)
			}
			return
		}
		if secondErr != nil || second.text != first.text || tape.attempts() != 2 || !tape.last().replayed() {
			t.Errorf("second call: %q after %d attempts, %v; want the first answer %q on the second attempt", second.text, tape.attempts(), secondErr, first.text)
		}
	})
}
