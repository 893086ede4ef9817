package gateway_test

import (
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/gateway"
)

// A body of more than limits.json_depth levels is refused before anything is made of it (semantics 45).
func TestJSONDepth(t *testing.T) {
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, "env: test", "env: test\nlimits: {json_depth: 8}", 1)
	})
	deep := func(n int) string { return `,"x":` + strings.Repeat("[", n) + `"{[\"{["` + strings.Repeat("]", n) }
	r.must(chat("deep", deep(7)), 200)
	r.must(chat("deep", `,"x":"`+strings.Repeat(`{[\"`, 100)+`"`), 200)
	r.must(chat("deep", strings.Repeat(`,"x":[{}]`, 100)), 200)
	for _, body := range []string{deep(8), deep(100_000), `,"x":` + strings.Repeat("[", 100_000)} {
		if a := r.must(chat("deep", body), 400); a.code() != string(gateway.CodeInvalidRequest) || !strings.Contains(string(a.body), "json_depth") {
			t.Errorf("%v %s", a.header, a.body)
		}
	}
	r.calls("deep", 3)
	r.must(request{path: "/v1/files", body: strings.Repeat("{", 100)}.with("Content-Type", "application/octet-stream").key("k"), 400)
	r.must(request{path: "/v1/files", body: "op=file " + strings.Repeat("{", 100)}.key("k"), 200)
}
