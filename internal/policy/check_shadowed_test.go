package policy

import (
	"slices"
	"strings"
	"testing"
)

// A workflow behind one without match gets no call but those that name it, and check says so; of globs it judges nothing.
func TestWorkflowsThatNoCallReaches(t *testing.T) {
	for workflows, want := range map[string][]string{
		`{all: {}, images: {match: {paths: ["/v1/images/*"]}}}`:                                  {"workflows.images.match"},
		`{all: {}, images: {match: {paths: ["/v1/images/*"]}}, eu: {match: {models: ["eu-*"]}}}`: {"workflows.images.match", "workflows.eu.match"},
		`{images: {match: {paths: ["/v1/images/*"]}}, all: {}}`:                                  nil,
		`{all: {match: {}}, team: {match: {headers: {X-Team: a}}}}`:                              {"workflows.team.match"},
		`{all: {}, named: {}}`:                             nil,
		`{named: {}, default: {retry: {max_attempts: 1}}}`: nil,
		`{named: {match: {paths: ["/by-name-only"]}}, default: {retry: {max_attempts: 1}}}`: nil,
		`{default: {}, images: {match: {paths: ["/v1/images/*"]}}}`:                         nil,
		`{wide: {match: {paths: ["*"]}}, images: {match: {paths: ["/v1/images/*"]}}}`:       nil,
	} {
		_, faults := Parse("x.yaml", []byte("workflows: "+workflows), noEnv)
		var found []string
		for _, f := range faults {
			if strings.Contains(f.What, "takes every call that names no workflow") {
				found = append(found, f.Path)
				if f.Severity != Warning || f.Pos.Line == 0 {
					t.Errorf("%s: %v", workflows, f)
				}
			}
		}
		if !slices.Equal(found, want) {
			t.Errorf("%s: %q, want %q", workflows, found, want)
		}
	}
}
