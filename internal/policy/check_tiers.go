package policy

import "fmt"

// contracts warns of tiers that can never answer in the place of the first one, or of which nobody has said that they may: what is
// decided at a failure (package fallback) is known before.
func (k *checker) contracts(path string, w *Workflow) {
	if len(w.Tiers) < 2 {
		k.alone(path, w)
		return
	}
	if !w.Fallback.AllowedBeforeFirstToken {
		k.warn(item(path+".tiers", 1), "never answers: fallback.allowed_before_first_token is false", "remove the further tiers, or allow fallback")
		return
	}
	if len(w.Fallback.On) == 0 {
		k.warn(path+".fallback.on", "is empty: behind a failure no other tier answers, whichever it is", "list failures, e.g. [server_error, overloaded, timeout], or remove the line for the default")
	}
	k.hangs(path, w)
	first := &w.Tiers[0]
	for i := 1; i < len(w.Tiers); i++ {
		t, at := &w.Tiers[i], item(path+".tiers", i)
		k.keyed(at, t)
		k.known(at, first, t)
		k.told(at, w, t)
		if w.Fallback.RequireCostCap {
			k.dearer(at, first.CostClass, t.CostClass)
		}
		k.alike(at, &w.Fallback, first, t)
		if t.QualityClass != first.QualityClass && w.Fallback.Contract.ID == "" {
			k.warn(k.fieldOr(at, "quality_class"), fmt.Sprintf("is %s, and that of tiers[0] %s: nobody has approved that it answers in its place", classOf(t.QualityClass),
				classOf(first.QualityClass)), `give both the same, or write fallback: {contract: {id: "…", approver: "…"}}`)
		}
	}
}

// keyed warns of a tier that calls cannot go to which bring a credential of their own: that is for the provider of their path.
func (k *checker) keyed(at string, t *Tier) {
	p := k.c.Provider(t.Provider)
	if t.Provider == "" || p == nil || !p.APIKey.IsZero() || k.c.Written("providers."+t.Provider+".api_key") || len(k.c.Auth.Keys) > 0 {
		return
	}
	k.warn(k.fieldOr(at, "provider"), fmt.Sprintf("has no api_key: a call that brings a credential skips this tier unless its path names %s", t.Provider),
		fmt.Sprintf("write providers.%s.api_key%s; a server that asks for none takes any word", t.Provider, k.orInEnvironment(t.Provider)))
}

// alike warns of words that a policy wants to be those of the first tier, and are not.
func (k *checker) alike(at string, b *Fallback, first, t *Tier) {
	for _, w := range [...]struct {
		wanted                  bool
		field, flag, own, first string
		unknown, differs        string
	}{
		{b.RequireDataBoundaryMatch, "data_boundary", "require_data_boundary_match", t.DataBoundary, first.DataBoundary,
			"whether data may go there is not known", "data may not go there"},
		{b.RequireSafetyMatch, "safety_class", "require_safety_match", t.SafetyClass, first.SafetyClass,
			"whether unsafe content is treated alike there is not known", "unsafe content is treated otherwise there"},
		{b.RequireObservabilityMatch, "observability", "require_observability_match", t.Observability, first.Observability,
			"whether the same is logged and kept there is not known", "something else is logged and kept there"},
	} {
		if !w.wanted || w.own == w.first {
			continue
		}
		why := w.differs
		if w.own == "" || w.first == "" {
			why = w.unknown
		}
		k.warn(k.fieldOr(at, w.field), fmt.Sprintf("is %s, and that of tiers[0] %s: %s, so that it never answers in its place", classOf(w.own), classOf(w.first), why),
			"give both the same, or write fallback: {"+w.flag+": false}")
	}
}

// fieldOr is the path of a tier's field where that is written, else of the tier.
func (k *checker) fieldOr(at, field string) string {
	if k.c.Written(at + "." + field) {
		return at + "." + field
	}
	return at
}

func classOf(class string) string {
	if class == "" {
		return "not written"
	}
	return class
}
