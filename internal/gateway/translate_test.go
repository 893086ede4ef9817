package gateway_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/sim"
	"github.com/holdfast-ai/holdfast/ledger"
)

// translating has a workflow with one tier for each API that a call can be told to.
func translating(c *rigConfig) {
	c.yaml = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "sk-far-openai"}
  anthropic: {type: anthropic, base_url: "SIM", api_key: "sk-far-anthropic"}
  gemini: {type: gemini, base_url: "SIM", api_key: "sk-far-gemini"}
limits: {max_response_bytes: 64KiB}
models:
  claude-haiku-4-5: {input_cost: 1, output_cost: 5}
  gemini-2.5-flash: {input_cost: 1, output_cost: 5}
  gpt-5-mini: {input_cost: 1, output_cost: 5, tools: true}
workflows:
  openai:    {match: {paths: ["/by-name-only"]}, tiers: [{name: far, provider: openai, model: gpt-5-mini}], retry: {max_attempts: 1}, breaker: {failure_threshold: 1000}, spend: {per_day: 100}}
  anthropic: {match: {paths: ["/by-name-only"]}, tiers: [{name: far, provider: anthropic, model: claude-haiku-4-5}], retry: {max_attempts: 1}, breaker: {failure_threshold: 1000}, spend: {per_day: 100}}
  gemini:    {match: {paths: ["/by-name-only"]}, tiers: [{name: far, provider: gemini, model: gemini-2.5-flash}], retry: {max_attempts: 1}, breaker: {failure_threshold: 1000}, spend: {per_day: 100}}
  again:     {match: {paths: ["/by-name-only"]}, tiers: [{name: far, provider: anthropic, model: claude-haiku-4-5}], retry: {max_attempts: 3, base: 1ms}}
  varied:    {match: {paths: ["/by-name-only"]}, tiers: [{name: far, provider: anthropic, model: claude-haiku-4-5, prompt: {system: "Short.", max_tokens: 7}}]}
  observed:  {match: {paths: ["/by-name-only"]}, mode: observe, tiers: [{name: far, provider: anthropic, model: claude-haiku-4-5}]}
  default:   {retry: {max_attempts: 1}}
`
}

// direction is a client's API and the one that answers it.
type direction struct{ client, far string }

var directions = []direction{{"openai", "anthropic"}, {"openai", "gemini"}, {"anthropic", "openai"}, {"anthropic", "gemini"}}

func (d direction) String() string { return d.client + " from " + d.far }

// ask is a request of the client's for the far side's workflow.
func (d direction) ask(op string, stream bool, extra ...string) request {
	q := request{path: "/v1/chat/completions", body: `{"model":"gpt-5","messages":[{"role":"user","content":"hello op=` + op + `"}]`}
	if d.client == "anthropic" {
		q = request{path: "/v1/messages?beta=true", body: `{"model":"claude-opus-4-5","max_tokens":100,"messages":[{"role":"user","content":"hello op=` + op + `"}]`}
		q = q.with("Anthropic-Version", "2023-06-01", "Anthropic-Beta", "a-beta", "X-Api-Key", "sk-the-clients-own-secret")
	} else {
		q = q.with("Authorization", "Bearer sk-the-clients-own-secret", "Openai-Organization", "org-1")
	}
	if stream {
		q.body += `,"stream":true`
	}
	q.body += strings.Join(extra, "") + "}"
	return q.workflow(d.far)
}

// toldAnswer is what a client's answer says in its own shape, plain or streamed.
type toldAnswer struct {
	text, finish, err string
	ended             bool
	events            int
}

func (d direction) hear(t *testing.T, a *answered) (s toldAnswer) {
	t.Helper()
	if !strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
		doc := gjson.ParseBytes(a.body)
		if !gjson.ValidBytes(a.body) {
			t.Fatalf("no document: %s", a.body)
		}
		s.err = doc.Get("error.message").String()
		if d.client == "anthropic" {
			s.text, s.finish = doc.Get("content.0.text").String(), doc.Get("stop_reason").String()
		} else {
			s.text, s.finish = doc.Get("choices.0.message.content").String(), doc.Get("choices.0.finish_reason").String()
		}
		s.ended = s.finish != ""
		return s
	}
	for block := range strings.SplitSeq(strings.TrimSuffix(string(a.body), "\n\n"), "\n\n") {
		s.events++
		_, data, _ := strings.Cut(block, "data: ")
		if data == "[DONE]" {
			s.ended = true
			continue
		}
		doc := gjson.Parse(data)
		if !gjson.Valid(data) {
			t.Fatalf("no event: %q in %s", block, a.body)
		}
		s.err += doc.Get("error.message").String()
		s.ended = s.ended || doc.Get("type").Str == "message_stop"
		s.text += doc.Get("choices.0.delta.content").String() + doc.Get("delta.text").String()
		s.finish += doc.Get("choices.0.finish_reason").String() + doc.Get("delta.stop_reason").String()
	}
	return s
}

// The client gets its own shape, whole; the far side gets its own, and nothing that the client says to its own provider.
func TestTranslated(t *testing.T) {
	r := newRig(t, translating)
	for _, d := range directions {
		for _, stream := range []bool{false, true} {
			op := fmt.Sprintf("%s-%s-%v", d.client, d.far, stream)
			a := r.must(d.ask(op, stream).key(op), 200)
			want := "stop"
			if d.client == "anthropic" {
				want = "end_turn"
			}
			if got := d.hear(t, a); !strings.Contains(got.text, "hello op="+op) || got.finish != want || !got.ended || got.err != "" {
				t.Errorf("%v: %+v in %s", d, got, a.body)
			}
			if a.header.Get("Holdfast-Source") != "far" || a.header.Get("Holdfast-Served-Model") == a.header.Get("Holdfast-Requested-Model") || a.header.Get("Holdfast-Intent") == "" {
				t.Errorf("%v: %v", d, a.header)
			}
			for _, other := range []string{"Anthropic-Ratelimit-Requests-Remaining", "X-Ratelimit-Remaining-Requests", "Openai-Version"} {
				if a.header.Get(other) != "" {
					t.Errorf("%v: the far side's %s reached the client", d, other)
				}
			}
			d.checkSent(t, r, op)
			d.checkRecord(t, r, a)
			replayed := r.must(d.ask(op, stream).key(op), 200)
			if !bytes.Equal(replayed.body, a.body) || replayed.header.Get("Idempotency-Replayed") != "true" || replayed.header.Get("Content-Type") != a.header.Get("Content-Type") {
				t.Errorf("%v: replayed as %s, %v", d, replayed.body, replayed.header)
			}
			r.calls(op, 1)
		}
	}
}

// checkSent looks at what the far side was sent.
func (d direction) checkSent(t *testing.T, r *rig, op string) {
	t.Helper()
	call := r.sim.Calls(op)[0]
	if string(call.Wire) != d.far {
		t.Errorf("%v: asked as %s at %s", d, call.Wire, call.Path)
	}
	credentials := 0
	for name, v := range call.Headers {
		if strings.Contains(v, "org-1") || strings.Contains(v, "a-beta") {
			t.Errorf("%v: %s: %s went to another provider", d, name, v)
		}
		if strings.Contains(v, "sha256:") {
			credentials++
			if v != sim.Fingerprint("sk-far-"+d.far) && v != sim.Fingerprint("Bearer sk-far-"+d.far) {
				t.Errorf("%v: credential %s: %s", d, name, v)
			}
		}
	}
	if strings.Contains(call.Query, "beta") || (d.far == "anthropic") != (call.Headers["Anthropic-Version"] != "") || credentials != 1 {
		t.Errorf("%v: sent ?%s with %v", d, call.Query, call.Headers)
	}
}

// checkRecord: tokens and model are known, whether or not the client asked to be told.
func (d direction) checkRecord(t *testing.T, r *rig, a *answered) {
	t.Helper()
	rec := r.settled(a.header.Get("Holdfast-Intent"))
	if rec.UsageIn <= 0 || rec.UsageOut <= 0 || rec.ServedModel == "" || rec.Outcome != ledger.OutcomeSuccess {
		t.Errorf("%v: on record: usage %d, %d, model %q, %v", d, rec.UsageIn, rec.UsageOut, rec.ServedModel, rec.Outcome)
	}
	events, err := r.store.History(t.Context(), rec.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d.client == "anthropic" && !slices.ContainsFunc(events, func(e ledger.Event) bool { return strings.Contains(string(e.Evidence), "header Anthropic-Beta") }) {
		t.Errorf("%v: what the client's API was told to switch on is not on record", d)
	}
	endpoint := map[string]string{"openai": "/chat.completions/", "anthropic": "/messages/", "gemini": "enerateContent/"}[d.far]
	if !slices.ContainsFunc(events, func(e ledger.Event) bool {
		return strings.HasPrefix(e.Route, d.far+"/") && strings.Contains(e.Route, endpoint)
	}) {
		t.Errorf("%v: no event of a route of the far side's: %+v", d, events)
	}
}

// Each event leaves when it has come, and one that means nothing to the client keeps no other back.
func TestTranslatedAtOnce(t *testing.T) {
	r := newRig(t, translating)
	for _, d := range directions {
		op := "held-" + d.client + d.far
		r.script(op, `{"hold":"`+op+`","hold_at":"event","hold_n":4}`)
		resp, err := r.open(d.ask(op, true))
		if err != nil {
			t.Fatal(err)
		}
		lines, text := bufio.NewReader(resp.Body), ""
		for !strings.Contains(text, "answer") {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("%v: %v behind %s", d, err, text)
			}
			text += line
		}
		if err := r.sim.WaitHeld(t.Context(), op, 1); err != nil {
			t.Fatal(err)
		}
		r.sim.Release(op)
		rest, err := io.ReadAll(lines)
		if err != nil || !strings.Contains(string(rest), "stop") {
			t.Errorf("%v: %v, %s", d, err, rest)
		}
		resp.Body.Close()
	}
}

// A client that comes back reads on behind the event that it has, in its own API's events.
func TestTranslatedResume(t *testing.T) {
	r := newRig(t, translating)
	for _, d := range directions {
		op := "resume-" + d.client + d.far
		whole := r.must(d.ask(op, true).key(op), 200)
		n := d.hear(t, whole).events
		for after := 1; after < n; after++ {
			a := r.must(d.ask(op, true).key(op).with("Last-Event-ID", fmt.Sprint(after)), 200)
			if got := d.hear(t, a); got.events != n-after || !bytes.HasSuffix(stripIDs(whole.body), stripIDs(a.body)) {
				t.Errorf("%v after %d of %d: %d events, %s", d, after, n, got.events, a.body)
			}
		}
		r.calls(op, 1)
	}
}

// stripIDs takes the numbers of events off.
func stripIDs(b []byte) []byte {
	var out []byte
	for line := range bytes.Lines(b) {
		if !bytes.HasPrefix(line, []byte("id: ")) {
			out = append(out, line...)
		}
	}
	return out
}

// A client whose connection breaks, in a stream or before a plain answer, and that asks again without a key, gets the first answer; so
// does one that asks a later process by its key. Both in its own API, byte for byte.
func TestTranslatedAnswerIsAdopted(t *testing.T) {
	r := newRig(t, translating)
	answers := map[string]*answered{}
	for _, d := range directions {
		for _, stream := range []bool{false, true} {
			op := fmt.Sprintf("lost-%s-%s-%v", d.client, d.far, stream)
			place := `"head"`
			if stream {
				place = `"event","hold_n":4`
			}
			r.script(op, `{"hold":"`+op+`","hold_at":`+place+`}`)
			q := d.ask(op, stream)
			conn, _ := r.rawUntil(q, func(got []byte) bool { return !stream || bytes.Contains(got, []byte("answer")) })
			if err := r.sim.WaitHeld(t.Context(), op, 1); err != nil {
				t.Fatal(err)
			}
			reset(conn)
			wait(t, func() bool { return gateway.Lost(r.gw) == 1 })
			r.sim.Release(op)
			a := r.must(q.with("X-Stainless-Retry-Count", "1"), 200)
			if got := d.hear(t, a); !got.ended || !strings.Contains(got.text, "op="+op) {
				t.Errorf("%v: %+v", d, got)
			}
			r.calls(op, 1)
			answers[op] = r.must(d.ask(op+"-kept", stream).key(op), 200)
		}
	}
	r.close()
	r.start(rigConfig{})
	for _, d := range directions {
		for _, stream := range []bool{false, true} {
			op := fmt.Sprintf("lost-%s-%s-%v", d.client, d.far, stream)
			a := r.must(d.ask(op+"-kept", stream).key(op), 200)
			if !bytes.Equal(a.body, answers[op].body) || a.header.Get("Idempotency-Replayed") != "true" || a.header.Get("Content-Type") != answers[op].header.Get("Content-Type") {
				t.Errorf("%v: %s, not %s", d, a.body, answers[op].body)
			}
		}
	}
}

// A long wait is bridged with signs of life of the client's API, before which nothing of the far side's is seen.
func TestTranslatedBridge(t *testing.T) {
	r := newRig(t, func(c *rigConfig) {
		translating(c)
		c.yaml = strings.ReplaceAll(c.yaml, "spend: {per_day: 100}}", "bridge_after: 50ms}")
	})
	for _, d := range directions {
		op := "slow-" + d.client + d.far
		r.script(op, `{"hold":"`+op+`","hold_at":"head"}`)
		resp, err := r.open(d.ask(op, true))
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 1)
		if _, err := io.ReadFull(resp.Body, first); err != nil {
			t.Fatal(err)
		}
		r.sim.Release(op)
		rest, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		_, rest, _ = bytes.Cut(rest, []byte("\n\n"))
		for bytes.HasPrefix(rest, []byte(":")) || bytes.HasPrefix(rest, []byte("event: ping")) {
			_, rest, _ = bytes.Cut(rest, []byte("\n\n"))
		}
		got := d.hear(t, &answered{header: http.Header{"Content-Type": {"text/event-stream"}}, body: rest})
		if err != nil || !got.ended || !strings.Contains(got.text, "op="+op) {
			t.Errorf("%v: %v, %+v in %s", d, err, got, rest)
		}
	}
}

// A tier's prompt is put into the request before that is told to it.
func TestTranslatedVariant(t *testing.T) {
	r := newRig(t, translating)
	r.must(direction{"openai", "varied"}.ask("varied", false, `,"max_completion_tokens":50`), 200)
	body := gjson.Parse(r.sim.Calls("varied")[0].Body)
	if !strings.Contains(body.Get("system").Raw, "Short.") || body.Get("max_tokens").Int() != 7 || body.Get("model").Str != "claude-haiku-4-5" {
		t.Errorf("sent as %s", body.Raw)
	}
}

// A job is told as a call is, and its answer is in its submitter's words.
func TestTranslatedJob(t *testing.T) {
	r := newRig(t, translating)
	for _, d := range directions {
		op := "job-" + d.client + d.far
		if rec := r.settled(r.submit(d.ask(op, false))); rec.Outcome != ledger.OutcomeSuccess {
			t.Errorf("%v: %v", d, rec.Outcome)
		}
		r.calls(op, 1)
		d.checkSent(t, r, op)
	}
}
