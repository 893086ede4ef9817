package sdk

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestProviderError: an error that the provider made keeps its status and body, whichever way it takes.
func TestProviderError(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 503, 529} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, c client) {
				both(t, func(t *testing.T, streamed bool) { providerError(t, c, streamed, status) })
			})
		})
	}
}

func providerError(t *testing.T, c client, streamed bool, status int) {
	op := theRig.op()
	_, tape, err := c.ask(t.Context(), streamed, call{op: op, prompt: "fail", script: fmt.Sprintf(`{"status":%d,"message":"no luck today"}`, status)})
	if err == nil {
		t.Fatal("no error")
	}
	if f := c.fault(err); !f.typed || f.status != status {
		t.Errorf("%+v from %v, want the client's own error with status %d", f, err, status)
	}
	if body := string(tape.last().bytes()); !strings.Contains(body, "no luck today") {
		t.Errorf("the provider's message did not come through: %s", body)
	}
	n := theRig.counts(t, op)
	if theRig.direct() {
		if want := c.steadyAttempts(status); tape.attempts() != want || n.Calls != want {
			t.Errorf("%d attempts, %d calls, want %d", tape.attempts(), n.Calls, want)
		}
		return
	}
	if tape.attempts() != 1 || n.Calls != 1 {
		t.Errorf("%d attempts of the client, %d calls upstream, want 1 each", tape.attempts(), n.Calls)
	}
	h := tape.last().header
	if h.Get("X-Should-Retry") != "false" || h.Get("Holdfast-Safe-To-Retry") == "" {
		t.Errorf("x-should-retry %q, Holdfast-Safe-To-Retry %q", h.Get("X-Should-Retry"), h.Get("Holdfast-Safe-To-Retry"))
	}
}

// steadyAttempts is how often the client sends a request that always gets this status (sdk-facts: retries).
func (c client) steadyAttempts(status int) int {
	switch {
	case !c.retry:
		return 1
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooManyRequests, status >= 500:
		return 3
	}
	return 1
}

// TestOwnError: the gateway's own errors raise each client's usual type and carry the gateway's code.
func TestOwnError(t *testing.T) {
	needGateway(t)
	each(t, func(t *testing.T, c client) {
		both(t, func(t *testing.T, streamed bool) {
			t.Run("deadline_exceeded", func(t *testing.T) {
				t.Parallel()
				// It waits out the cool-down that the 429 of an earlier test left on the route: a call in a hurry is told of
				// it at once.
				if _, _, err := c.ask(t.Context(), streamed, call{op: theRig.op(), prompt: "no hurry"}); err != nil {
					t.Fatal(err)
				}
				in := call{op: theRig.op(), prompt: "hang", script: `"hang"`, header: map[string]string{"Holdfast-Deadline-Ms": "400"}}
				ownError(t, c, streamed, in, http.StatusGatewayTimeout, "deadline_exceeded", 1)
			})
			t.Run("invalid_idempotency_key", func(t *testing.T) {
				t.Parallel()
				in := call{op: theRig.op(), prompt: "long key", header: map[string]string{"Idempotency-Key": strings.Repeat("k", 256)}}
				ownError(t, c, streamed, in, http.StatusBadRequest, "invalid_idempotency_key", 0)
			})
			t.Run("invalid_request", func(t *testing.T) {
				t.Parallel()
				in := call{op: theRig.op(), prompt: "bad header", header: map[string]string{"Holdfast-Deadline-Ms": "soon"}}
				ownError(t, c, streamed, in, http.StatusBadRequest, "invalid_request", 0)
			})
			t.Run("request_too_large", func(t *testing.T) {
				t.Parallel()
				in := call{op: theRig.op(), prompt: strings.Repeat("too large ", 1<<18)} // run.sh sets 2 MiB
				ownError(t, c, streamed, in, http.StatusRequestEntityTooLarge, "request_too_large", 0)
			})
			t.Run("idempotency_key_reused", func(t *testing.T) {
				t.Parallel()
				keyReused(t, c, streamed)
			})
			t.Run("outcome_unknown", func(t *testing.T) {
				t.Parallel()
				outcomeUnknown(t, c, streamed)
			})
		})
	})
}

func ownError(t *testing.T, c client, streamed bool, in call, status int, code string, upstream int) {
	t.Helper()
	_, tape, err := c.ask(t.Context(), streamed, in)
	if err == nil {
		t.Fatalf("no error, want %d %s", status, code)
	}
	if f := c.fault(err); !f.typed || f.status != status || f.code != code {
		t.Errorf("%+v from %v, want %d %s", f, err, status, code)
	}
	h := tape.last().header
	if h.Get("Holdfast-Error") != code || h.Get("X-Should-Retry") != "false" || h.Get("Holdfast-Safe-To-Retry") == "" {
		t.Errorf("Holdfast-Error %q, x-should-retry %q, Holdfast-Safe-To-Retry %q", h.Get("Holdfast-Error"), h.Get("X-Should-Retry"), h.Get("Holdfast-Safe-To-Retry"))
	}
	if tape.attempts() != 1 {
		t.Errorf("%d attempts of the client, want 1", tape.attempts())
	}
	if n := theRig.counts(t, in.op); n.Calls != upstream {
		t.Errorf("%d calls upstream, want %d", n.Calls, upstream)
	}
}

// TestUnauthorized: a gateway that has credentials of its own refuses the clients' others (semantics 44).
func TestUnauthorized(t *testing.T) {
	if theRig.guarded == "" {
		t.Skip("HOLDFAST_GUARDED_URL is not set")
	}
	for _, c := range clients(theRig.guarded) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, streamed bool) {
				ownError(t, c, streamed, call{op: theRig.op(), prompt: "let me in"}, http.StatusUnauthorized, "unauthorized", 0)
			})
		})
	}
}

func keyReused(t *testing.T, c client, streamed bool) {
	op := theRig.op()
	key := map[string]string{"Idempotency-Key": op}
	if _, _, err := c.ask(t.Context(), streamed, call{op: op, prompt: "first meaning", header: key}); err != nil {
		t.Fatal(err)
	}
	ownError(t, c, streamed, call{op: op, prompt: "second meaning", header: key}, http.StatusUnprocessableEntity, "idempotency_key_reused", 1)
}

// TestKeyOnAnotherPath: Gemini's plain and streamed calls have the same body and differ in their path alone, which is
// a part of what a key stands for (semantics 15).
func TestKeyOnAnotherPath(t *testing.T) {
	needGateway(t)
	c := geminiClient(theRig.url)
	op := theRig.op()
	in := call{op: op, prompt: "same words", header: map[string]string{"Idempotency-Key": op}}
	if _, _, err := c.ask(t.Context(), false, in); err != nil {
		t.Fatal(err)
	}
	ownError(t, c, true, in, http.StatusUnprocessableEntity, "idempotency_key_reused", 1)
}

// outcomeUnknown: an external call whose reply was lost is never sent again; the caller is told so, twice.
func outcomeUnknown(t *testing.T, c client, streamed bool) {
	op := theRig.op()
	in := call{op: op, prompt: "pay", script: `"reply_lost"`, header: map[string]string{"Idempotency-Key": op, "Holdfast-Workflow": "external"}}
	_, first, err := c.ask(t.Context(), streamed, in)
	if err == nil || !c.fault(err).typed {
		t.Errorf("first call: %v, want the client's own error", err)
	}
	if first.attempts() != 1 {
		t.Errorf("first call: %d attempts of the client, want 1", first.attempts())
	}
	ownError(t, c, streamed, in, http.StatusConflict, "outcome_unknown", 1)
	if n := theRig.counts(t, op); n.Effects != 1 {
		t.Errorf("%d effects, want 1", n.Effects)
	}
}
