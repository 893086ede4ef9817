package eval

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/sim"
	"github.com/holdfast-ai/holdfast/spend"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// against makes a plan whose providers are a simulator.
func against(t *testing.T, script sim.Script, yaml, workflow, set string) (*sim.Server, *Plan) {
	t.Helper()
	s := sim.New(sim.Config{Script: script})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	cfg, faults := policy.Parse("test.yaml", []byte(strings.ReplaceAll(yaml, "SIM", s.URL())), os.LookupEnv)
	if cfg == nil {
		t.Fatal(faults)
	}
	p, err := NewPlan(cfg, workflow, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p.Requests, err = ReadRequests("set", strings.NewReader(set), p, Usual{}); err != nil {
		t.Fatal(err)
	}
	return s, p
}

func do(t *testing.T, ctx context.Context, p *Plan) *Report {
	t.Helper()
	r := NewRun(p)
	if err := r.Do(ctx, nil); err != nil {
		t.Fatal(err)
	}
	return r.Report("set")
}

func step(name string, more ...func(*sim.Step)) []sim.Step {
	s := sim.Step{}
	if name != "" {
		s = sim.Named(name)
	}
	for _, f := range more {
		f(&s)
	}
	return []sim.Step{s}
}

func TestEachTierAnswersForItself(t *testing.T) {
	rules := []sim.Rule{
		{Match: sim.Match{Model: "gpt-5-mini", Body: "down"}, Steps: step("503"), Times: -1},
		{Match: sim.Match{Model: "gpt-5", Body: "slow down"}, Steps: append(step("503"), step("")...)},
	}
	set := `{"id":"a","prompt":"the same"}
{"id":"b","prompt":"the same"}
{"id":"c","prompt":"slow down"}`
	yaml := strings.Replace(twoTiers, "    tiers:\n", "    retry: {base: 1ms}\n    cache: {default: nobody is here}\n    idempotency: {derive: always}\n    tiers:\n", 1)
	_, p := against(t, sim.Script{Rules: rules}, yaml, "chat", set)
	p.Repeat, p.Concurrency = 2, 3
	r := do(t, t.Context(), p)
	if r.Made != 12 || r.Stopped != "" || len(r.Results) != 12 {
		t.Fatalf("%d of %d calls, %q", r.Made, r.Calls, r.Stopped)
	}
	answers := map[string]bool{}
	for i, v := range r.Results {
		if want := []string{"pro", "pro", "flash", "flash"}[i%4]; v.Tier != want || v.Line != i/4+1 || v.Run != i%2+1 {
			t.Errorf("result %d is of line %d, tier %s, run %d", i, v.Line, v.Tier, v.Run)
		}
		if v.OK && answers[v.Answer] {
			t.Errorf("%q was answered twice: one call has answered for another", v.Answer)
		}
		answers[v.Answer] = true
	}
	for _, v := range r.Results[8:10] {
		if !v.OK || v.InputTokens == nil || v.CostUSD == nil || *v.CostUSD <= 0 || v.Chars == 0 || v.ServedModel != "gpt-5" || v.Stop != "stop" {
			t.Errorf("pro answered %+v", v)
		}
	}
	if n := r.Results[8].Attempts + r.Results[9].Attempts; n != 3 {
		t.Errorf("%d attempts of two calls of which one is tried again", n)
	}
	for _, v := range r.Results[10:] {
		if v.OK || v.Status != 503 || v.Error == "" || v.Message == "" || v.Attempts != 3 || v.Answer != "" {
			t.Errorf("flash failed with %+v", v)
		}
	}
	pro, flash := r.Tiers[0], r.Tiers[1]
	if pro.OK != 6 || pro.Calls != 6 || pro.LatencyMS.N != 6 || pro.Attempts != 7 || flash.OK != 4 || len(flash.Errors) != 1 {
		t.Errorf("the summaries are %+v and %+v", pro, flash)
	}
	if len(r.Failed()) != 0 {
		t.Errorf("%v failed on every line", r.Failed())
	}
}

func TestTiersHaveTheirOwnPrompts(t *testing.T) {
	rules := []sim.Rule{{Match: sim.Match{Body: "Be brief."}, Times: -1, Steps: []sim.Step{{Text: "brief"}}}}
	_, p := against(t, sim.Script{Rules: rules}, twoTiers, "chat", `{"prompt":"a","system":"Be long."}`)
	r := do(t, t.Context(), p)
	if r.Results[0].Answer == "brief" || r.Results[1].Answer != "brief" {
		t.Errorf("the tiers were sent the wrong prompts: %q, %q", r.Results[0].Answer, r.Results[1].Answer)
	}
}

func TestStreamsAndOtherAPIs(t *testing.T) {
	set := `{"path":"/v1/messages","body":{"model":"claude-haiku-4-5","max_tokens":50,"stream":true,"messages":[{"role":"user","content":"Hi"}]}}
{"path":"/v1/messages","body":{"model":"claude-haiku-4-5","max_tokens":50,"messages":[{"role":"user","content":"Hi"}]}}
{"path":"/v1/messages","body":{"model":"claude-haiku-4-5","max_tokens":50,"stream":true,"messages":[{"role":"user","content":"cut"}]}}
{"path":"/v1/messages","body":{"model":"claude-haiku-4-5","max_tokens":50,"messages":[{"role":"user","content":"Hi"}],"tools":[{"name":"look","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"},"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}}}`
	cut := sim.Rule{Match: sim.Match{Body: "cut"}, Times: -1, Steps: []sim.Step{{Cut: &sim.Cut{At: sim.AtEvent, N: 4, How: "fin"}}}}
	_, p := against(t, sim.Script{Rules: []sim.Rule{cut}}, twoTiers, "claude", set)
	r := do(t, t.Context(), p)
	stream, plain, broken, tool := r.Results[0], r.Results[1], r.Results[2], r.Results[3]
	if !stream.OK || stream.FirstMS == nil || stream.Answer == "" || stream.OutputTokens == nil || stream.Stop != "end_turn" {
		t.Errorf("a stream is %+v", stream)
	}
	if !plain.OK || plain.FirstMS != nil || plain.Answer == "" {
		t.Errorf("a plain answer is %+v", plain)
	}
	if broken.OK || broken.Status != 200 || broken.Error == "" {
		t.Errorf("a cut stream is %+v", broken)
	}
	if !tool.OK || !tool.ToolCall || tool.SchemaValid != nil {
		t.Errorf("a call of a tool is %+v", tool)
	}
	if s := r.Tiers[0]; s.OK != 3 || s.FirstMS.N != 1 {
		t.Errorf("the summary is %+v", s)
	}
}

func TestMoneyEndsARun(t *testing.T) {
	set := strings.Repeat(`{"body":{"model":"gpt-5","max_tokens":1000,"messages":[{"role":"user","content":"Hi"}]}}`+"\n", 5)
	s, p := against(t, sim.Script{}, twoTiers, "chat", set)
	p.Tiers = p.Tiers[:1]
	one, _ := p.mayCost(&p.Tiers[0], &p.Requests[0])
	p.MaxCost, p.Concurrency = one+spend.USD(0.0002), 4 // answers are much shorter: two fit, one after the other
	r := do(t, t.Context(), p)
	if r.Stopped != MaxCost || r.Made == 0 || r.Made == 5 {
		t.Errorf("%d of %d calls were made, and it stopped for %q", r.Made, r.Calls, r.Stopped)
	}
	if calls := len(s.Calls("")); calls != r.Made {
		t.Errorf("%d calls arrived of %d", calls, r.Made)
	}
	var spent float64
	for _, v := range r.Results {
		spent += *v.CostUSD
	}
	if spent > p.MaxCost.USD() {
		t.Errorf("$%g were spent of %s", spent, p.MaxCost)
	}
}

// Each attempt that may have been billed counts for --max-cost, whatever came of its call.
func TestDoubtfulAttemptsCount(t *testing.T) {
	lost := step("fin_after_body")
	rules := []sim.Rule{
		{Match: sim.Match{Body: "never"}, Steps: lost, Times: -1},
		{Match: sim.Match{Body: "later"}, Steps: append(append(lost, lost...), step("")...)},
		{Match: sim.Match{Body: "refused"}, Steps: step("503"), Times: -1},
	}
	set := `{"prompt":"never"}
{"prompt":"later"}
{"prompt":"refused"}`
	yaml := strings.Replace(twoTiers, "    tiers:\n", "    retry: {base: 1ms, max_attempts: 3}\n    breaker: {failure_threshold: 100}\n    tiers:\n", 1)
	_, p := against(t, sim.Script{Rules: rules}, yaml, "chat", set)
	p.Tiers, p.Concurrency = p.Tiers[:1], 1
	run := NewRun(p)
	if err := run.Do(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	var want spend.Amount
	for i, lost := range []spend.Amount{3, 2, 0} {
		one, _ := p.mayCost(&p.Tiers[0], &p.Requests[i])
		if want += lost * one; run.results[i].Attempts != 3 {
			t.Errorf("line %d: %+v", i+1, run.results[i])
		}
	}
	want += spend.USD(*run.results[1].CostUSD)
	if got := run.Progress().Spent; got != want {
		t.Errorf("%s are counted, want %s", got, want)
	}
}

func TestInterruptedRunsKeepWhatTheyHave(t *testing.T) {
	set := `{"prompt":"quick"}
{"prompt":"hold on"}
{"prompt":"never"}`
	hold := sim.Rule{Match: sim.Match{Body: "hold on"}, Times: -1, Steps: []sim.Step{{Hold: "gate", HoldAt: sim.AtRequest}}}
	s, p := against(t, sim.Script{Rules: []sim.Rule{hold}}, twoTiers, "chat", set)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_ = s.WaitHeld(ctx, "gate", 2) // ends with the test, whatever it says
		cancel()
	}()
	r := do(t, ctx, p)
	if r.Stopped != Interrupted || r.Made != 2 || r.Calls != 6 {
		t.Errorf("%d of %d calls, %q", r.Made, r.Calls, r.Stopped)
	}
	if lines := slices.IndexFunc(r.Results, func(v Result) bool { return v.Line != 1 }); lines >= 0 {
		t.Errorf("a call that was given up is a result: %+v", r.Results[lines])
	}
}

func TestTiersThatAnswerNothing(t *testing.T) {
	down := sim.Rule{Match: sim.Match{Model: "gpt-5"}, Times: -1, Steps: step("401")}
	_, p := against(t, sim.Script{Rules: []sim.Rule{down}}, twoTiers, "chat", `{"prompt":"a"}`)
	r := do(t, t.Context(), p)
	if failed := r.Failed(); len(failed) != 1 || failed[0] != "pro" {
		t.Errorf("%v failed on every line", failed)
	}
}

func TestQuantiles(t *testing.T) {
	var hundred []int64
	for i := range int64(100) {
		hundred = append(hundred, 100-i)
	}
	for _, c := range []struct {
		values []int64
		want   Quantiles
	}{
		{nil, Quantiles{}},
		{[]int64{7}, Quantiles{1, 7, 7}},
		{[]int64{3, 1, 2}, Quantiles{3, 2, 3}},
		{hundred, Quantiles{100, 50, 95}},
	} {
		if got := quantiles(c.values); got != c.want {
			t.Errorf("%v of %d values, want %v", got, len(c.values), c.want)
		}
	}
}
