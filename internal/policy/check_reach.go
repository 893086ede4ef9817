package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Tiers that are written and never asked: what gateway and package fallback say of each call can be said of the policy already.

// alone warns of what speaks of other tiers where there is none.
func (k *checker) alone(path string, w *Workflow) {
	const remedy = "write two tiers or more, or remove it"
	if at := path + ".fallback"; k.c.Written(at) && !k.c.isDefault(segments(at)) {
		k.warn(at, "there is no other tier that could answer", remedy)
	}
	if w.Approval == ApproveFallback {
		k.warn(path+".approval", "fallback asks an owner about other tiers, and there is none", remedy)
	}
}

// hangs warns where a tier may use up the whole budget: then none behind it is asked.
func (k *checker) hangs(path string, w *Workflow) {
	for i := range w.Tiers[:len(w.Tiers)-1] {
		attempt, at := w.Timeouts.Attempt, k.fieldOr(path, "timeouts")
		if t := w.Tiers[i].Timeouts; t != nil && t.Attempt > 0 {
			attempt, at = t.Attempt, item(path+".tiers", i)+".timeouts.attempt"
		}
		if attempt < w.Timeouts.Total {
			continue
		}
		if at == path {
			at = path + ".tiers"
		}
		k.warn(at, fmt.Sprintf("attempt %s is all of total %s: where tier %s hangs, no time is left to ask another", Span(attempt), Span(w.Timeouts.Total), w.Tiers[i].Name),
			"write timeouts: "+halves(w.Timeouts)+", or as much as a good answer takes")
		return
	}
}

// halves leaves time for a second attempt; first content comes within the first one.
func halves(t Timeouts) string {
	half := Span(t.Total / 2)
	if t.FirstToken > t.Total/2 {
		return fmt.Sprintf("{first_token: %s, attempt: %s}", half, half)
	}
	return fmt.Sprintf("{attempt: %s}", half)
}

// known warns of a tier of whose model nobody has said how much it reads: whether a request fits is not known, and never taken for a yes.
func (k *checker) known(at string, first, t *Tier) {
	a, b := k.c.Provider(first.Provider), k.c.Provider(t.Provider)
	switch {
	case t.Model == "" && a != nil && b != nil && a.Type != b.Type:
		k.warn(at, fmt.Sprintf("has no model, and %s speaks another API than %s: it is asked for the model that the request names", t.Provider, first.Provider),
			"write model: NAME, one of "+t.Provider)
	case t.Model == "" || t.Model == first.Model || k.c.Known(t.Model).ContextTokens != nil:
	default:
		k.warn(k.fieldOr(at, "model"), fmt.Sprintf("nobody has said how much %s reads, so that it never answers in the place of tiers[0]", t.Model),
			fmt.Sprintf("write models: {%q: {context_tokens: 8192, tools: false, images: false, json_schema: false}}, with what is true of it", t.Model))
	}
}

// translatedPaths are where calls come in that can be told to another API (docs/translate.md).
var translatedPaths = []string{"/v1/chat/completions", "/v1/messages"}

// told warns of a tier to which nothing can be told that the workflow takes, and of one whose vectors are another model's.
func (k *checker) told(at string, w *Workflow, t *Tier) {
	paths := w.Match.Paths
	if len(paths) == 0 {
		return
	}
	first := &w.Tiers[0]
	a, b := k.c.Provider(first.Provider), k.c.Provider(t.Provider)
	if a != nil && b != nil && a.Type != b.Type && !slices.ContainsFunc(paths, takesTranslated) {
		k.warn(k.fieldOr(at, "provider"), fmt.Sprintf("speaks %s, tiers[0] %s, and calls of match.paths are told to no other API: it never answers", b.Type, a.Type),
			"name a provider of type "+a.Type+"; only chat completions and messages are translated")
	}
	vectors := !slices.ContainsFunc(paths, func(p string) bool {
		return !strings.HasSuffix(p, "/embeddings") && !strings.Contains(p, "mbedContent")
	})
	if vectors && t.Model != first.Model {
		k.warn(k.fieldOr(at, "model"), "is not that of tiers[0]: vectors of two models are not comparable, so that it never answers in its place", "write the same model at another provider, or remove the tier")
	}
}

func takesTranslated(pattern string) bool {
	g := compileGlob(pattern)
	return slices.ContainsFunc(translatedPaths, g.match)
}

// classesOfCost have an order, as package fallback has it.
var classesOfCost = []string{"low", "medium", "high"}

func (k *checker) dearer(at, first, own string) {
	if first == "" || own == "" || first == own {
		return
	}
	a, b := slices.Index(classesOfCost, first), slices.Index(classesOfCost, own)
	const remedy = "write low, medium or high in the order of what they cost, or fallback: {require_cost_cap: false}"
	switch {
	case a < 0 || b < 0:
		k.warn(k.fieldOr(at, "cost_class"), fmt.Sprintf("which of %s and %s is the dearer one is not known, so that it never answers in the place of tiers[0]", own, first), remedy)
	case b > a:
		k.warn(k.fieldOr(at, "cost_class"), fmt.Sprintf("is %s, and that of tiers[0] %s: a dearer tier never answers in its place", own, first), remedy)
	}
}

// orInEnvironment names the variable that the key of a provider comes in where none is written.
func (k *checker) orInEnvironment(provider string) string {
	if k.c.Written("providers") || defaultBase(provider) == "" {
		return ""
	}
	return ", or set " + strings.ToUpper(provider) + "_API_KEY and leave providers out"
}
