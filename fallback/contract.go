package fallback

import (
	"fmt"
	"slices"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// keeps says why a tier does not keep the contract, nil where it does. What is certain goes before what is not known.
func (f *Facts) keeps(t *Tier, p *Policy) *Skipped {
	var unknown *Skipped
	for _, ask := range []func(*Tier, *Policy) *Skipped{f.past, f.lack, f.shape, f.model, f.boundary, f.safety, f.observed, f.held, f.tools, f.schema, f.media, f.context, f.cost, f.quality} {
		s := ask(t, p)
		if s == nil {
			continue
		}
		if s.Tier = t.Name; s.Condition != ContractUnknown {
			return s
		}
		if unknown == nil {
			unknown = s
		}
	}
	return unknown
}

func mismatch(rule, format string, args ...any) *Skipped {
	return &Skipped{Rule: rule, Condition: ContractMismatch, Reason: fmt.Sprintf(format, args...)}
}

func notKnown(rule, format string, args ...any) *Skipped {
	return &Skipped{Rule: rule, Condition: ContractUnknown, Reason: fmt.Sprintf(format, args...)}
}

// past asks whether the call may come to it: a no has no condition, for the contract is not asked.
func (f *Facts) past(t *Tier, _ *Policy) *Skipped {
	if t.Past == nil {
		return nil
	}
	return &Skipped{Rule: t.Past.Rule, Reason: t.Past.Reason}
}

// lack asks whether it can be called at all.
func (f *Facts) lack(t *Tier, _ *Policy) *Skipped {
	lack := t.Lack
	if lack == nil && t.Ready != nil {
		lack = t.Ready()
	}
	if lack == nil {
		return nil
	}
	return mismatch(lack.Rule, "%s", lack.Reason)
}

// model asks for the same model where another one's answer is none.
func (f *Facts) model(t *Tier, _ *Policy) *Skipped {
	if f.Needs.SameModel && t.Model != f.From.Model {
		return mismatch("tiers.model", "vectors of %s are not comparable with those of %s", t.Model, f.From.Model)
	}
	return nil
}

// shape asks for the format of the request, or a translation into the tier's: whoever has one says that it speaks the request's.
func (f *Facts) shape(t *Tier, _ *Policy) *Skipped {
	if t.Wire != f.Needs.Wire {
		return mismatch("tiers.provider", "%s speaks %s, the request is %s", t.Provider, t.Wire, f.Needs.Wire)
	}
	return nil
}

// boundary asks where data goes: nowhere else than where it went.
func (f *Facts) boundary(t *Tier, p *Policy) *Skipped {
	if !p.DataBoundary || mutant.On("fallback-across-boundary") {
		return nil
	}
	return alike("fallback.require_data_boundary_match", "data_boundary", BoundaryMismatch, t.DataBoundary, f.From.DataBoundary)
}

// safety asks how unsafe content is treated: as at the first tier.
func (f *Facts) safety(t *Tier, p *Policy) *Skipped {
	if !p.Safety {
		return nil
	}
	return alike("fallback.require_safety_match", "safety_class", ContractMismatch, t.SafetyClass, f.From.SafetyClass)
}

// observed asks what is logged and kept of a call: what is at the first tier.
func (f *Facts) observed(t *Tier, p *Policy) *Skipped {
	if !p.Observability {
		return nil
	}
	return alike("fallback.require_observability_match", "observability", ContractMismatch, t.Observability, f.From.Observability)
}

// alike asks for the word of the first tier. Where neither has one they are equal; where one has, what the other is, is not known.
func alike(rule, field, condition, own, first string) *Skipped {
	switch {
	case own == first:
		return nil
	case own == "":
		return notKnown(rule, "it has no %s, that of the tier before it is %s", field, first)
	case first == "":
		return notKnown(rule, "its %s is %s, that of the tier before it is not said", field, own)
	}
	return &Skipped{Rule: rule, Condition: condition, Reason: "its " + field + " is " + own + ", not " + first}
}

// held asks for what only the provider of the request has.
func (f *Facts) held(t *Tier, _ *Policy) *Skipped {
	if f.Needs.Held != "" && t.Provider != f.home() {
		return mismatch("tiers.provider", "the request names what %s keeps (%s)", f.home(), f.Needs.Held)
	}
	return nil
}

func (f *Facts) home() string {
	if f.Needs.Home != "" {
		return f.Needs.Home
	}
	return f.From.Provider
}

func (f *Facts) tools(t *Tier, p *Policy) *Skipped {
	const rule = "fallback.require_equivalent_tools"
	switch {
	case !p.Tools:
		return nil
	case f.Needs.Hosted != "" && t.Provider != f.home():
		return mismatch(rule, "the request has a tool that %s runs or knows (%s)", f.home(), f.Needs.Hosted)
	case !f.Needs.Tools:
		return nil
	case f.Needs.Parallel && t.Parallel == No:
		return mismatch(rule, "the request asks for parallel calls, and models.%s has parallel_tools: false", t.Model)
	}
	return f.can(t, t.Tools, "models.tools", "tools", "the request has tools")
}

// schema asks for what keeps words to a form, an answer's or a strict tool's arguments: it is one ability.
func (f *Facts) schema(t *Tier, p *Policy) *Skipped {
	const rule, field = "models.json_schema", "json_schema"
	switch {
	case !p.Schema:
		return nil
	case f.Needs.Schema:
		return f.can(t, t.Schema, rule, field, "the answer has a schema")
	case f.Needs.Strict:
		return f.can(t, t.Schema, rule, field, "a tool is strict about its schema")
	}
	return nil
}

// media asks for what a request has, or wants, beside text. What is certain goes before what is not known.
func (f *Facts) media(t *Tier, _ *Policy) (unknown *Skipped) {
	n := &f.Needs
	for _, m := range [...]struct {
		asked bool
		able  Answer
		field string
	}{{n.Images, t.Images, "images"}, {n.Audio, t.Audio, "audio"}, {n.Video, t.Video, "video"}, {n.Files, t.Files, "files"}} {
		if !m.asked {
			continue
		}
		s := f.can(t, m.able, "models."+m.field, m.field, "the request has "+m.field)
		if s != nil && s.Condition != ContractUnknown {
			return s
		}
		if unknown == nil {
			unknown = s
		}
	}
	if unknown == nil && n.Other != "" && !f.asked(t) {
		unknown = notKnown("tiers.model", "nobody knows whether %s can do what the request has or asks for (%s)", t.Model, n.Other)
	}
	return unknown
}

// asked reports whether a tier has the model that was asked, which can do what it was asked for.
func (f *Facts) asked(t *Tier) bool { return t.Model != "" && t.Model == f.From.Model }

// can asks for an ability.
func (f *Facts) can(t *Tier, able Answer, rule, field, why string) *Skipped {
	switch {
	case able == Yes, able == NotSaid && f.asked(t):
		return nil
	case able == No:
		return mismatch(rule, "%s, and models.%s has %s: false", why, t.Model, field)
	}
	return notKnown(rule, "%s, and nobody has said that %s can do that (models.%s.%s)", why, t.Model, t.Model, field)
}

const contextRule = "models.context_tokens"

// context asks whether request and answer fit. Where what is rather too high an estimate goes beyond a tier's room, and that is less than
// the first one's, it is not known; a tier with as much room is no worse a place than the first, which estimates do not bind.
func (f *Facts) context(t *Tier, _ *Policy) *Skipped {
	switch {
	case t.ContextTokens == 0 && t.Model != f.From.Model:
		return notKnown(contextRule, "nobody has said how much %s reads (models.%s.context_tokens)", t.Model, t.Model)
	case t.ContextTokens == 0:
		return nil
	case t.Least > t.ContextTokens:
		return tooLong(t)
	case t.Tokens <= t.ContextTokens, f.From.ContextTokens > 0 && f.From.ContextTokens <= t.ContextTokens:
		return nil
	}
	return notKnown(contextRule, "whether about %d tokens fit the %d of %s is not known", t.Tokens, t.ContextTokens, t.Model)
}

func tooLong(t *Tier) *Skipped {
	return mismatch(contextRule, "its context is too small: %d tokens or more do not fit the %d of %s", t.Least, t.ContextTokens, t.Model)
}

// costs are the classes of cost that have an order.
var costs = []string{"low", "medium", "high"}

// cost asks for no more than the cap, and for no dearer class where both tiers name one.
func (f *Facts) cost(t *Tier, p *Policy) *Skipped {
	const rule = "fallback.require_cost_cap"
	if !p.CostCap {
		return nil
	}
	if p.Capped {
		switch {
		case !t.Priced:
			return notKnown(rule, "nobody knows what %s costs (models.%s.input_cost, output_cost)", t.Model, t.Model)
		case t.Cost > p.Cap:
			return mismatch(rule, "it takes about $%.4f, and $%.4f are left of spend.per_request", float64(t.Cost)/1e9, float64(max(p.Cap, 0))/1e9)
		}
	}
	from, to := f.From.CostClass, t.CostClass
	if from == "" || to == "" || from == to {
		return nil
	}
	a, b := slices.Index(costs, from), slices.Index(costs, to)
	switch {
	case a < 0 || b < 0:
		return notKnown(rule, "which of the cost classes %s and %s is the dearer one is not known; low, medium and high have an order", from, to)
	case b > a:
		return mismatch(rule, "its cost_class is %s, that of the tier before it %s", to, from)
	}
	return nil
}

// quality asks for an equal tier, or for somebody's approval of an unequal one.
func (f *Facts) quality(t *Tier, p *Policy) *Skipped {
	if t.QualityClass == f.From.QualityClass || p.Contract != "" {
		return nil
	}
	return notKnown("fallback.contract", "its quality_class is %s, that of the tier before it %s, and nobody has approved that (fallback.contract)",
		named(t.QualityClass), named(f.From.QualityClass))
}

func named(class string) string {
	if class == "" {
		return "not said"
	}
	return class
}
