package gateway

import (
	"cmp"
	"maps"
	"slices"

	"github.com/holdfast-ai/holdfast/bulkhead"
	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
)

// tier is a place where calls of a workflow can go, compiled once per edition. Workflows without tiers have one for each
// provider that a path can name.
type tier struct {
	name     string
	index    int     // among the tiers of its workflow
	target   *target // nil: the provider that the path names
	model    string  // as it goes out; "": the one asked for
	prompt   *provider.Prompt
	timeouts policy.Timeouts // the workflow's, with what differs here
	notice   string
	conf     policy.Tier // what a contract is about

	bulkhead string  // name of a shared one
	slots    slots   // nil: only limits.workers
	waits    bool    // bulkhead.wait
	quota    int     // semantics 25
	drains   *drains // of all that share the slots, or limits.workers
}

// newTier finds the tier's slots among those in use by the bulkhead's name, else by own. Where only limits.workers bounds
// it, who drains is counted under free.
func newTier(cfg *policy.Config, w *policy.Workflow, conf policy.Tier, own, free string, common *shared) *tier {
	b := w.Bulkhead
	if conf.Bulkhead != nil {
		b = *conf.Bulkhead
	}
	slots := b.MaxConcurrent
	if slots <= 0 {
		slots = cfg.Limits.Workers
	}
	t := &tier{name: conf.Name, conf: conf, model: conf.Model, prompt: variantOf(conf.Prompt), timeouts: tierTimeouts(w.Timeouts, conf.Timeouts),
		notice: conf.Notice, bulkhead: b.Name, waits: b.Wait, quota: max(1, int(float64(slots)*w.FinishQuota))}
	switch key := own; {
	case b.MaxConcurrent <= 0:
		t.drains = common.drainsOf(free)
	default:
		if b.Name != "" {
			key = "name/" + b.Name
		}
		t.slots, t.drains = common.slotsOf(key, bulkhead.Config{Max: b.MaxConcurrent, Reserve: b.InteractiveReserve}, w.Breaker.Replicas), common.drainsOf(key)
	}
	return t
}

// tierTimeouts are the workflow's where a tier says nothing else. First content comes within the attempt.
func tierTimeouts(t policy.Timeouts, own *policy.TierTimeouts) policy.Timeouts {
	if own == nil {
		return t
	}
	t.FirstToken, t.Idle, t.Attempt = cmp.Or(own.FirstToken, t.FirstToken), cmp.Or(own.Idle, t.Idle), cmp.Or(own.Attempt, t.Attempt)
	t.FirstToken = min(t.FirstToken, t.Attempt)
	return t
}

func variantOf(p *policy.Prompt) *provider.Prompt {
	if p == nil {
		return nil
	}
	v := provider.Prompt{System: p.System, MaxTokens: int64(p.MaxTokens), Template: p.Template, Examples: provider.AllExamples}
	if p.Examples != nil {
		v.Examples = *p.Examples
	}
	if v.Empty() {
		return nil
	}
	return &v
}

// tiersOf compiles the tiers of a workflow, in order, and the places of one that has none.
func (r *rules) tiersOf(cfg *policy.Config, w *policy.Workflow, providers map[string]*target, common *shared) {
	place := func(conf policy.Tier) *tier {
		t := newTier(cfg, w, conf, w.Path()+"/"+conf.Name, "", common)
		t.target = providers[conf.Provider]
		return t
	}
	for i := range w.Tiers {
		t := place(w.Tiers[i])
		t.index = i
		r.tiers = append(r.tiers, t)
	}
	r.places = map[string]*tier{}
	if len(w.Tiers) > 0 {
		return
	}
	for i := range cfg.Providers {
		name := cfg.Providers[i].Name
		r.places[name] = place(policy.Tier{Name: name, Provider: name})
	}
}

// all are the tiers and places of a workflow.
func (r *rules) all() []*tier {
	return slices.Concat(r.tiers, slices.Collect(maps.Values(r.places)))
}

// leg is a tier as one call would go there.
type leg struct {
	*tier
	to      *target
	sends   string         // the model that goes out, as headers and rows show it
	made    bool           // what it is sent was looked for: the rest is known
	lack    *fallback.Lack // why there is none
	varied  []byte         // its variant of the request; nil: the request as it came
	crosses *translation   // nil: the tier speaks the request's own format
	said    bool           // what the translation leaves out is on record
	by      string         // what was decided that led to it, as clients are told
}

// size is how many bytes of a request of its own the leg holds.
func (l *leg) size() int {
	n := len(l.varied)
	if l.crosses != nil {
		n += len(l.crosses.Body)
	}
	return n
}

// firstLeg is where a call of r goes, or a job, as far as its contract holds there: the one place that says so. from is the provider
// that its path names, model the one that it asks for; chosen is a route that a person has chosen for it (PROVIDER or
// PROVIDER/MODEL). Without a provider of that name the leg goes nowhere.
func (g *edition) firstLeg(r *rules, from *target, model, chosen string) leg {
	switch {
	case chosen != "":
		return g.chosenLeg(r, model, chosen)
	case len(r.tiers) > 0:
		return r.tiers[0].leg(from, model)
	case from == nil:
		return leg{}
	}
	return leg{tier: r.places[from.conf.Name], to: from, sends: model}
}

// legs are the tiers that such a call may go to, in order; of those behind the first a contract decides.
func (g *edition) legs(r *rules, from *target, model, chosen string, one *[1]leg) []leg {
	if chosen != "" || len(r.tiers) < 2 {
		one[0] = g.firstLeg(r, from, model, chosen)
		return one[:]
	}
	all := make([]leg, len(r.tiers))
	for i, t := range r.tiers {
		all[i] = t.leg(from, model)
	}
	return all
}

func (t *tier) leg(from *target, model string) leg {
	to := t.target
	if to == nil {
		to = from
	}
	return leg{tier: t, to: to, sends: cmp.Or(t.model, model)}
}

// chosenLeg is where a person has a job sent: by the slots of its provider where the workflow has such, else by none.
func (g *edition) chosenLeg(r *rules, model, chosen string) leg {
	name, own := cutRoute(chosen)
	l := leg{to: g.providers[name], sends: cmp.Or(own, model)}
	if t := r.places[name]; t != nil {
		place := *t
		place.model, place.target = own, l.to
		l.tier = &place
		return l
	}
	l.tier = &tier{name: name, model: own, target: l.to, timeouts: r.timeouts, drains: &drains{}, quota: 1}
	return l
}
