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
