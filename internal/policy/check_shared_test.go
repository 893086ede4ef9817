package policy

import (
	"strings"
	"testing"
)

// What an address of shared state may say.
func TestSharedState(t *testing.T) {
	for text, says := range map[string]string{
		`{url: "http://h"}`:                            "shared_state.url",
		`{url: "redis://h/0?pool=3"}`:                  `the parameter "pool" is not known`,
		`{url: "redis://h/zero"}`:                      "is no database of Redis",
		`{url: "postgres://u@h/db?work_mem=1"}`:        `the parameter "work_mem" is not known`,
		`{url: "redis://h/0", timeout: 3s}`:            "may wait 3s",
		`{url: "postgres://u@h/db?sslmode=verify-ca"}`: "",
		`{url: "valkeys://h/1"}`:                       "",
	} {
		_, faults := Parse("a.yaml", []byte("shared_state: "+text+"\n"), func(string) (string, bool) { return "", false })
		var all []string
		for _, f := range faults {
			if strings.HasPrefix(f.Path, "shared_state") {
				all = append(all, f.String())
			}
		}
		if got := strings.Join(all, "; "); says == "" && got != "" || !strings.Contains(got, says) || says != "" && !strings.Contains(got, "a.yaml:1:") {
			t.Errorf("%s: %q, want %q", text, got, says)
		}
	}
}
