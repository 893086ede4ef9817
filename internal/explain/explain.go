// Package explain says what a policy makes of the end of one attempt, with the line of the policy that decides.
package explain

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/signal"
)

// Explanation is all that follows from a question. Its JSON names are stable.
type Explanation struct {
	PolicyRevision string `json:"policy_revision"`
	Workflow       string `json:"workflow"`
	Chosen         string `json:"chosen"` // by name, by match, or by default: no other matches
	WorkflowAt     Place  `json:"workflow_at"`
	Mode           string `json:"mode"`
	Provider       string `json:"provider"` // the wire format: openai, anthropic, gemini
	Path           string `json:"path"`
	Model          string `json:"model,omitempty"`
	Stream         bool   `json:"stream,omitempty"`
	Acts           string `json:"acts,omitempty"` // what of the request makes the provider act
	Effect         string `json:"effect"`
	OnUnknown      string `json:"on_unknown"`
	OnUnknownAt    Place  `json:"on_unknown_at"`

	// What follows is there when the question tells of an attempt's end.
	Signal      *signal.Signal `json:"signal,omitempty"`
	Outcome     string         `json:"outcome,omitempty"` // success, failed, unknown, not_sent
	OutcomeRule string         `json:"outcome_rule,omitempty"`
	OutcomeWhy  string         `json:"outcome_reason,omitempty"`
	Attempt     int            `json:"attempt,omitempty"`
	MaxAttempts int            `json:"max_attempts,omitempty"`
	Tier        string         `json:"tier,omitempty"` // that the attempt was made at, of several
	RemainingMS int64          `json:"remaining_ms,omitempty"`
	// Decisions are what chance allows, the shortest delay first: more than one where jitter decides.
	Decisions []Decision `json:"decisions,omitempty"`
	// Fallback says whether another tier may answer, where nothing is sent again and the workflow has several.
	Fallback *Fallback `json:"fallback,omitempty"`
	// StandIns are what is looked for, in this order, before the client of a call hears of its failure: template NAME, semantic, default.
	StandIns []string `json:"stand_ins,omitempty"`
	// Begins is the tier that a call of the request goes to first, of several.
	Begins     *Fallback `json:"begins,omitempty"`
	CoolDownMS int64     `json:"cool_down_ms,omitempty"` // of the route, for everybody
	Breaker    string    `json:"breaker,omitempty"`      // failure, success or ignored
	Key        string    `json:"key,omitempty"`          // held, kept or released
	KeyWhy     string    `json:"key_reason,omitempty"`
}

// Decision is one thing that can happen next.
type Decision struct {
	Action decision.Action `json:"action"`
	Words  string          `json:"words"`
	// NextTier is the tier that is asked then.
	NextTier string `json:"next_tier,omitempty"`
	// Share is how often chance gives this one, in percent.
	Share int `json:"share_percent"`
	// The delay lies between these.
	MinDelayMS int64  `json:"min_delay_ms,omitempty"`
	MaxDelayMS int64  `json:"max_delay_ms,omitempty"`
	Lane       string `json:"lane,omitempty"`
	Rule       string `json:"rule"`
	Place      Place  `json:"place"`
	Condition  string `json:"condition,omitempty"`
	Reason     string `json:"reason"`
}

// explainer is one explanation on its way.
type explainer struct {
	cfg    *policy.Config
	q      *Question
	wf     *policy.Workflow
	call   provider.Call
	chosen string
	effect policy.Effect
	acts   string
	plan   *gateway.Plan // nil where there is one tier, or none
	tier   string        // of it, that the attempt was made at
}

// Explain answers q by cfg. Nothing is sent, read or kept. Its errors wrap ErrQuestion.
func Explain(cfg *policy.Config, q Question) (*Explanation, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	x := explainer{cfg: cfg, q: &q}
	if err := x.choose(); err != nil {
		return nil, err
	}
	out := x.request()
	if q.answered() {
		x.answer(out)
	}
	return out, nil
}

// choose reads the request as far as it is known, and finds its workflow.
func (x *explainer) choose() error {
	q := x.q
	if method, path, ok := strings.Cut(q.Answer.Endpoint, " "); ok && q.Path == "" {
		q.Method, q.Path = cmp.Or(q.Method, method), path
	}
	header := http.Header{}
	for name, value := range q.RequestHeaders {
		header.Set(name, value)
	}
	if err := x.known(q.Answer.Provider); err != nil {
		return err
	}
	wire := x.wire(header)
	asked := q.Path
	q.Method, q.Path = cmp.Or(q.Method, http.MethodPost), cmp.Or(asked, defaultPath(wire, q))
	path, query, _ := strings.Cut(q.Path, "?")
	x.call = provider.Parse(&provider.Request{Method: q.Method, Path: path, RawQuery: query, Header: header, Body: []byte(q.Request), Wire: wire})
	x.acts = x.call.Acts
	q.Model = cmp.Or(q.Model, x.call.Model)
	if q.Workflow == "" {
		x.wf, x.chosen = x.cfg.Match(path, q.Model, header), "by its match"
		if x.wf.Name == policy.DefaultWorkflow {
			x.chosen = "because no other matches"
		}
	} else if x.wf, x.chosen = x.cfg.Workflow(q.Workflow), "by its name"; x.wf == nil {
		names := make([]string, len(x.cfg.Workflows))
		for i := range x.cfg.Workflows {
			names[i] = x.cfg.Workflows[i].Name
		}
		return fmt.Errorf("%w: there is no workflow %.64q; workflows are %s", ErrQuestion, q.Workflow, strings.Join(names, ", "))
	}
	if x.effect = x.wf.EffectOf(x.call.Read); q.Effect != "" {
		x.effect = policy.Effect(q.Effect)
	}
	return x.plans(header)
}

// known refuses a provider that is neither in the configuration nor an API of its own. A line of signals.jsonl, which
// has an endpoint, may be of any service in the world.
func (x *explainer) known(name string) error {
	names := []string{policy.TypeOpenAI, policy.TypeAnthropic, policy.TypeGemini, "vertex"}
	for i := range x.cfg.Providers {
		if p := x.cfg.Providers[i].Name; !slices.Contains(names, p) {
			names = append(names, p)
		}
	}
	if name == "" || x.q.Answer.Endpoint != "" || slices.Contains(names, name) {
		return nil
	}
	hint := ""
	if near := policy.Nearest(name, names); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return fmt.Errorf("%w: there is no provider %.64q; providers are %s%s", ErrQuestion, name, strings.Join(names, ", "), hint)
}

// wire is the format that a provider speaks: by the name in the configuration, else by its own, else by the request.
func (x *explainer) wire(header http.Header) provider.Wire {
	if p := x.cfg.Provider(x.q.Answer.Provider); p != nil && p.Type != "" {
		return provider.Wire(p.Type)
	}
	switch x.q.Answer.Provider {
	case policy.TypeAnthropic:
		return provider.Anthropic
	case policy.TypeGemini, "vertex":
		return provider.Gemini
	case "":
		if path, _, _ := strings.Cut(x.q.Path, "?"); len(header) == 0 && (path == "/v1/messages" || strings.HasPrefix(path, "/v1/messages/")) {
			return provider.Anthropic // every client of that path sends anthropic-version; who asks about one without names its headers
		}
		return provider.WireOf(x.q.Path, header)
	}
	return provider.OpenAI
}

// defaultPath is the common call of each API.
func defaultPath(wire provider.Wire, q *Question) string {
	switch wire {
	case provider.Anthropic:
		return "/v1/messages"
	case provider.Gemini:
		if q.Answer.Phase == signal.MidStream {
			return "/v1beta/models/" + cmp.Or(q.Model, "gemini") + ":streamGenerateContent?alt=sse"
		}
		return "/v1beta/models/" + cmp.Or(q.Model, "gemini") + ":generateContent"
	}
	return "/v1/chat/completions"
}

func (x *explainer) request() *Explanation {
	unknown := x.wf.UnknownRule(x.acts != "")
	if x.effect == policy.External && x.wf.OnUnknown == "" {
		unknown = policy.HoldUnknown
	}
	return &Explanation{PolicyRevision: x.cfg.Revision, Workflow: x.wf.Name, Chosen: x.chosen, WorkflowAt: x.workflow(), Mode: string(x.wf.Mode),
		Provider: string(x.call.Wire), Path: x.q.Path, Model: x.q.Model, Stream: x.call.Stream, Acts: x.acts, Effect: string(x.effect),
		OnUnknown: string(unknown), OnUnknownAt: x.field("on_unknown", string(unknown)), Begins: x.begins()}
}

// answer adds what the attempt's end leads to.
func (x *explainer) answer(out *Explanation) {
	a := x.q.Answer
	if a.ReceivedAt.IsZero() {
		a.ReceivedAt = time.Now()
	}
	if a.Phase == "" {
		if a.Phase = signal.BeforeFirstToken; a.Status == 0 {
			a.Phase = signal.NoResponse
		}
	}
	s := signal.Classify(a)
	j := x.judge(a, s)
	out.Signal, out.Outcome, out.OutcomeRule, out.OutcomeWhy = &s, string(j.End), j.Rule, j.Reason
	f := x.facts(&j, x.effect != policy.Read && out.OnUnknown == string(policy.HoldUnknown))
	p := gateway.DecisionPolicy(x.wf)
	f.Elsewhere = x.elsewhere(&f, &j)
	out.Tier = x.tier
	out.Attempt, out.MaxAttempts, out.RemainingMS = f.Attempt, p.MaxAttempts, f.Remaining.Milliseconds()
	out.Decisions = x.decisions(f, p, &j)
	out.Fallback = x.fallback(&f, &j, out.Decisions)
	if x.fails(out.Decisions) && !f.Async && !f.Left && !j.Visible && out.OnUnknown != string(policy.HoldUnknown) {
		out.StandIns = gateway.StandIns(x.wf, &x.call, a.Status, out.met()...)
	}
	out.CoolDownMS = decision.Cooldown(j.Signal).Milliseconds()
	out.Breaker = health(&j)
	x.key(out, &j)
}

// met are the conditions of the policy that a failure which nothing follows meets.
func (out *Explanation) met() (conditions []string) {
	for i := range out.Decisions {
		if d := &out.Decisions[i]; d.Action == decision.Fail {
			conditions = append(conditions, d.Condition)
		}
	}
	if out.Fallback != nil {
		conditions = append(conditions, out.Fallback.Condition)
	}
	return conditions
}

// judge asks the gateway what the attempt's end means. Of a read nothing is unknown, and what is no error is passed on as
// it comes (semantics 1).
func (x *explainer) judge(a signal.Answer, s signal.Signal) gateway.Judgement {
	switch {
	case x.effect != policy.Read:
		return gateway.Judge(x.wf, &x.call, x.effect == policy.External, sniffed(a))
	case a.Status != 0 && a.Status < 400:
		return gateway.Judgement{End: decision.Success, Status: a.Status, Signal: s, Rule: "semantics 1", Reason: "a read is passed on"}
	}
	return gateway.Judgement{End: decision.Failed, Status: a.Status, Signal: s, Visible: a.Phase == signal.MidStream, Rule: "semantics 1",
		Reason: "a read changes nothing"}
}

// sniffed gives a stream that was pasted without its content type the one that it has.
func sniffed(a signal.Answer) signal.Answer {
	if !strings.HasPrefix(string(a.Body), "data:") && !strings.HasPrefix(string(a.Body), "event:") {
		return a
	}
	for name := range a.Header {
		if strings.EqualFold(name, "Content-Type") {
			return a
		}
	}
	with := http.Header{"Content-Type": {"text/event-stream"}}
	for name, values := range a.Header {
		with[name] = values
	}
	a.Header = with
	return a
}

func (x *explainer) facts(j *gateway.Judgement, hold bool) decision.Facts {
	q := x.q
	f := decision.Facts{Signal: j.Signal, Status: j.Status, End: j.End, Hold: hold, Visible: j.Visible, Left: q.ClientLeft, Async: q.Async,
		Broken: q.Breaker == "open", Spent: q.ShareUsed, Attempt: max(q.Attempt, 1), Remaining: x.wf.Timeouts.Total}
	if q.RemainingMS != nil {
		f.Remaining = time.Duration(*q.RemainingMS) * time.Millisecond
	}
	return f
}

// health is what the breaker hears of the attempt.
func health(j *gateway.Judgement) string {
	broken := j.Signal.Class == signal.Unknown && !j.Signal.Retryable // the client's or our own cancel
	switch {
	case j.End == decision.Success:
		return "success"
	case decision.Unhealthy(j.Signal) && !broken:
		return "failure"
	}
	return "ignored"
}
