package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// statuses sends n calls and lists how they ended; 0 is a cut.
func statuses(s *Server, n int, path, body string, header ...string) []int {
	out := []int{}
	for range n {
		resp, _, err := try(s, "POST", path, body, header...)
		if err != nil {
			out = append(out, 0)
			continue
		}
		out = append(out, resp.StatusCode)
	}
	return out
}

// TestRules: steps in order, rounds, what comes after, and which calls take part.
func TestRules(t *testing.T) {
	yes := true
	for _, c := range []struct {
		name string
		rule Rule
		path string
		body string
		want []int
	}{
		{"steps then default", Rule{Steps: []Step{Named("503"), Named("ok"), Named("429")}}, chatPath, chatBody("x", false), []int{503, 200, 429, 200}},
		{"rounds", Rule{Steps: []Step{Named("503"), Named("ok")}, Times: 2}, chatPath, chatBody("x", false), []int{503, 200, 503, 200, 200}},
		{"for ever", Rule{Steps: []Step{Named("503")}, Times: -1}, chatPath, chatBody("x", false), []int{503, 503, 503}},
		{"then", Rule{Steps: []Step{Named("ok")}, Then: ptr(Named("500"))}, chatPath, chatBody("x", false), []int{200, 500, 500}},
		{"then alone", Rule{Then: ptr(Named("500"))}, chatPath, chatBody("x", false), []int{500, 500}},
		{"cut in between", Rule{Steps: []Step{Named("ok"), Named("reset_before_body"), Named("ok"), Named("reply_lost")}}, chatPath, chatBody("x", false), []int{200, 0, 200, 0, 200}},
		{"path", Rule{Match: Match{Path: "/v1/chat/*"}, Then: ptr(Named("500"))}, chatPath, chatBody("x", false), []int{500}},
		{"other path", Rule{Match: Match{Path: "/v1/mess*"}, Then: ptr(Named("500"))}, chatPath, chatBody("x", false), []int{200}},
		{"deep path", Rule{Match: Match{Path: "/v1/**"}, Then: ptr(Named("500"))}, chatPath, chatBody("x", false), []int{500}},
		{"model", Rule{Match: Match{Model: "gpt-*"}, Then: ptr(Named("500"))}, chatPath, chatBody("x", false), []int{500}},
		{"body", Rule{Match: Match{Body: "needle"}, Then: ptr(Named("500"))}, chatPath, chatBody("a needle", false), []int{500}},
		{"no such body", Rule{Match: Match{Body: "needle"}, Then: ptr(Named("500"))}, chatPath, chatBody("x", false), []int{200}},
		{"op", Rule{Match: Match{Op: "a"}, Then: ptr(Named("500"))}, chatPath, chatBody("op=a", false), []int{500}},
		{"wire", Rule{Match: Match{Wire: wireTool}, Then: ptr(Named("500"))}, chatPath, chatBody("x", false), []int{200}},
		{"endpoint", Rule{Match: Match{Endpoint: "chat.completions"}, Then: ptr(Named("500"))}, chatPath, chatBody("x", false), []int{500}},
		{"method", Rule{Match: Match{Method: "GET"}, Then: ptr(Named("500"))}, chatPath, chatBody("x", false), []int{200}},
		{"header", Rule{Match: Match{Header: map[string]string{"Content-Type": "json"}}, Then: ptr(Named("500"))}, chatPath, chatBody("x", false), []int{500}},
		{"key", Rule{Match: Match{Key: "*"}, Then: ptr(Named("500"))}, chatPath, chatBody("x", false), []int{200}},
		{"stream", Rule{Match: Match{Stream: &yes}, Then: ptr(Named("500"))}, chatPath, chatBody("x", false), []int{200}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, Config{})
			script(t, s, c.rule)
			if diff := cmp.Diff(c.want, statuses(s, len(c.want), c.path, c.body)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPerOp: each operation begins with the first step.
func TestPerOp(t *testing.T) {
	s := start(t, Config{})
	script(t, s, Rule{PerOp: true, Steps: []Step{Named("503")}})
	for _, op := range []string{"a", "b"} {
		if diff := cmp.Diff([]int{503, 200}, statuses(s, 2, chatPath, chatBody("op="+op, false))); diff != "" {
			t.Error(op, diff)
		}
	}
}

// TestSecondRuleTakesOver when the first has no step left.
func TestSecondRuleTakesOver(t *testing.T) {
	s := start(t, Config{})
	script(t, s, Rule{Steps: []Step{Named("503")}}, Rule{Steps: []Step{Named("429")}})
	if diff := cmp.Diff([]int{503, 429, 200}, statuses(s, 3, chatPath, chatBody("x", false))); diff != "" {
		t.Error(diff)
	}
}

// TestProbability is the same for the same seed, and about what it says.
func TestProbability(t *testing.T) {
	run := func(seed uint64) string {
		s := New(Config{Script: Script{Seed: seed, Rules: []Rule{{Steps: []Step{Named("503")}, Times: -1, Probability: 0.3}}}})
		defer s.Close()
		var b strings.Builder
		for range 400 {
			st, _ := s.script.choose(&request{header: http.Header{}})
			fmt.Fprint(&b, st.Status/503)
		}
		return b.String()
	}
	one, again, other := run(7), run(7), run(8)
	if one != again || one == other {
		t.Error("the seed does not decide")
	}
	if n := strings.Count(one, "1"); n < 80 || n > 160 {
		t.Errorf("%d of 400 at 0.3", n)
	}
}

// TestInline: the script that the request brings, in each of its places, survives any gateway between.
func TestInline(t *testing.T) {
	s := start(t, Config{})
	marked := func(text string) string { return chatBody(text, false) }
	for name, c := range map[string]struct {
		path, body string
		header     []string
		want       []int
	}{
		"model":      {chatPath, `{"model":"sim:503","messages":[{"role":"user","content":"x"}]}`, nil, []int{503, 503}},
		"text":       {chatPath, marked(`hello sim:{"status":503} op=t1`), nil, []int{503, 503}},
		"text steps": {chatPath, marked(`sim:{"steps":["503",{"fault":"rate_limited"},"ok"]} op=t2`), nil, []int{503, 429, 200, 200}},
		"other op":   {chatPath, marked(`sim:{"steps":["503",{"fault":"rate_limited"},"ok"]} op=t3`), nil, []int{503, 429, 200, 200}},
		"metadata":   {chatPath, `{"model":"m","metadata":{"sim":"{\"steps\":[\"500\"]}"},"messages":[{"role":"user","content":"x"}]}`, nil, []int{500, 200}},
		"header":     {"/charges", `{}`, []string{"Sim-Script", `{"steps":["reply_lost"]}`}, []int{0, 200}},
		"name":       {"/charges", `{"h":1}`, []string{"Sim-Script", `503`}, []int{503, 503}},
		"tool body":  {"/charges", `{"sim":{"steps":["error_after_effect"]}}`, nil, []int{500, 200}},
		"bad fault":  {chatPath, marked(`sim:{"fault":"nonsense"}`), nil, []int{400}},
		"bad field":  {chatPath, marked(`sim:{"statsu":503}`), nil, []int{400}},
		"not JSON":   {chatPath, marked(`sim:{status}`), nil, []int{400}},
		"too late":   {chatPath, marked(`sim:{"fault":"reset_before_body"}`), nil, []int{400}},
		"later":      {"/charges", `{}`, []string{"Sim-Script", `{"steps":["503"],"then":"reset_before_body"}`}, []int{400}},
		"no stream":  {chatPath, marked(`sim:{"stream":"none.sse"}`), nil, []int{400}},
	} {
		if diff := cmp.Diff(c.want, statuses(s, len(c.want), c.path, c.body, c.header...)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	_, body := send(t, s, "POST", chatPath, marked(`say it sim:{"chunks":2} please`))
	if strings.Contains(string(body), "sim:{") {
		t.Errorf("the marker is in the answer: %s", body)
	}
}

// TestRefusesBadScripts when they are put, with the script before still in force.
func TestRefusesBadScripts(t *testing.T) {
	s := start(t, Config{})
	script(t, s, Rule{Then: ptr(Named("503"))})
	for _, bad := range []string{
		`{"rules":[{"steps":[]}]}`,
		`{"rules":[{"steps":["cut:x"]}]}`,
		`{"rules":[{"steps":["nonsense"]}]}`,
		`{"rules":[{"steps":[{"status":99}]}]}`,
		`{"rules":[{"stpes":["503"]}]}`,
		`{"rules":[{"steps":[{"stream":"none.sse"}]}]}`,
		`{"rules":[{"steps":[{"signal":"none"}]}]}`,
		`{"rules":[{"steps":[{"signal":"net-econnrefused"}]}]}`,
		`{"rules":[{"steps":[{"cut":{"at":"somewhere","how":"fin"}}]}]}`,
		`{"rules":[{"steps":[{"cut":{"at":"head","how":"gently"}}]}]}`,
		`{"rules":[{"steps":[{"cut":{"at":"effect","how":"clean"}}]}]}`,
		`{"rules":[{"steps":[{"hold":"g","hold_at":"end"}]}]}`,
		`{"rules":[{"match":{"body":"x"},"steps":["reset_before_body"]}]}`,
		`{"rules":[{"match":{"stream":true},"steps":["503"],"then":"reset_before_body"}]}`,
		`{"default":"reset_before_body"}`,
		`{"rules":[{"match":{"path":"[a"},"steps":["503"]}]}`,
		`{"rules":[{"steps":[{"size":-1}]}]}`,
		`{"default":{"tool_args":{}}}`,
		`not JSON`,
	} {
		resp, body := send(t, s, "PUT", "/sim/v1/script", bad)
		if resp.StatusCode != 400 || strings.Count(string(body), "bad script") != 1 {
			t.Errorf("%s: %s %s", bad, resp.Status, body)
		}
	}
	if diff := cmp.Diff([]int{503}, statuses(s, 1, chatPath, chatBody("x", false))); diff != "" {
		t.Error(diff)
	}
	if err := New(Config{Script: Script{Default: Step{Stream: "none"}}}).Start(); !errors.Is(err, ErrScript) {
		t.Errorf("a bad Config.Script: %v", err)
	}
}

// TestControl drives everything over HTTP, as a test in another language would.
func TestControl(t *testing.T) {
	s := start(t, Config{})
	control := func(method, path, body string) string {
		t.Helper()
		resp, b := send(t, s, method, ControlPrefix+path, body)
		if resp.StatusCode != 200 {
			t.Fatalf("%s %s: %s %s", method, path, resp.Status, b)
		}
		return string(b)
	}
	control("PUT", "script", `{"seed":3,"rules":[{"name":"first","match":{"op":"c"},"steps":["overloaded"]}],"default":{"size":100}}`)
	control("POST", "rules", `{"name":"second","match":{"op":"c"},"steps":[{"fault":"reply_lost","delay_ms":0}]}`)
	control("POST", "rules", `[{"name":"held","match":{"op":"c"},"steps":[{"hold":"g"}]}]`)
	if diff := cmp.Diff([]int{503, 0}, statuses(s, 2, chatPath, chatBody("op=c", false))); diff != "" {
		t.Fatal(diff)
	}
	done := make(chan []int)
	go func() { done <- statuses(s, 1, chatPath, chatBody("op=c", false)) }()
	control("GET", "wait?op=c&gate=g&held=1&effects=2&timeout_ms=60000", "")
	if got := control("POST", "gates/g", ""); got != "{\"released\":1}\n" {
		t.Error(got)
	}
	if diff := cmp.Diff([]int{200}, <-done); diff != "" {
		t.Error(diff)
	}
	control("GET", "wait?op=c&ended=3", "")
	var counts Counts
	if err := json.Unmarshal([]byte(control("GET", "ops/c", "")), &counts); err != nil || counts.Calls != 3 || counts.Effects != 2 {
		t.Errorf("%+v %v", counts, err)
	}
	var calls []Call
	if err := json.Unmarshal([]byte(control("GET", "calls?op=c&after=1", "")), &calls); err != nil || len(calls) != 2 || calls[0].Rule != "second" {
		t.Errorf("%+v %v", calls, err)
	}
	var effects []Effect
	if err := json.Unmarshal([]byte(control("GET", "effects?op=c", "")), &effects); err != nil || len(effects) != 2 {
		t.Errorf("%+v %v", effects, err)
	}
	var back Script
	if err := json.Unmarshal([]byte(control("GET", "script", "")), &back); err != nil || len(back.Rules) != 3 {
		t.Errorf("the script does not read back: %+v %v", back, err)
	}
	for _, list := range []string{"faults", "streams", "signals", "gates", "stats"} {
		if got := control("GET", list, ""); !json.Valid([]byte(got)) || len(got) < 3 {
			t.Errorf("GET %s: %s", list, got)
		}
	}
	control("DELETE", "script", "")
	control("POST", "reset", "")
	if got := s.Counts(""); got.Calls != 0 {
		t.Errorf("%+v", got)
	}
	if resp, _ := send(t, s, "GET", ControlPrefix+"wait?calls=1&timeout_ms=1", ""); resp.StatusCode != 408 {
		t.Errorf("a wait that ends without what it waited for: %s", resp.Status)
	}
}

// TestEveryFaultNameIsKnown: the list that the control API gives is true.
func TestEveryFaultNameIsKnown(t *testing.T) {
	for _, name := range faultNames() {
		name = strings.Replace(strings.Replace(name, "200 … 599", "418", 1), ":N", ":1", 1)
		if st, err := preset(name); err != nil || st.check(newCorpus()) != nil {
			t.Errorf("%s: %v %v", name, err, st.check(newCorpus()))
		}
	}
}

// TestCutAtArrivalByOperation: the operation is known in time only from its header.
func TestCutAtArrivalByOperation(t *testing.T) {
	s := start(t, Config{})
	script(t, s, Rule{Match: Match{Op: "a"}, Steps: []Step{Named("503")}, Then: ptr(Named("reset_before_body"))})
	for _, c := range []struct {
		body, op string
		want     []int
	}{
		{`{"n":1}`, "b", []int{200}},
		{`{"n":1}`, "a", []int{503, 0, 0}},
		{`{"n":"op=a"}`, "", []int{400}},
	} {
		var header []string
		if c.op != "" {
			header = []string{"Sim-Op", c.op}
		}
		if diff := cmp.Diff(c.want, statuses(s, len(c.want), "/charges", c.body, header...)); diff != "" {
			t.Errorf("%+v: %s", c, diff)
		}
	}
}
