package gateway_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

func TestReplayIsByteIdentical(t *testing.T) {
	r := newRig(t)
	for key, q := range map[string]request{"k1": chat("plain"), "k2": streamed("stream")} {
		first := r.must(q.key(key), 200)
		if first.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("the first answer says that it is a replay")
		}
		r.settled(first.header.Get("Holdfast-Intent"))
		again := r.must(q.key(key), 200)
		if again.header.Get("Idempotency-Replayed") != "true" || again.header.Get("Holdfast-Source") != "replay" {
			t.Errorf("no replay marker: %v", again.header)
		}
		if !bytes.Equal(first.body, again.body) {
			t.Errorf("replay differs:\n%s\n%s", first.body, again.body)
		}
		if a, b := first.header.Get("Holdfast-Intent"), again.header.Get("Holdfast-Intent"); a != b {
			t.Errorf("intents %s and %s", a, b)
		}
	}
	r.calls("plain", 1)
	r.calls("stream", 1)
}

func TestReplaySurvivesRestart(t *testing.T) {
	r := newRig(t)
	first := r.must(chat("restart").key("k"), 200)
	stream := r.must(streamed("restarted-stream").key("ks"), 200)
	r.close()
	r.start(rigConfig{})
	again := r.must(chat("restart").key("k"), 200)
	streamAgain := r.must(streamed("restarted-stream").key("ks"), 200)
	if !bytes.Equal(first.body, again.body) || !bytes.Equal(stream.body, streamAgain.body) {
		t.Errorf("a replay after a restart differs")
	}
	if again.header.Get("Idempotency-Replayed") != "true" || streamAgain.header.Get("Content-Type") != stream.header.Get("Content-Type") {
		t.Errorf("headers: %v", streamAgain.header)
	}
	r.calls("restart", 1)
	r.calls("restarted-stream", 1)
}

// BR-006: another body under a used key is refused, whatever the first call is doing, and the first stays.
func TestBR006KeyReused(t *testing.T) {
	r := newRig(t)
	first := r.must(chat("a").key("K1"), 200)
	other := r.must(chat("b").key("K1"), 422)
	if other.code() != string(gateway.CodeKeyReused) || other.header.Get("X-Should-Retry") != "false" {
		t.Errorf("headers %v", other.header)
	}
	if bytes.Contains(other.body, []byte("op=")) {
		t.Errorf("the refusal quotes a body: %s", other.body)
	}
	elsewhere := chat("a").key("K1")
	elsewhere.path = "/v1/embeddings"
	r.must(elsewhere, 422)
	if again := r.must(chat("a").key("K1"), 200); !bytes.Equal(again.body, first.body) {
		t.Errorf("the record of the first call was touched")
	}
	r.calls("a", 1)
	r.calls("b", 0)
}

// BR-004: fifty requests with one key, released together, are one upstream call.
func TestBR004BarrierOfFifty(t *testing.T) {
	for _, q := range []request{chat("race"), streamed("race")} {
		r := newRig(t)
		r.script("race", `{"hold":"gate"}`)
		const n = 50
		answers := make([]*answered, n)
		var clients sync.WaitGroup
		for i := range n {
			clients.Go(func() { answers[i] = r.do(q.key("k-race-1")) })
		}
		if err := r.sim.WaitHeld(t.Context(), "gate", 1); err != nil {
			t.Fatal(err)
		}
		r.sim.Release("gate")
		clients.Wait()
		r.calls("race", 1)
		originals := 0
		for _, a := range answers {
			if a.err != nil || a.status != 200 {
				t.Fatalf("status %d, %v", a.status, a.err)
			}
			if a.header.Get("Idempotency-Replayed") == "" {
				originals++
			}
			if !bytes.Equal(a.body, answers[0].body) {
				t.Errorf("bodies differ")
			}
		}
		if originals != 1 {
			t.Errorf("%d answers without the replay marker, want 1", originals)
		}
		if again := r.must(q.key("k-race-1"), 200); again.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("the 51st call is no replay")
		}
		r.calls("race", 1)
	}
}

func TestConflictAndWait(t *testing.T) {
	r := newRig(t)
	for _, workflow := range []string{"conflict", "wait"} {
		r.script(workflow, `{"hold":"`+workflow+`"}`)
		var first *answered
		var client sync.WaitGroup
		client.Go(func() { first = r.do(chat(workflow).workflow(workflow).key(workflow)) })
		if err := r.sim.WaitHeld(t.Context(), workflow, 1); err != nil {
			t.Fatal(err)
		}
		if workflow == "conflict" {
			second := r.must(chat(workflow).workflow(workflow).key(workflow), 409)
			if second.code() != string(gateway.CodeInFlight) || second.header.Get("Retry-After") == "" || second.header.Get("X-Should-Retry") != "true" {
				t.Errorf("headers %v", second.header)
			}
		}
		var waited *answered
		if workflow == "wait" {
			client.Go(func() { waited = r.do(chat(workflow).workflow(workflow).key(workflow)) })
		}
		r.sim.Release(workflow)
		client.Wait()
		if first.status != 200 {
			t.Errorf("%s: %d", workflow, first.status)
		}
		if waited != nil && (waited.status != 200 || !bytes.Equal(waited.body, first.body)) {
			t.Errorf("waited: %d %s", waited.status, waited.body)
		}
		r.calls(workflow, 1)
	}
}

// BR-008: requests that mean the same are one under derive: always, whatever their spelling.
func TestBR008DerivedKeys(t *testing.T) {
	r := newRig(t)
	send := func(op, body string) {
		q := request{path: "/v1/chat/completions", body: strings.ReplaceAll(body, "OP", "op="+op)}
		r.must(q.workflow("pipeline"), 200)
	}
	send("same", `{"model":"m","messages":[{"role":"user","content":"OP"}],"x":{"y":2,"z":"é"}}`)
	send("same", ` { "x":{"z":"\u00e9", "y":2}, "messages":[{"content":"OP","role":"user"}], "model":"m" } `)
	send("diff", `{"model":"m","messages":[{"role":"user","content":"OP"}],"order":9007199254740992}`)
	send("diff", `{"model":"m","messages":[{"role":"user","content":"OP"}],"order":9007199254740993}`)
	send("diff", `{"model":"m","messages":[{"role":"user","content":"OP"}],"order":"9007199254740993"}`)
	send("diff", `{"model":"m","messages":[{"role":"user","content":"OP"}],"order":null}`)
	send("diff", `{"model":"m","messages":[{"role":"user","content":"OP"}]}`)
	r.calls("same", 1)
	r.calls("diff", 5)
}

func TestWithoutKeyIdenticalIsNotRepeated(t *testing.T) {
	r := newRig(t)
	for _, workflow := range []string{"default", "off"} {
		for range 3 {
			r.must(chat(workflow).workflow(workflow), 200)
		}
		r.calls(workflow, 3)
	}
}

// BR-014: a transient failure is not what a key answers; the retry that it asks for gets through.
func TestBR014TransientFailureReleases(t *testing.T) {
	r := newRig(t)
	r.script("transient", `{"status":503,"headers":{"Retry-After":"1"}}`)
	first := r.must(chat("transient").key("k-503"), 503)
	if first.header.Get("Retry-After") != "1" || first.header.Get("Holdfast-Safe-To-Retry") != "yes" {
		t.Errorf("headers %v", first.header)
	}
	r.settled(first.header.Get("Holdfast-Intent"))
	r.must(chat("transient").key("k-503"), 200)
	if again := r.must(chat("transient").key("k-503"), 200); again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the success is not kept")
	}
	r.calls("transient", 2)
}

func TestPermanentFailureIsKept(t *testing.T) {
	r := newRig(t)
	r.script("bad", "400", "200")
	first := r.must(chat("bad").key("k"), 400)
	r.settled(first.header.Get("Holdfast-Intent"))
	again := r.must(chat("bad").key("k"), 400)
	if again.header.Get("Idempotency-Replayed") != "true" || !bytes.Equal(first.body, again.body) {
		t.Errorf("%v\n%s\n%s", again.header, first.body, again.body)
	}
	r.calls("bad", 1)
}

func TestExternalUnknownIsHeld(t *testing.T) {
	for _, fault := range []string{"reply_lost", "reset_after_body", "500", "error_after_effect", "408", "409", "503", "hang_after_effect", "cut_byte:40"} {
		t.Run(strings.ReplaceAll(fault, ":", "_"), func(t *testing.T) {
			r := newRig(t)
			r.script("pay", fault)
			q := chat("pay").workflow("external").key("k")
			first := r.do(q)
			if first.status < 400 || first.header.Get("Holdfast-Safe-To-Retry") != "after-reconcile" || first.header.Get("X-Should-Retry") != "false" {
				t.Errorf("first: %d %v", first.status, first.header)
			}
			id := first.header.Get("Holdfast-Intent")
			if rec := r.record(id); rec.State != ledger.Unknown || rec.BilledMaybe != 1 {
				t.Errorf("state %s, possibly billed %d", rec.State, rec.BilledMaybe)
			}
			for range 2 {
				again := r.must(q, http.StatusConflict)
				if again.code() != string(gateway.CodeOutcomeUnknown) || again.header.Get("Holdfast-Intent") != id {
					t.Errorf("again: %v", again.header)
				}
			}
			r.close()
			r.start(rigConfig{})
			r.must(q, http.StatusConflict)
			r.calls("pay", 1)
		})
	}
}

func TestExternalDefiniteFailureReleasesOrKeeps(t *testing.T) {
	r := newRig(t)
	for fault, want := range map[string]int64{"429": 1, "rate_limited": 2, "overloaded": 2, "401": 2, "403": 2, "400": 1, "422": 1} {
		op := "d" + fault
		r.script(op, fault)
		q := chat(op).workflow("external").key(op)
		first := r.do(q)
		if rec := r.record(first.header.Get("Holdfast-Intent")); fault != "429" && rec.State != ledger.Settled {
			t.Errorf("%s: state %s", fault, rec.State)
		}
		r.do(q)
		r.calls(op, want)
	}
}

// BR-003: under a key of business arguments volatile fields make no other request, business fields do.
func TestBR003BusinessKey(t *testing.T) {
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, "  default: {retry: {max_attempts: 1}}", "  pay: {match: {paths: [\"/by-name-only\"]}, effect: external, idempotency: {key: \"{customer}:{amount}:{cart}\"}}\n  default: {retry: {max_attempts: 1}}", 1)
	})
	pay := func(cart, stamp string) request {
		return request{path: "/v1/chat/completions", header: map[string]string{"Holdfast-Workflow": "pay", "User-Agent": stamp},
			body: `{"model":"m","messages":[{"role":"user","content":"op=pay"}],"customer":"c-9","amount":5000,"cart":"` + cart + `","client_ts":"` + stamp + `"}`}
	}
	first := r.must(pay("cart-3", "1"), 200)
	again := r.must(pay("cart-3", "2"), 200)
	if again.header.Get("Idempotency-Replayed") != "true" || !bytes.Equal(again.body, first.body) {
		t.Errorf("%v", again.header)
	}
	r.calls("pay", 1)
	r.must(pay("cart-4", "3"), 200)
	r.calls("pay", 2)
	r.close()
	r.start(rigConfig{})
	r.must(pay("cart-3", "4"), 200)
	r.calls("pay", 2)
}

// A coding does not hide what a request means.
func TestCodedBody(t *testing.T) {
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, "env: test", "env: test\nlimits: {max_request_bytes: 4MiB}", 1)
	})
	coded := func(q request) request {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(q.body))
		_ = w.Close()
		q.body = b.String()
		return q.with("Content-Encoding", "gzip")
	}
	a := r.must(coded(streamed("coded").key("k")), 200)
	if !strings.Contains(a.header.Get("Content-Type"), "event-stream") || a.header.Get("Holdfast-Requested-Model") != "gpt-5" {
		t.Errorf("%v", a.header)
	}
	if b := r.must(streamed("coded").key("k"), 200); b.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%v", b.header)
	}
	r.calls("coded", 1)
	bad := chat("bad").with("Content-Encoding", "gzip")
	r.must(bad, 400)
	bomb := request{path: "/v1/chat/completions", body: `{"model":"m","x":"` + strings.Repeat("a", 5<<20) + `"}`}
	r.must(coded(bomb), 413)
	deep := request{path: "/v1/chat/completions", body: strings.Repeat("[", 1000) + strings.Repeat("]", 1000)}
	r.must(coded(deep), 400)
	if n := r.sim.Counts("").Calls; n != 1 {
		t.Errorf("%d calls", n)
	}
}

// What a coding unfolds to is paid for as it unfolds.
func TestCodedBodyIsCounted(t *testing.T) {
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, "env: test", "env: test\nlimits: {body_memory: 1MiB}", 1)
	})
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(`{"model":"m","x":"` + strings.Repeat("a", 4<<20) + `"}`))
	_ = w.Close()
	q := request{path: "/v1/chat/completions", body: b.String()}.with("Content-Encoding", "gzip")
	if a := r.must(q, 503); a.code() != "shed" {
		t.Errorf("%v", a.header)
	}
}
