package explain

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
)

// Fallback is what is decided about other tiers.
type Fallback struct {
	fallback.Decision
	Words string `json:"words"`
	Place Place  `json:"place"`
	// Places are those of what has each tier of Skipped passed over.
	Places []Place `json:"skipped_places,omitempty"`
}

// goesOn says that another tier is asked at once.
func (f *Fallback) goesOn() bool { return f != nil && f.Action == fallback.Next && !f.Approval }

// plans makes the way over the tiers, and finds the one that the question is about.
func (x *explainer) plans(header http.Header) error {
	q := x.q
	x.plan = gateway.NewPlan(x.cfg, x.wf, gateway.Planned{Call: &x.call, Header: header, Body: []byte(q.Request),
		Provider: cmp.Or(q.Answer.Provider, string(x.call.Wire)), Model: q.Model})
	if x.plan == nil {
		if q.Tier != "" && !slices.ContainsFunc(x.wf.Tiers, func(t policy.Tier) bool { return t.Name == q.Tier }) {
			return fmt.Errorf("%w: workflow %s has no tier %.64q", ErrQuestion, x.wf.Name, q.Tier)
		}
		return nil
	}
	if names := x.plan.Tiers(); q.Tier != "" && !slices.Contains(names, q.Tier) {
		return fmt.Errorf("%w: workflow %s has no tier %.64q; tiers are %s", ErrQuestion, x.wf.Name, q.Tier, strings.Join(names, ", "))
	}
	x.tier = q.Tier
	if x.tier == "" && q.Answer.Provider != "" {
		x.tier = x.plan.TierOf(q.Answer.Provider, q.Model)
	}
	if x.tier == "" {
		d := x.plan.Begins()
		x.tier = cmp.Or(d.Tier, x.plan.Tiers()[0])
	}
	return nil
}

// fails says that by one of the decisions nothing is sent again.
func (x *explainer) fails(ds []Decision) bool {
	return slices.ContainsFunc(ds, func(d Decision) bool { return d.Action == decision.Fail || d.Action == decision.Hold })
}

// failing is the end of an attempt as far as other tiers are concerned.
func failing(f *decision.Facts, j *gateway.Judgement) gateway.Failing {
	return gateway.Failing{Failure: gateway.FailureWord(j.Signal), Visible: j.Visible, Held: f.Hold && j.End == decision.Unknown,
		Left: f.Left && !f.Async, Remaining: f.Remaining}
}

// elsewhere says that another tier may answer, where the wait for this one would be long.
func (x *explainer) elsewhere(f *decision.Facts, j *gateway.Judgement) bool {
	if x.plan == nil {
		return false
	}
	return x.placed(x.plan.Fails(x.tier, failing(f, j))).goesOn()
}

// fallback asks whether another tier may answer what is not sent again; nil where there is no other.
func (x *explainer) fallback(f *decision.Facts, j *gateway.Judgement, ds []Decision) *Fallback {
	if x.plan == nil || !x.fails(ds) {
		return nil
	}
	d := x.plan.Fails(x.tier, failing(f, j))
	if d.Action == fallback.None {
		return nil
	}
	out := x.placed(d)
	out.Words = gateway.FallbackWords(&d)
	for i := range ds {
		if out.goesOn() && ds[i].Action == decision.Fail {
			ds[i].NextTier, ds[i].Words = d.Tier, "fail at this tier: the next one is asked"
		}
	}
	return out
}

// begins is the tier that a call of this request would be sent to first; nil where that is no question.
func (x *explainer) begins() *Fallback {
	if x.plan == nil || x.q.Request == "" {
		return nil
	}
	out := x.placed(x.plan.Begins())
	out.Words = "at tier " + out.Tier + ": " + out.Reason
	if out.Action != fallback.Next {
		out.Words = "nowhere: " + out.Reason
	}
	return out
}

// placed finds the places behind a decision: its own is that of the tier that it was decided by.
func (x *explainer) placed(d fallback.Decision) *Fallback {
	out := &Fallback{Decision: d, Place: x.place(d.Rule, "")}
	for i := range d.Skipped {
		s := &d.Skipped[i]
		p := x.tierPlace(s.Rule, s.Tier)
		out.Places = append(out.Places, p)
		if d.Action != fallback.Next && s.Rule == d.Rule && d.Reason == s.Tier+": "+s.Reason {
			out.Place = p
		}
	}
	return out
}

// tierPlace is the field that has a tier passed over: where something is not known of its model, that which says it.
func (x *explainer) tierPlace(rule, tier string) Place {
	if field, ok := strings.CutPrefix(rule, "models."); ok {
		return x.at(policy.ModelPath(x.plan.Model(tier), field))
	}
	if strings.HasPrefix(rule, "providers.") {
		return x.at(rule)
	}
	if field, ok := strings.CutPrefix(rule, "tiers."); ok {
		i := slices.Index(x.plan.Tiers(), tier)
		at := fmt.Sprintf("%s.tiers[%d]", x.wf.Path(), i)
		if p := x.at(at + "." + field); p.Written() {
			return p
		}
		return x.at(at)
	}
	return x.place(rule, "")
}

// at is the place of a path.
func (x *explainer) at(path string) Place {
	p := Place{Path: path}
	if x.cfg.Written(path) {
		pos, _ := x.cfg.Pos(path)
		p.At = pos.String()
	}
	return p
}
