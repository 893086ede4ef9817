package policy

import (
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
