package explain_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/internal/explain"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/signal"
)

const file = `workflows:
  chat:
    match: {paths: ["/v1/chat/*"], models: ["gpt-*"], headers: {x-team: blue}}
    retry:
      on:
        - 429
        - 503
      max_attempts: 4
    timeouts: {total: 20s, attempt: 10s, request: 25s}
    lanes:
      interactive_admission: {max_wait_ms: 5000}
  seen: {mode: observe}
  check: {effect: external, failed: ["body.ok == false"], succeeded: ["body.ok == true"]}
`

func config(t *testing.T) *policy.Config {
	t.Helper()
	cfg, faults := policy.Parse("h.yaml", []byte(file), noEnv)
	if cfg == nil {
		t.Fatal(faults)
	}
	return cfg
}

func answered(workflow string, status int, header ...string) explain.Question {
	q := explain.Question{Answer: signal.Answer{Status: status, Header: map[string][]string{}, ReceivedAt: time.Unix(1.8e9, 0)}}
	q.Workflow = workflow
	for i := 0; i+1 < len(header); i += 2 {
		q.Answer.Header[header[i]] = []string{header[i+1]}
	}
	return q
}

// Each decision names the field that a person has to change, and the line on which it stands.
func TestPlaces(t *testing.T) {
	left := int64(1)
	for _, c := range []struct {
		change func(*explain.Question)
		status int
		wait   string
		path   string
		at     string
	}{
		{nil, 429, "", "workflows.chat.retry.on[0]", "h.yaml:6:11"},
		{nil, 503, "1", "workflows.chat.retry.on[1]", "h.yaml:7:11"},
		{nil, 500, "", "workflows.chat.retry.on", "h.yaml:5:7"},
		{func(q *explain.Question) { q.Attempt = 4 }, 503, "", "workflows.chat.retry.max_attempts", "h.yaml:8:7"},
		{func(q *explain.Question) { q.RemainingMS = &left }, 503, "", "workflows.chat.timeouts.total", "h.yaml:9:16"},
		{nil, 429, "10", "workflows.chat.lanes.interactive_admission.max_wait_ms", "h.yaml:11:31"},
		{nil, 429, "3", "workflows.chat.lanes.interactive_admission.max_wait_ms", "h.yaml:11:31"},
		{func(q *explain.Question) { q.Breaker = "open" }, 503, "", "workflows.chat.breaker.failure_threshold", ""},
		{func(q *explain.Question) { q.ShareUsed = true }, 503, "", "workflows.chat.retry.share", ""},
		{func(q *explain.Question) { q.ClientLeft = true }, 503, "", "", ""},
		{nil, 400, "", "", ""},
	} {
		q := answered("chat", c.status)
		if c.wait != "" {
			q = answered("chat", c.status, "Retry-After", c.wait)
		}
		if c.change != nil {
			c.change(&q)
		}
		p := ask(t, config(t), q).Decisions[0].Place
		if p.Path != c.path || p.At != c.at {
			t.Errorf("%d, wait %q: %+v, want %s at %s", c.status, c.wait, p, c.path, c.at)
		}
		if say := p.Say(); c.path == "" != strings.HasPrefix(say, "a rule of Holdfast's own") || p.Path != "" && p.At == "" && !strings.Contains(say, "write "+p.Path) {
			t.Errorf("%+v is said as %q", p, say)
		}
	}
}

func TestWorkflowIsChosenAsByARequest(t *testing.T) {
	cfg := config(t)
	for _, c := range []struct {
		q          explain.Circumstances
		want, word string
	}{
		{explain.Circumstances{Path: "/v1/chat/completions", Model: "gpt-5", RequestHeaders: map[string]string{"X-Team": "blue"}}, "chat", "match"},
		{explain.Circumstances{Path: "/v1/chat/completions", Request: `{"model":"gpt-5"}`, RequestHeaders: map[string]string{"X-Team": "blue"}}, "chat", "match"},
		{explain.Circumstances{Path: "/v1/chat/completions", Model: "o3", RequestHeaders: map[string]string{"X-Team": "blue"}}, "seen", "match"},
		{explain.Circumstances{Workflow: "default"}, "default", "name"},
	} {
		x := ask(t, cfg, explain.Question{Circumstances: c.q})
		if x.Workflow != c.want || !strings.Contains(x.Chosen, c.word) || x.Signal != nil || len(x.Decisions) != 0 {
			t.Errorf("%+v: %+v", c.q, x)
		}
	}
}

func TestSuccessByThePolicysWords(t *testing.T) {
	for body, want := range map[string]string{`{"ok":true}`: "success", `{"ok":false}`: "failed", `{"ok":1}`: "unknown"} {
		q := answered("check", 200, "Content-Type", "application/json")
		q.Path, q.Answer.Body = "/v1/other", []byte(body)
		if x := ask(t, config(t), q); x.Outcome != want {
			t.Errorf("%s: %s, want %s", body, x.Outcome, want)
		}
	}
}

func TestStreams(t *testing.T) {
	cfg := config(t)
	const begun = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n"
	for _, c := range []struct{ body, outcome, rule string }{
		{"data: {\"error\":{\"message\":\"x\",\"code\":\"rate_limit_exceeded\"}}\n\n", "failed", "retry.on"},
		{begun + "data: {\"error\":{\"message\":\"x\",\"code\":\"rate_limit_exceeded\"}}\n\n", "unknown", "semantics 22"},
		{begun, "unknown", "semantics 22"},
		{begun + "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", "success", "semantics 1"},
	} {
		for _, header := range [][]string{nil, {"content-type", "text/event-stream"}} {
			q := answered("chat", 200, header...)
			q.Answer.Body = []byte(c.body)
			if x := ask(t, cfg, q); x.Outcome != c.outcome || x.Decisions[0].Rule != c.rule {
				t.Errorf("%q: %s, %+v; want %s by %s", c.body, x.Outcome, x.Decisions[0], c.outcome, c.rule)
			}
		}
	}
}

func TestQuestionsAreChecked(t *testing.T) {
	for _, text := range []string{`[]`, `{"http_statsu":429}`, `{"http_status":"x"}`, `{"attempt":-1,"http_status":429}`, `{"http_status":42}`,
		`{"http_status":429,"phase":"x"}`, `{"http_status":429,"effect":"x"}`, `{"http_status":429,"breaker":"x"}`, `{"http_status":429,"remaining_ms":-1}`,
		`{"http_status":429,"remaining_ms":9223372036854775807}`, `{"http_status":429,"workflow":"x"}`, `{"http_status":429,"phase":"no_response"}`,
		`{"transport":{"error":"EOF","request_bytes_sent":"some"}}`, `{"http_status":429,"headers":{"a":7}}`} {
		var q explain.Question
		err := json.Unmarshal([]byte(text), &q)
		if err == nil {
			_, err = explain.Explain(config(t), q)
		}
		if !errors.Is(err, explain.ErrQuestion) && !strings.HasPrefix(text, "[") {
			t.Errorf("%s: %v", text, err)
		}
		if err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

// A question that asks everything at once never breaks the explainer, and never the laws.
func FuzzExplain(f *testing.F) {
	cfg, _ := policy.Parse("h.yaml", []byte(file), noEnv)
	f.Add([]byte(`{"http_status":429,"headers":{"retry-after":"3"},"body":"{}","workflow":"chat","attempt":2}`))
	f.Add([]byte(`{"http_status":200,"headers":{"content-type":"text/event-stream"},"body":"data: {}\n\n","phase":"mid_stream","effect":"external"}`))
	f.Add([]byte(`{"transport":{"error":"EOF","request_bytes_sent":"all","response_bytes":3},"phase":"no_response","remaining_ms":0,"path":"/v1beta/models/x:streamGenerateContent"}`))
	f.Add([]byte(`{"provider":"gemini","model":"%zz","path":"//","method":"\u0000","request":"{","request_headers":{"a b":""}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var q explain.Question
		if json.Unmarshal(text, &q) != nil {
			return
		}
		x, err := explain.Explain(cfg, q)
		if err != nil {
			if !errors.Is(err, explain.ErrQuestion) {
				t.Fatal(err)
			}
			return
		}
		for i := range x.Decisions {
			if d := &x.Decisions[i]; d.MinDelayMS < 0 || d.MaxDelayMS < d.MinDelayMS || d.Action == decision.Retry && q.Answer.Phase == signal.MidStream {
				t.Fatalf("%s: %+v", text, d)
			}
		}
	})
}
