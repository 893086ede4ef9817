package explain

import (
	"cmp"
	"slices"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/internal/gateway"
)

// Fallback is what is decided about other tiers.
type Fallback struct {
	fallback.Decision
	Words string `json:"words"`
	Place Place  `json:"place"`
}

// fails says that by one of the decisions nothing is sent again.
func (x *explainer) fails(ds []Decision) bool {
	return slices.ContainsFunc(ds, func(d Decision) bool { return d.Action == decision.Fail || d.Action == decision.Hold })
}

// fallback asks whether another tier may answer what is not sent again; nil where there is no other.
func (x *explainer) fallback(f *decision.Facts, j *gateway.Judgement, ds []Decision) *Fallback {
	if len(x.wf.Tiers) < 2 || !x.fails(ds) {
		return nil
	}
	name := cmp.Or(x.q.Answer.Provider, string(x.call.Wire))
	if p := x.cfg.Provider(name); p != nil {
		name = p.Name
	}
	d := gateway.Fallback(x.cfg, x.wf, &gateway.Failing{Failure: gateway.FailureWord(j.Signal), Visible: j.Visible, Held: f.Hold && j.End == decision.Unknown,
		Left: f.Left && !f.Async, Remaining: f.Remaining, Provider: name, Model: x.q.Model, Endpoint: x.call.Endpoint, Body: []byte(x.q.Request)})
	if d.Action == fallback.None {
		return nil
	}
	return &Fallback{Decision: d, Words: gateway.FallbackWords(&d), Place: x.place(d.Rule, "")}
}

// begins is the tier that a call of this request would be sent to first; nil where that is no question.
func (x *explainer) begins() *Fallback {
	if len(x.wf.Tiers) < 2 || x.q.Request == "" {
		return nil
	}
	name := cmp.Or(x.q.Answer.Provider, string(x.call.Wire))
	if p := x.cfg.Provider(name); p != nil {
		name = p.Name
	}
	d := gateway.Start(x.cfg, x.wf, &gateway.Failing{Provider: name, Model: x.q.Model, Endpoint: x.call.Endpoint, Body: []byte(x.q.Request)})
	words := "at tier " + d.Tier + ": " + d.Reason
	if d.Action != fallback.Next {
		words = "nowhere: " + d.Reason
	}
	return &Fallback{Decision: d, Words: words, Place: x.place(d.Rule, "")}
}
