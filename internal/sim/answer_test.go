package sim

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// TestSample makes what a schema asks for, and little of what asks for too much.
func TestSample(t *testing.T) {
	nested := strings.Repeat(`{"type":"array","minItems":100,"items":`, 20) + `{"type":"string"}` + strings.Repeat(`}`, 20)
	for schema, want := range map[string]string{
		weatherSchema:                        `{"city":"sample 7","days":2}`,
		`{"type":"STRING","enum":["A","B"]}`: `"A"`,
		`{"type":["null","string"]}`:         `null`,
		`{"anyOf":[{"type":"boolean"}]}`:     `true`,
		`{"type":"array"}`:                   `[]`,
		`{"type":"number","maximum":-2}`:     `-2`,
		`{"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991}`: `1`,
		`{"const":{"a":1}}`:                 `{"a":1}`,
		`{"type":"string","format":"date"}`: `"2026-01-15"`,
		``:                                  `{}`,
		`{"$ref":"#"}`:                      `{}`,
		`{"type":"object","properties":{"x":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"array","minItems":2,"items":{"type":"integer"}}}}`: `{"x":[1,1]}`,
		`{"type":"object","properties":{"a.b":{"type":"boolean"}}}`:                                                                        `{"a.b":true}`,
	} {
		if diff := cmp.Diff(want, string(sample(gjson.Parse(schema), 7))); diff != "" {
			t.Errorf("%s: %s", schema, diff)
		}
	}
	for _, hostile := range []string{nested, `{"type":"object","properties":{"self":{"$ref":"#/properties/self"}}}`} {
		if got := sample(gjson.Parse(hostile), 7); len(got) > 1<<20 || !json.Valid(got) {
			t.Errorf("%.60s: %d bytes", hostile, len(got))
		}
	}
}

// TestSplit loses nothing, cuts no character, and makes as many pieces as asked where there are enough.
func TestSplit(t *testing.T) {
	for _, s := range []string{"", "a", "hello world", "héllo wörld ✓✓", strings.Repeat("✓", 9), "\xff\xfe\xfd\xfc"} {
		for _, n := range []int{0, 1, 2, 5, 100} {
			pieces := split(s, n)
			if strings.Join(pieces, "") != s || len(pieces) > max(1, n) {
				t.Errorf("split(%q, %d) = %q", s, n, pieces)
			}
			for _, p := range pieces {
				if p == "" || strings.ToValidUTF8(s, "") == s && strings.ToValidUTF8(p, "") != p {
					t.Errorf("split(%q, %d) = %q", s, n, pieces)
				}
			}
		}
	}
	if n := len(split(strings.Repeat("x", 100), 7)); n != 7 {
		t.Errorf("%d pieces, want 7", n)
	}
}

// TestPad fills to the byte, and no two places look alike.
func TestPad(t *testing.T) {
	text := pad("start", 1<<20)
	if len(text) != 1<<20 || !strings.HasPrefix(text, "start") || strings.Count(text, " w500 ") > 1 {
		t.Errorf("%d bytes: %.40q", len(text), text)
	}
}

// TestAppendString quotes as encoding/json does without its HTML escapes.
func TestAppendString(t *testing.T) {
	for _, s := range []string{"", "plain", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "<a&b>", "✓ \u2028", "\xff"} {
		var back string
		if err := json.Unmarshal(appendString(nil, s), &back); err != nil || back != strings.ToValidUTF8(s, "\ufffd") {
			t.Errorf("%q: %q, %v", s, back, err)
		}
	}
	if got := string(appendString(nil, "<a&b>")); got != `"<a&b>"` {
		t.Error(got)
	}
}

// TestStoreIsBounded by number and by bytes; a replay's answer does not count twice.
func TestStoreIsBounded(t *testing.T) {
	s := newStore()
	big := &answer{q: &request{body: make([]byte, maxStoredBytes/4)}}
	for _, id := range []string{"a", "b", "b", "c", "d", "e"} {
		s.put(id, big)
	}
	held := ""
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		if s.with(id, func(*kept) {}) {
			held += id
		}
	}
	if held != "bcde" || s.bytes > maxStoredBytes {
		t.Errorf("%s are held, %d bytes", held, s.bytes)
	}
	if !s.delete("e") || s.delete("e") {
		t.Error("delete")
	}
}
