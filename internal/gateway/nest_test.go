package gateway_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
)

// nested is the policy of the tests of retry, breaker and bulkhead.
const nested = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1"}
  anthropic: {type: anthropic, base_url: "SIM"}
  gemini: {type: gemini, base_url: "SIM"}
workflows:
  chat: {match: {paths: ["/by-name-only"]}, bulkhead: {max_concurrent: 30}}
  report: {match: {paths: ["/by-name-only"]}, bulkhead: {max_concurrent: 3}}
  one: {match: {paths: ["/by-name-only"]}, bulkhead: {max_concurrent: 1}}
  line: {match: {paths: ["/by-name-only"]}, bulkhead: {max_concurrent: 1, wait: true}, lanes: {interactive_admission: {max_wait_ms: 20000}}}
  curt: {match: {paths: ["/by-name-only"]}, bulkhead: {max_concurrent: 1, wait: true}, lanes: {interactive_admission: {max_wait_ms: 50}}}
  fragile: {match: {paths: ["/by-name-only"]}, retry: {base: 1ms, max: 2ms}, breaker: {failure_threshold: 5, reset_timeout: 1h}}
  swift: {match: {paths: ["/by-name-only"]}, retry: {max_attempts: 1}, breaker: {failure_threshold: 5, reset_timeout: 300ms}}
  probed: {match: {paths: ["/by-name-only"]}, retry: {max_attempts: 1}, breaker: {failure_threshold: 5, reset_timeout: 3s}}
  act: {match: {paths: ["/by-name-only"]}, effect: external, retry: {base: 1ms, max: 2ms}}
  cancel: {match: {paths: ["/by-name-only"]}, on_disconnect: cancel, retry: {base: 1ms, max: 2ms}}
  slow: {match: {paths: ["/by-name-only"]}, retry: {base: 1h, max: 1h}, lanes: {interactive_admission: {max_wait_ms: 3600000}}, timeouts: {attempt: 3h, total: 3h, request: 4h}}
  default: {retry: {base: 1ms, max: 2ms}}
`

func nestRig(t *testing.T, options ...option) *rig {
	return newRig(t, append([]option{func(c *rigConfig) { c.yaml = nested }}, options...)...)
}

// BR-021: so many attempts as the policy says, counted by the far side, for every way to fail that a retry is for.
func TestBR021AttemptsAreCounted(t *testing.T) {
	for _, attempts := range []int{1, 2, 4} {
		yaml := strings.Replace(nested, "default: {retry: {", "default: {retry: {max_attempts: "+strconv.Itoa(attempts)+", ", 1)
		r := newRig(t, func(c *rigConfig) { c.yaml = yaml })
		for i, step := range []string{"500", "503", "429", "reply_lost", "cut_byte:40", "garbage", `{"status":200,"body":""}`} {
			for _, q := range []request{chat(fmt.Sprintf("plain-%d", i)), streamed(fmt.Sprintf("stream-%d", i))} {
				op := q.op()
				q.body = strings.Replace(q.body, "gpt-5", fmt.Sprintf("m-%s", op), 1) // a route of its own
				r.always(op, step)
				a := r.do(q)
				if a.status < 400 && a.err == nil && !strings.Contains(string(a.body), "error") {
					t.Errorf("%s %s: %d %s", op, step, a.status, a.body)
				}
				r.calls(op, int64(attempts))
				id := a.header.Get("Holdfast-Intent")
				if got := a.header.Get("Holdfast-Attempts"); got != strconv.Itoa(attempts) {
					t.Errorf("%s %s: Holdfast-Attempts %q", op, step, got)
				}
				if rec := r.settled(id); rec.Attempt != attempts || rec.Outcome != ledger.OutcomeFailed {
					t.Errorf("%s %s: %+v", op, step, rec.Status)
				}
			}
		}
	}
}

// A failure before the boundary is made good without the client's notice: one answer, of the attempt that succeeded.
func TestRetryBeforeTheBoundary(t *testing.T) {
	r := nestRig(t)
	for i, step := range []string{"500", "529", "reply_lost", "cut:1", `{"error_event":1,"error":"server_error"}`, `{"status":200,"body":""}`} {
		for _, wire := range wires {
			op := fmt.Sprintf("again-%d-%s", i, wire)
			r.script(op, step, "ok")
			a := r.do(ask(wire, op).key(op))
			if a.err != nil || a.status != 200 || strings.Contains(string(a.body), `"error":{`) || a.header.Get("Holdfast-Attempts") != "2" {
				if a.header.Get("Holdfast-Attempts") == "1" && strings.HasPrefix(wire, "gemini") {
					continue // its first event has content: the boundary was passed
				}
				t.Errorf("%s %s: %d %v\n%s", wire, step, a.status, a.header, a.body)
				continue
			}
			r.calls(op, 2)
			rec := r.settled(a.header.Get("Holdfast-Intent"))
			if again := r.must(ask(wire, op).key(op), 200); string(again.body) != string(a.body) {
				t.Errorf("%s %s: the replay differs", wire, step)
			}
			events, err := r.store.History(t.Context(), rec.ID)
			if err != nil {
				t.Fatal(err)
			}
			if !decided(events) {
				t.Errorf("%s %s: no attempt's end says what was decided, by which rule", wire, step)
			}
		}
	}
}

func decided(events []ledger.Event) bool {
	for _, e := range events {
		if e.Kind == "attempt_end" && strings.Contains(string(e.Evidence), `"action":"retry"`) && strings.Contains(string(e.Evidence), `"rule":"retry.on"`) {
			return true
		}
	}
	return false
}

// Behind the boundary nothing is sent again (semantics 22), and neither is what an external call may have done.
func TestNeverAgain(t *testing.T) {
	r := nestRig(t)
	r.script("cut", "cut:4", "ok")
	r.do(streamed("cut"))
	r.calls("cut", 1)
	r.script("act", "500", "ok")
	a := r.must(chat("act").workflow("act").key("act"), 500)
	if rec := r.record(a.header.Get("Holdfast-Intent")); rec.State != ledger.Unknown {
		t.Errorf("%+v", rec.Status)
	}
	r.calls("act", 1)
	r.script("bad", "400", "ok")
	r.must(chat("bad"), 400)
	r.calls("bad", 1)
}

// A definite failure of an external call is tried again (semantics 3).
func TestExternalAgainAfterDefiniteFailure(t *testing.T) {
	r := nestRig(t)
	r.script("pay", `{"status":429,"headers":{"Retry-After":"1"}}`, "ok")
	a := r.must(chat("pay").workflow("act").key("pay"), 200)
	if a.header.Get("Holdfast-Attempts") != "2" {
		t.Errorf("%v", a.header)
	}
	r.calls("pay", 2)
}

// 30 calls to a provider that always answers 503: at most 45 upstream calls (semantics 35).
func TestRetryShare(t *testing.T) {
	yaml := strings.Replace(nested, "default: {", "default: {breaker: {failure_threshold: 1000}, ", 1)
	r := newRig(t, func(c *rigConfig) { c.yaml = yaml })
	r.always("out", "503")
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() { r.do(chat("out")) })
	}
	all.Wait()
	if calls := r.sim.Counts("out").Calls; calls > 45 || calls < 40 {
		t.Errorf("%d upstream calls for 30", calls)
	}
}
