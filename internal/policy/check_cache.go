package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ai/holdfast/cache"
)

// The useful range of a similarity (interface.md §5). Vectors are kept in bytes, so that a text may be 0.9995 to itself.
const lowSimilarity, highest = 0.9, 0.999

func (k *checker) embedders() {
	for i := range k.c.Embedders {
		e := &k.c.Embedders[i]
		path := join("embedders", e.Name)
		if k.wrong(path + ".type") {
			continue // of which type it is, nothing can be said
		}
		switch e.Type {
		case "provider":
			if e.Provider == "" || e.Model == "" {
				k.fail(path, "has no provider or no model", "write {provider: openai, model: text-embedding-3-small}, or type: ngram")
			}
			if p := k.c.Provider(e.Provider); p != nil && p.Type == "anthropic" {
				k.fail(path+".provider", quote(e.Provider)+" is of type anthropic, which has no embeddings", "name one of type openai or gemini, or write type: ngram")
			}
		case "model2vec":
			if e.Path == "" {
				k.fail(path, "has no path", "write path: FOLDER of the model")
			}
		}
		if e.Type != "provider" && (e.Provider != "" || e.Model != "") {
			k.fail(path, "is of type "+e.Type+" and names a provider or a model, which it does not ask", "remove them, or remove type")
		}
		if e.Type != "model2vec" && e.Path != "" {
			k.fail(path+".path", "is read for type: model2vec only", "write type: model2vec, or remove it")
		}
		k.providerName(path+".provider", e.Provider)
		if e.Type == "provider" && e.Path == "" {
			k.proves(path, e)
		}
	}
}

// proves warns of an embedder that is asked without a credential: a client's own goes to the provider of its path alone.
func (k *checker) proves(path string, e *Embedder) {
	p := k.c.Provider(e.Provider)
	if k.c.partial || p == nil || p.Type == TypeAnthropic || e.Model == "" || !strings.HasPrefix(p.BaseURL, "https://") || !p.APIKey.IsZero() || len(p.Headers) > 0 || k.c.Written("providers."+e.Provider+".api_key") {
		return
	}
	k.warn(path, e.Provider+" has no api_key: a text is sent to it without a credential, and where that is refused nothing is found",
		fmt.Sprintf("write providers.%s.api_key%s, or type: ngram", e.Provider, k.orInEnvironment(e.Provider)))
}

func (k *checker) cache(path string, w *Workflow) {
	if at := path; w.Mode == Observe && k.c.Written(at) && !k.c.isDefault(segments(at)) {
		k.warn(at, "is never used: the workflow only observes", "write mode: enforce, or remove it")
	}
	if w.Cache.Sampled && !w.Cache.First {
		k.warn(path+".sampled", "says nothing without first: as the last resort every request is looked up", "write first: true, or remove it")
	}
	if k.c.Written(path+".default") && w.Cache.Default == "" {
		k.warn(path+".default", "is empty: there is no fixed text", "write a sentence for people, or remove it")
	}
	if w.Cache.Semantic != nil {
		k.semantic(path+".semantic", w.Cache.Semantic)
	}
	k.templates(path+".template", w.Cache.Template)
	if w.Cache.First && w.Cache.Semantic == nil && len(w.Cache.Template) == 0 {
		k.warn(path+".first", "there is nothing to look into", "add semantic or template, or remove first")
	}
	if w.Cache.Default != "" && strings.TrimSpace(w.Cache.Default) == "" {
		k.fail(path+".default", "is white space: clients would show an empty answer", "write a sentence for people, or remove it")
	}
}

func (k *checker) semantic(path string, s *Semantic) {
	names := make([]string, 0, len(k.c.Embedders))
	for _, e := range k.c.Embedders {
		names = append(names, e.Name)
	}
	switch {
	case k.c.partial:
	case s.Embedder == "" && len(names) > 1:
		k.fail(path, "does not say which embedder", suggest("", names))
	case s.Embedder == "":
		k.warn(path, "has no embedder", "add embedders: {main: {provider: openai, model: text-embedding-3-small}}; until then near-duplicates only are found")
	case len(names) == 0:
		k.fail(path+".embedder", quote(s.Embedder)+" is not in embedders, of which there are none",
			fmt.Sprintf("add embedders: {%s: {provider: openai, model: text-embedding-3-small}}, or {%s: {type: ngram}}", s.Embedder, s.Embedder))
	case !slices.Contains(names, s.Embedder):
		k.fail(path+".embedder", quote(s.Embedder)+" is not in embedders", suggest(s.Embedder, names))
	}
	if s.Threshold < lowSimilarity || s.Threshold > highest {
		k.warn(path+".threshold", fmt.Sprintf("%g is outside the useful range", s.Threshold),
			"write 0.9 to 0.999: below, texts of other meaning pass and only their words tell them apart; above, nothing is found")
	}
}

// someValue stands for any value: no pattern holds it as a text of its own.
const someValue = "\uE000"

// templates finds those that are never used: the first that a text matches is its template.
func (k *checker) templates(path string, templates []CachePrompt) {
	var before []*cache.Pattern
	names := map[string]bool{}
	for i := range templates {
		t := &templates[i]
		at := item(path, i)
		if names[t.Name] {
			k.fail(at+".name", quote(t.Name)+" names two templates, whose answers would be taken for each other's", "give each a name of its own")
		}
		names[t.Name] = true
		p, err := cache.ParsePattern(t.Name, t.Pattern)
		if err != nil {
			continue // reported where it is decoded
		}
		for _, earlier := range before {
			if _, ok := earlier.Match(strings.ReplaceAll(p.Skeleton(), "{}", someValue)); ok {
				k.fail(at+".pattern", quote(t.Pattern)+" is never used: what it matches is a text of template "+quote(earlier.Name)+" already",
					"put it before that one, or remove it")
				break
			}
		}
		before = append(before, p)
	}
}
