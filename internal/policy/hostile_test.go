package policy

import (
	"strings"
	"testing"
)

// hostileSize is enough for every bound below that of the file itself.
const hostileSize = 128 << 10

// hostile are files of shapes that make a naive parser slow, deep or large.
func hostile() map[string]string {
	fill := func(unit string) string { return strings.Repeat(unit, hostileSize/len(unit)) }
	stairs := func() string {
		var b strings.Builder
		for i := 0; b.Len()+i+3 < hostileSize; i++ {
			b.WriteString(strings.Repeat(" ", i) + "a:\n")
		}
		return b.String()
	}
	return map[string]string{
		"brackets":      fill("["),
		"braces":        fill("{a: "),
		"closed":        strings.Repeat("[", hostileSize/2) + strings.Repeat("]", hostileSize/2),
		"hyphens":       fill("- "),
		"questions":     fill("? "),
		"anchors":       fill("&a "),
		"aliases":       "a: &a 1\nb: [" + strings.Repeat("*a, ", hostileSize/4-10) + "]",
		"tags":          fill("!a "),
		"colons":        fill("a: "),
		"stairs":        stairs(),
		"hyphen stairs": fill("- \n"),
		"one word":      fill("x"),
		"words":         fill("x "),
		"quotes":        fill("\""),
		"single quotes": fill("'a' "),
		"escapes":       "\"" + fill("\\x41")[:hostileSize-4] + "\"",
		"comments":      fill("#\n"),
		"newlines":      fill("\n"),
		"documents":     fill("---\n"),
		"literal":       "a: |\n" + fill(" x\n")[:hostileSize-6],
		"folded":        "a: >\n" + fill(" x\n\n")[:hostileSize-6],
		"plain lines":   "a: x\n" + fill("  x\n")[:hostileSize-8],
		"keys":          fill("a: 1\n"),
		"commas":        "[" + fill("a,")[:hostileSize-4] + "]",
		"merges":        "x: &x {a: 1}\ny:\n" + fill("  <<: *x\n")[:hostileSize-40],
		"big":           strings.Repeat("#", maxFile+1),
		"percent":       fill("%YAML 1.2\n"),
		"references":    "env: \"" + fill("${A}")[:hostileSize-10] + "\"",
		"stars":         "workflows: {a: {match: {models: [\"" + fill("*a")[:hostileSize-60] + "\"]}}}",
	}
}

// TestHostile only has to end, without a config and with a bounded report.
func TestHostile(t *testing.T) {
	for name, text := range hostile() {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			_, faults := Parse("hostile.yaml", []byte(text), fullEnv)
			if len(faults) > maxFaults {
				t.Errorf("%d faults", len(faults))
			}
			if n := len(lines(faults)); n > 1<<18 {
				t.Errorf("the report has %d bytes", n)
			}
		})
	}
}
