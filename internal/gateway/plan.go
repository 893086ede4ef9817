package gateway

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/internal/budget"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
)

// Plan is the way over its workflow's tiers that a call would have, for `holdfast explain`: it is decided by the course that traffic has,
// with no gateway behind it. Nothing is sent, read or kept.
type Plan struct {
	course course
	asked  *original
}

// Planned is the call that is asked about.
type Planned struct {
	Call     *provider.Call
	Header   http.Header
	Body     []byte // empty: not known. Then what can be translated is taken to be, and nothing is said of what it asks for
	Provider string // that its path names, by its name or its type
	Model    string // asked for, where the body does not say
}

// NewPlan is the plan of a call under a workflow of cfg with several tiers; nil where there is no choice, or no provider of that name.
func NewPlan(cfg *policy.Config, w *policy.Workflow, p Planned) *Plan {
	providers, types, err := targets(cfg)
	if err != nil || len(w.Tiers) < 2 {
		return nil // load has refused such an address
	}
	from := cmp.Or(providers[p.Provider], types[p.Provider], types[string(p.Call.Wire)])
	if from == nil {
		return nil
	}
	g := &edition{Gateway: &Gateway{mem: budget.New(cfg.Limits.BodyMemory)}, policy: cfg, providers: providers, wires: types, guard: NewGuard(cfg.Auth)}
	r := newRules(w)
	r.tiersOf(cfg, w, providers, newShared(nil, nil))
	plan := &Plan{asked: &original{g: g, wf: w, header: p.Header, body: p.Body, spec: *p.Call, from: from, proof: proofOf(p.Header, from)}}
	plan.course.legs = g.legs(r, from, p.Model, "", &plan.course.one)
	for i := range plan.course.legs {
		plan.course.legs[i].assume(plan.asked)
	}
	return plan
}

// proofOf is the client's credential, as far as is told: one that must come with a call whose provider has no key of its own is
// taken to come.
func proofOf(h http.Header, from *target) string {
	for _, name := range credentialHeaders {
		if v := first(h[name]); v != "" {
			return v
		}
	}
	if len(h) == 0 && !from.owns && from.base.Scheme == "https" { // a server of one's own may ask for none
		return "the client's"
	}
	return ""
}

// assume settles what cannot be asked: a request that is not told, a provider of another file.
func (l *leg) assume(o *original) {
	switch {
	case l.target == nil && l.conf.Provider != "":
		l.made, l.lack = true, &fallback.Lack{Rule: "tiers.provider", Reason: l.conf.Provider + " is not in providers of this file"}
	case len(o.body) == 0:
		l.made = true
		switch {
		case l.to.wire == o.spec.Wire:
		case translates(o.spec.Endpoint, l.to.wire):
			l.crosses = &translation{}
		default:
			_, err := told(o.spec.Endpoint, l.to.conf, l.sends, nil, &o.g.policy.Limits)
			l.lack = unsaid(err)
		}
	}
}

// Begins decides at which tier the call begins.
func (p *Plan) Begins() fallback.Decision {
	var f Failing
	tiers := p.course.facts(p.asked.g.policy, p.asked, 0)
	facts := f.facts(p.course.wants(p.asked), tiers[0], tiers)
	return fallback.Start(&facts, fallbackPolicy(p.asked.wf, &f))
}

// Fails decides whether a tier behind the named one may answer, which has failed.
func (p *Plan) Fails(tier string, f Failing) fallback.Decision {
	p.course.at = p.course.index(tier)
	return p.course.after(p.asked, &f)
}

// Model is what a tier is asked for.
func (p *Plan) Model(tier string) string { return p.course.legs[p.course.index(tier)].sends }

// Tiers are the names of the tiers, in order.
func (p *Plan) Tiers() []string {
	names := make([]string, len(p.course.legs))
	for i := range p.course.legs {
		names[i] = p.course.legs[i].name
	}
	return names
}

// TierOf names the first tier of a provider, and of a model where that is not empty; "" where there is none.
func (p *Plan) TierOf(name, model string) string {
	i := slices.IndexFunc(p.course.legs, func(l leg) bool {
		return l.to.conf.Name == name && (model == "" || l.model == "" || policy.IsVersion(model, l.model))
	})
	if i < 0 {
		return ""
	}
	return p.course.legs[i].name
}
