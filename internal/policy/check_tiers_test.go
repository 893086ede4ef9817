package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Tiers that can never answer in the place of the first, or of which nobody has said that they may, are warned of.
func TestTiersThatNeverAnswer(t *testing.T) {
	for _, c := range []struct{ workflow, path, words string }{
		{`tiers: [{name: a, quality_class: x, data_boundary: eu}, {name: b, quality_class: x, data_boundary: eu}]`, "", ""},
		{`tiers: [{name: a}, {name: b}]`, "", ""},
		{`tiers: [{name: a, data_boundary: eu}]`, "", ""},
		{`tiers: [{name: a, data_boundary: eu}, {name: b, data_boundary: us}]`, "tiers[1].data_boundary", "data may not go there"},
		{`tiers: [{name: a, data_boundary: eu}, {name: b}]`, "tiers[1]", "whether data may go there is not known"},
		{`tiers: [{name: a}, {name: b, data_boundary: eu}]`, "tiers[1].data_boundary", "whether data may go there is not known"},
		{`{tiers: [{name: a, data_boundary: eu}, {name: b}], fallback: {require_data_boundary_match: false}}`, "", ""},
		{`tiers: [{name: a, safety_class: x}, {name: b, safety_class: x}]`, "", ""},
		{`tiers: [{name: a, safety_class: x}, {name: b, safety_class: y}]`, "tiers[1].safety_class", "unsafe content is treated otherwise"},
		{`tiers: [{name: a, safety_class: x}, {name: b}]`, "tiers[1]", "whether unsafe content is treated alike"},
		{`tiers: [{name: a}, {name: b, safety_class: y}]`, "tiers[1].safety_class", "whether unsafe content is treated alike"},
		{`{tiers: [{name: a, safety_class: x}, {name: b, safety_class: y}], fallback: {require_safety_match: false}}`, "", ""},
		{`tiers: [{name: a, observability: x}, {name: b, observability: x}]`, "", ""},
		{`tiers: [{name: a, observability: x}, {name: b, observability: y}]`, "tiers[1].observability", "something else is logged and kept"},
		{`tiers: [{name: a, observability: x}, {name: b}]`, "tiers[1]", "whether the same is logged and kept"},
		{`tiers: [{name: a}, {name: b, observability: y}]`, "tiers[1].observability", "whether the same is logged and kept"},
		{`{tiers: [{name: a, observability: x}, {name: b, observability: y}], fallback: {require_observability_match: false}}`, "", ""},
		{`tiers: [{name: a, quality_class: x}, {name: b, quality_class: y}]`, "tiers[1].quality_class", "nobody has approved"},
		{`{tiers: [{name: a, quality_class: x}, {name: b, quality_class: y}], fallback: {contract: {id: C-1}}}`, "", ""},
		{`{tiers: [{name: a}, {name: b}], fallback: {allowed_before_first_token: false}}`, "tiers[1]", "never answers"},
	} {
		workflow := c.workflow
		if !strings.HasPrefix(workflow, "{") {
			workflow = "{" + workflow + "}"
		}
		_, faults := Parse("x.yaml", []byte("workflows: {w: "+workflow+"}"), noEnv)
		found := ""
		for _, f := range faults {
			if strings.Contains(f.What, "answer") && !strings.Contains(f.What, "not yet acted on") {
				found += f.Path + ": " + f.What
			}
		}
		if want := "workflows.w." + c.path; (c.words == "") != (found == "") || found != "" && (!strings.HasPrefix(found, want+": ") || !strings.Contains(found, c.words)) {
			t.Errorf("%s: %q, want %s at %s", c.workflow, found, c.words, want)
		}
	}
}

// What can never be asked, or found, is warned of with what to write; what is in order is not.
func TestNeverReached(t *testing.T) {
	const providers = `providers: {openai: {api_key: "of-no-meaning-at-all"}, anthropic: {api_key: "of-no-meaning-at-all"}, gemini: {api_key: "of-no-meaning-at-all"},
  local: {type: openai, base_url: "http://127.0.0.1:9", api_key: "of-no-meaning-at-all"}, bare: {type: openai, base_url: "https://example.com/v1"}}
`
	const timed = `timeouts: {first_token: 5s, attempt: 10s, total: 30s, request: 40s}, `
	const tiers = timed + `tiers: [{name: a, provider: openai, model: gpt-5`
	for _, c := range []struct{ top, workflow, path, words string }{
		{"", tiers + `}, {name: b, provider: anthropic, model: claude-sonnet-4-5}]`, "", ""},
		{"", tiers + `}, {name: b, provider: local, model: "llama3.2:3b"}]`, "workflows.w.tiers[1].model", `write models: {"llama3.2:3b": {context_tokens:`},
		{`models: {"llama3.2": {context_tokens: 8192}}`, tiers + `}, {name: b, provider: local, model: llama3.2}]`, "", ""},
		{"", tiers + `}, {name: b, provider: anthropic}]`, "workflows.w.tiers[1]", "has no model"},
		{"", tiers + `, cost_class: low}, {name: b, provider: openai, model: gpt-5-mini, cost_class: high}]`, "workflows.w.tiers[1].cost_class", "a dearer tier never answers"},
		{"", tiers + `, cost_class: high}, {name: b, provider: openai, model: gpt-5-mini, cost_class: low}]`, "", ""},
		{"", tiers + `, cost_class: cheapest}, {name: b, provider: openai, model: gpt-5-mini, cost_class: pricey}]`, "workflows.w.tiers[1].cost_class", "is not known"},
		{"", tiers + `, cost_class: cheapest}, {name: b, provider: openai, model: gpt-5-mini, cost_class: pricey}], fallback: {require_cost_cap: false}`, "", ""},
		{"", `match: {paths: ["/v1/responses"]}, ` + tiers + `}, {name: b, provider: gemini, model: gemini-2.5-pro}]`, "workflows.w.tiers[1].provider", "told to no other API"},
		{"", `match: {paths: ["/v1/*"]}, ` + tiers + `}, {name: b, provider: gemini, model: gemini-2.5-pro}]`, "", ""},
		{"", `match: {paths: ["/v1/responses"]}, ` + tiers + `}, {name: b, provider: openai, model: gpt-5-mini}]`, "", ""},
		{"", `match: {paths: ["/v1/embeddings"]}, ` + timed + `tiers: [{name: a, provider: openai, model: gpt-5}, {name: b, provider: local, model: gpt-5-mini}]`,
			"workflows.w.tiers[1].model", "not comparable"},
		{"", tiers + `}, {name: b, provider: openai, model: gpt-5-mini}], fallback: {on: []}`, "workflows.w.fallback.on", "is empty"},
		{"", `fallback: {on: [server_error]}`, "workflows.w.fallback", "no other tier"},
		{"", `approval: fallback`, "workflows.w.approval", "there is none"},
		{"", `tiers: [{name: a, provider: openai, model: gpt-5}, {name: b, provider: openai, model: gpt-5-mini}]`, "workflows.w.tiers", "write timeouts: {first_token: 4m55s, attempt: 4m55s}"},
		{"", `tiers: [{name: a, provider: openai, model: gpt-5, timeouts: {attempt: 1m, first_token: 1m}}, {name: b, provider: openai, model: gpt-5-mini}]`, "", ""},
		{"", `mode: observe, cache: {default: "later"}`, "workflows.w.cache", "only observes"},
		{"", `cache: {sampled: true, default: "later"}`, "workflows.w.cache.sampled", "without first"},
		{"", `cache: {default: ""}`, "workflows.w.cache.default", "no fixed text"},
		{"embedders: {main: {provider: bare, model: m}}", ``, "embedders.main", "has no api_key"},
		{"embedders: {main: {provider: openai, model: m}}", ``, "", ""},
		{"embedders: {main: {type: ngrams}}", ``, "embedders.main.type", "did you mean ngram?"},
		{"", `cache: {semantic: {embedder: main}}`, "workflows.w.cache.semantic.embedder", "add embedders: {main: "},
		{"", `cache: {semantic: {threshold: 2}}`, "workflows.w.cache.semantic.threshold", "e.g. 0.95"},
	} {
		_, faults := Parse("x.yaml", []byte(providers+c.top+"\nworkflows: {w: {"+c.workflow+"}}"), noEnv)
		var found []string
		for _, f := range faults {
			if !strings.Contains(f.What, "not yet acted on") && !strings.Contains(f.What, "plain text") && f.Path != "workflows.w.cache.semantic" {
				found = append(found, f.Path+": "+f.What+"; "+f.Remedy)
			}
		}
		if c.path == "" && len(found) > 0 || c.path != "" && (len(found) != 1 || !strings.HasPrefix(found[0], c.path+": ") || !strings.Contains(found[0], c.words)) {
			t.Errorf("%s %s:\n%s\nwant %q at %s", c.top, c.workflow, strings.Join(found, "\n"), c.words, c.path)
		}
	}
}

// A model of one's own that is not there is told by check, as serve does not start without it.
func TestModelFiles(t *testing.T) {
	dir := t.TempDir()
	c, faults := Parse("x.yaml", []byte(`embedders: {own: {type: model2vec, path: "`+dir+`"}}`), noEnv)
	if c == nil {
		t.Fatal(faults)
	}
	for _, name := range []string{"tokenizer.json", "model.safetensors", ""} {
		faults := c.CheckFiles(os.Stat)
		if name == "" {
			if len(faults) > 0 {
				t.Errorf("all are there: %v", faults)
			}
			break
		}
		if len(faults) != 1 || faults[0].Path != "embedders.own.path" || faults[0].Severity != Error || !strings.Contains(faults[0].What, name) {
			t.Errorf("without %s: %v", name, faults)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A tier that calls with a credential of their own cannot go to is warned of.
func TestTiersWithoutAKey(t *testing.T) {
	const tiers = `workflows: {w: {tiers: [{name: a, provider: openai}, {name: b, provider: local}]}}`
	for text, want := range map[string]int{
		`{providers: {openai: {}, local: {type: openai, base_url: "http://127.0.0.1:9"}}, ` + tiers + `}`:                                         1,
		`{providers: {openai: {}, local: {type: openai, base_url: "http://127.0.0.1:9", api_key: "of-no-meaning-at-all"}}, ` + tiers + `}`:        0,
		`{providers: {openai: {}, local: {type: openai, base_url: "http://127.0.0.1:9"}}, auth: {keys: ["0123456789abcdef0123"]}, ` + tiers + `}`: 0,
	} {
		_, faults := Parse("x.yaml", []byte(text), noEnv)
		if got := strings.Count(lines(faults), "skips this tier"); got != want {
			t.Errorf("%s: warned %d times, want %d\n%s", text, got, want, lines(faults))
		}
	}
}
