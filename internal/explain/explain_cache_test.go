package explain_test

import (
	"slices"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/policy"
)

const caching = `providers: {openai: {}}
workflows:
  copy:
    cache: {template: [{name: charm, pattern: "Why buy {product}?"}], semantic: {ttl: 1h}, default: "We are busy."}
  closed:
    match: {paths: ["/by-name-only"]}
    fail_closed_when: [max_attempts_exhausted]
    cache: {default: "We are busy."}
  plain: {match: {paths: ["/by-name-only"]}}
`

// What may stand in an answer's place is said where a call finally fails, and nowhere else.
func TestStandIns(t *testing.T) {
	cfg, faults := policy.Parse("h.yaml", []byte(caching), noEnv)
	if cfg == nil {
		t.Fatal(faults)
	}
	all := []string{"template charm", "semantic", "default"}
	for name, c := range map[string]struct {
		workflow string
		status   int
		attempt  int
		left     bool
		want     []string
	}{
		"failed": {"copy", 503, 3, false, all}, "goes on": {"copy", 503, 1, false, nil}, "the client's own": {"copy", 400, 1, false, nil},
		"left": {"copy", 503, 3, true, nil}, "no cache": {"plain", 503, 3, false, nil},
		"fails closed": {"closed", 503, 3, false, nil},
	} {
		q := answered(c.workflow, c.status)
		q.Request, q.Answer.Provider, q.Attempt, q.ClientLeft = `{"model":"gpt-5","messages":[]}`, "openai", c.attempt, c.left
		if got := ask(t, cfg, q).StandIns; !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
