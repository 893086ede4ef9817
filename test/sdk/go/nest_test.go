package sdk

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
)

// What the gateway of nest.yaml does for one operation, and what the caller of these tests does on top of a client.
const (
	maxAttempts = 3
	callerTries = 3
)

// busy is a provider's 429 with a Retry-After.
func busy(seconds int) string {
	return fmt.Sprintf(`{"status":429,"headers":{"Retry-After":"%d"}}`, seconds)
}

func once(step string) string   { return `{"steps":[` + step + `,"ok"]}` }
func always(step string) string { return `{"steps":[` + step + `],"times":-1}` }

// stacked is a caller's loop around a client that retries, in front of a gateway that retries. Nothing in it waits by
// itself: it is as impatient as a program can be.
type stacked struct {
	client
	streamed bool
	in       call
	tapes    []*tape
	err      error // of the last try
}

// eachStacked runs f for every client and form, each with routes of its own.
func eachStacked(t *testing.T, script string, f func(*testing.T, *stacked)) {
	t.Helper()
	if theRig.nest == "" {
		t.Skip("HOLDFAST_NEST_URL is not set")
	}
	eachOf(t, clients(theRig.nest), func(t *testing.T, c client) {
		both(t, func(t *testing.T, streamed bool) {
			op := theRig.op()
			in := call{op: op, prompt: "be patient", script: script, again: true, header: map[string]string{"Authorization": "Bearer " + op}}
			f(t, &stacked{client: c, streamed: streamed, in: in})
		})
	})
}

// once makes one try of the caller's.
func (s *stacked) once(t *testing.T) (out answer) {
	t.Helper()
	out, tape, err := s.ask(t.Context(), s.streamed, s.in)
	s.tapes, s.err = append(s.tapes, tape), err
	return out
}

// loop tries until it succeeds, callerTries times.
func (s *stacked) loop(t *testing.T) (out answer) {
	t.Helper()
	for range callerTries {
		if out = s.once(t); s.err == nil {
			return out
		}
	}
	return out
}

// requests is how many requests the client made in all.
func (s *stacked) requests() (n int) {
	for _, t := range s.tapes {
		n += t.attempts()
	}
	return n
}

func (s *stacked) last() *exchange { return s.tapes[len(s.tapes)-1].last() }

// keyed gives the operation an explicit key.
func (s *stacked) keyed() { s.in.header["Idempotency-Key"] = s.in.op }

// calls holds the provider's count to want.
func (s *stacked) calls(t *testing.T, want int) {
	t.Helper()
	if n := theRig.counts(t, s.in.op); n.Calls != want {
		t.Errorf("%d calls upstream, want %d (%d requests, %d tries, %v)", n.Calls, want, s.requests(), len(s.tapes), s.err)
	}
}

// failed holds the last error to the client's own type.
func (s *stacked) failed(t *testing.T, status int) {
	t.Helper()
	if s.err == nil {
		t.Fatalf("no error, want %d", status)
	}
	if f := s.fault(s.err); !f.typed || f.status != status {
		t.Errorf("%+v from %v, want the client's own error with status %d", f, s.err, status)
	}
}

// answered holds the caller's loop to one request that succeeded.
func (s *stacked) answered(t *testing.T, out answer) {
	t.Helper()
	if s.err != nil || out.text == "" || s.requests() != 1 {
		t.Errorf("%q, %v after %d requests, want an answer to the first", out.text, s.err, s.requests())
	}
}

// TestNestBusyOnce: the gateway waits as the provider asks, and nobody above it has a reason to retry.
func TestNestBusyOnce(t *testing.T) {
	for _, seconds := range []int{1, 3} { // a wait that keeps its slot, and one that gives it back (semantics 36)
		for name, prepare := range keys {
			t.Run(fmt.Sprintf("%d s, %s", seconds, name), func(t *testing.T) {
				t.Parallel()
				eachStacked(t, once(busy(seconds)), func(t *testing.T, s *stacked) {
					prepare(s)
					s.answered(t, s.loop(t))
					s.calls(t, 2)
				})
			})
		}
	}
}

// keys are the two ways in which a gateway can know an operation again.
var keys = map[string]func(*stacked){"derived key": func(*stacked) {}, "explicit key": (*stacked).keyed}

// TestNestDownTwice: a failure that names no wait is retried by the gateway alone.
func TestNestDownTwice(t *testing.T) {
	eachStacked(t, `{"steps":["503","503","ok"]}`, func(t *testing.T, s *stacked) {
		s.answered(t, s.loop(t))
		s.calls(t, maxAttempts)
	})
}

// TestNestBusy: a provider that is always busy is asked max_attempts times; until its wait is over its error is the
// answer to the same question (semantics 21). The last wait is longer than any client or caller takes.
func TestNestBusy(t *testing.T) {
	eachStacked(t, always(busy(2)+","+busy(2)+","+busy(3600)), func(t *testing.T, s *stacked) {
		s.loop(t)
		s.failed(t, http.StatusTooManyRequests)
		s.heeded(t)
		s.calls(t, maxAttempts)
	})
}

// TestNestBroken: an outcome that is unknown is repeated as the same operation, whose attempts are counted on
// (semantics 20, 37): when none is left its error is the answer.
func TestNestBroken(t *testing.T) {
	eachStacked(t, always(`"500"`), func(t *testing.T, s *stacked) {
		s.loop(t)
		s.failed(t, http.StatusInternalServerError)
		s.heeded(t)
		s.calls(t, maxAttempts)
	})
}

// TestNestReleased is what the rules let through: a definite failure without a wait holds no derived key (semantics 21),
// and any that may pass releases an explicit one (semantics 14). Then each try of the caller's is an operation of its
// own; the client's own retries are still held back.
func TestNestReleased(t *testing.T) {
	for status, prepare := range map[int]func(*stacked){503: keys["derived key"], 500: keys["explicit key"]} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			eachStacked(t, always(strconv.Itoa(status)), func(t *testing.T, s *stacked) {
				s.in.again = false
				prepare(s)
				s.loop(t)
				s.failed(t, status)
				s.heeded(t)
				s.calls(t, callerTries*maxAttempts)
			})
		})
	}
}

// TestNestBusyForLong: a wait that is too long is told at once; until it is over nobody calls the route, whatever they
// ask and under whatever key (semantics 34).
func TestNestBusyForLong(t *testing.T) {
	for name, prepare := range keys {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStacked(t, busy(3600), func(t *testing.T, s *stacked) {
				prepare(s)
				s.loop(t)
				s.failed(t, http.StatusTooManyRequests)
				s.heeded(t)
				s.in.prompt = "another question"
				delete(s.in.header, "Idempotency-Key")
				s.loop(t)
				s.refused(t, http.StatusTooManyRequests, "rate_limited", false, 3500, 3600)
				s.calls(t, 1)
			})
		})
	}
}

// TestNestOpen: behind an open breaker the client is told when it is tried again, and does not wait for that.
func TestNestOpen(t *testing.T) {
	eachStacked(t, always("500"), func(t *testing.T, s *stacked) {
		s.in.header["Holdfast-Workflow"] = "tripping"
		s.once(t)
		s.failed(t, http.StatusInternalServerError)
		s.in.prompt = "another question"
		s.loop(t)
		s.refused(t, http.StatusServiceUnavailable, "circuit_open", false, 1, 90)
		s.calls(t, 1)
	})
}

// TestNestFull: where all slots are in use a client is told to come back soon, and those that retry do.
func TestNestFull(t *testing.T) {
	for _, c := range []struct {
		workflow, code string
		status         int
	}{{"full", "bulkhead_full", http.StatusTooManyRequests}, {"waiting", "admission_timeout", http.StatusServiceUnavailable}} {
		t.Run(c.code, func(t *testing.T) {
			t.Parallel()
			occupy(t, c.workflow)
			t.Run("refused", func(t *testing.T) {
				eachStacked(t, `"ok"`, func(t *testing.T, s *stacked) {
					s.in.again, s.in.header["Holdfast-Workflow"] = false, c.workflow
					s.once(t)
					s.refused(t, c.status, c.code, true, 1, 3)
					s.calls(t, 0)
				})
			})
		})
	}
}

// occupy takes each provider's one slot of the workflow until the test is over.
func occupy(t *testing.T, workflow string) {
	t.Helper()
	if theRig.nest == "" {
		t.Skip("HOLDFAST_NEST_URL is not set")
	}
	var held sync.WaitGroup
	t.Cleanup(held.Wait) // behind those that let them go
	for _, c := range clients(theRig.nest) {
		if c.wire == "responses" { // the provider of chat.completions
			continue
		}
		op := theRig.op()
		in := call{op: op, prompt: "hold the slot", script: fmt.Sprintf(`{"hold":%q}`, op), header: map[string]string{"Holdfast-Workflow": workflow}}
		held.Go(func() {
			if _, _, err := c.ask(context.Background(), false, in); err != nil {
				t.Errorf("%s, which has the slot: %v", c.name, err)
			}
		})
		t.Cleanup(func() { letGo(t, op) })
		theRig.waitHeld(t, op)
	}
}

// letGo opens a gate where the test's own context is over.
func letGo(t *testing.T, gate string) {
	res, err := http.Post(theRig.sim+"/sim/v1/gates/"+gate, "", nil)
	if err != nil {
		t.Error(err)
		return
	}
	res.Body.Close()
}

// refused holds the last answer to an error of the gateway's own. A client that obeys x-should-retry retried, or did not.
func (s *stacked) refused(t *testing.T, status int, code string, again bool, least, most int) {
	t.Helper()
	s.failed(t, status)
	if f := s.fault(s.err); f.code != code {
		t.Errorf("code %q from %v, want %q", f.code, s.err, code)
	}
	h := s.last().header
	wait, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || wait < least || wait > most {
		t.Errorf("Retry-After %q, want %d to %d", h.Get("Retry-After"), least, most)
	}
	if h.Get("Holdfast-Error") != code || h.Get("X-Should-Retry") != strconv.FormatBool(again) || h.Get("Holdfast-Safe-To-Retry") != "yes" {
		t.Errorf("Holdfast-Error %q, x-should-retry %q, Holdfast-Safe-To-Retry %q", h.Get("Holdfast-Error"), h.Get("X-Should-Retry"), h.Get("Holdfast-Safe-To-Retry"))
	}
	want := 1
	if again && s.retry {
		want = 3
	}
	if n := s.tapes[len(s.tapes)-1].attempts(); s.retry && n != want {
		t.Errorf("%d requests of the client, want %d", n, want)
	}
}

// heeded says that a client that obeys x-should-retry made one request for each try.
func (s *stacked) heeded(t *testing.T) {
	t.Helper()
	if s.retry && s.requests() != len(s.tapes) {
		t.Errorf("%d requests for %d tries: the client retries an error that is final", s.requests(), len(s.tapes))
	}
}
