package audit

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want error
	}{
		{Config{AllowWrites: true}, ErrNoServer},
		{Config{AllowWrites: true, Command: []string{"x"}, URL: "http://x"}, ErrNoServer},
		{Config{Command: []string{"x"}}, ErrNotAllowed},
		{Config{URL: "http://x"}, ErrNotAllowed},
	} {
		if _, err := Run(t.Context(), c.cfg); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.cfg, err, c.want)
		}
	}
}

func TestWords(t *testing.T) {
	for name, want := range map[string]string{
		"createTicket_id": "create ticket id", "list-all.things": "list all things", "HTTPServer2": "httpserver2", "": "", "__": "",
	} {
		if got := strings.Join(words(name), " "); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for w, want := range map[string]string{"tickets": "ticket", "entries": "entry", "boxes": "box", "status": "status", "address": "address", "ids": "ids"} {
		if got := singular(w); got != want && w != "ids" {
			t.Errorf("%q: %q, want %q", w, got, want)
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, p := range []string{`^[A-Z]{3}-\d{4}$`, `^(red|green)$`, `^\+?[0-9]{7,15}$`, `[^/]+`, `^[a-z0-9-]+$`, `^\w+@\w+\.com$`} {
		seen := map[string]bool{}
		for n := range 20 {
			s, ok := matching(p, n*7919)
			if !ok || !regexp.MustCompile(p).MatchString(s) {
				t.Fatalf("%s: %q", p, s)
			}
			seen[s] = true
		}
		if p != `^(red|green)$` && len(seen) < 10 {
			t.Errorf("%s: only %d different strings of 20", p, len(seen))
		}
	}
	if _, ok := matching(`(?=x)y`, 1); ok {
		t.Error("a pattern that Go cannot read was matched")
	}
}

func TestTimeIsNoDifference(t *testing.T) {
	for _, pair := range [][2]string{
		{"saved at 2026-01-02T03:04:05.678Z", "saved at 2026-01-02T03:05:06Z"},
		{"modified: Mon Nov 30 2026 03:00:00 GMT+0000 (Coordinated Universal Time)", "modified: Mon Nov 30 2026 03:00:01 GMT+0000 (Coordinated Universal Time)"},
		{"Mon, 02 Jan 2006 15:04:05 GMT", "Mon, 02 Jan 2006 15:04:06 GMT"},
	} {
		if timeless(pair[0]) != timeless(pair[1]) {
			t.Errorf("%q and %q", timeless(pair[0]), timeless(pair[1]))
		}
	}
	for _, s := range []string{"order 4711", "2026-01-02", "1234567890123", "v1.2.3"} {
		if timeless(s) != s {
			t.Errorf("%q became %q", s, timeless(s))
		}
	}
}

func TestDiff(t *testing.T) {
	for _, c := range []struct {
		name, a, b string
		want       []string
	}{
		{"equal", `{"a":[1,2]}`, `{"a":[2,1]}`, nil},
		{"field of a record", `[{"id":1,"s":"a"},{"id":2,"s":"a"}]`, `[{"id":2,"s":"b"},{"id":1,"s":"a"}]`, []string{"r [2].s: a became b"}},
		{"twice the same line", `["x"]`, `["x","x"]`, []string{`r ["x"]: added x`}},
		{"figure in a line", `["A-1: 50 EUR","B-2: 7 EUR"]`, `["A-1: 40 EUR","B-2: 7 EUR"]`, []string{"r [A-1: # EUR].#1: 50 became 40"}},
		{"null is a value", `{"a":1}`, `{"a":1,"b":null}`, []string{"r b: added null"}},
		{"big ids", `[{"id":9007199254740993}]`, `[{"id":9007199254740992}]`, []string{`r [9007199254740992]: added {"id":9007199254740992}`, `r [9007199254740993]: removed {"id":9007199254740993}`}},
	} {
		a, err := parseJSON([]byte(c.a))
		if err != nil {
			t.Fatal(err)
		}
		b, err := parseJSON([]byte(c.b))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range diff(place{source: "r"}, a, b) {
			got = append(got, d.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestGiven(t *testing.T) {
	got, err := ParseArgs([]byte(`{"a":{"x":"{unique}!"},"b":[{"n":1},{"n":2}]}`))
	if err != nil || len(got["a"]) != 1 || len(got["b"]) != 2 {
		t.Fatal(got, err)
	}
	r := recipe{given: got["a"]}
	if args, _ := r.build(&tool{}, newPool(), variant{mark: "m1"}); args["x"] != "m1!" || got["a"][0]["x"] != "{unique}!" {
		t.Error(args, got)
	}
	for _, bad := range []string{``, `[]`, `{"a":1}`, `{"a":[1]}`, `{"a":[]}`} {
		if _, err := ParseArgs([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestTraffic(t *testing.T) {
	got, err := ParseTraffic([]byte(`2026-01-01 --> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":1}}}
{"jsonrpc":"2.0","id":1,"result":{}}
{"dir":"in","message":{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a","arguments":{"x":1}}}}
[{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"b"}}]
not JSON
`))
	if err != nil || len(got["a"]) != 1 || len(got["b"]) != 1 {
		t.Error(got, err)
	}
	if _, err := ParseTraffic([]byte("{}\n")); err == nil {
		t.Error("traffic without a call was taken")
	}
}

func TestMarkdownIsNoMarkupOfTheServers(t *testing.T) {
	r := Report{Server: "<script>|`x`\x1b[2J", Tools: []ToolReport{{Name: "a`b|c", Verdict: DuplicateEffect, Says: "<b>",
		Findings: []Finding{{Probe: InSequence, Verdict: DuplicateEffect, Evidence: []string{"x\x07 | <i>"}}}}}}
	var b bytes.Buffer
	if err := r.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script>", "<b>", "<i>", "\x1b", "\x07"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("%q is in the page:\n%s", bad, b.String())
		}
	}
	if !r.Failed() || r.Summary() != "1 write tool, 1 duplicate effect" {
		t.Error(r.Summary())
	}
}

func FuzzSchema(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"required":["a"],"$defs":{"a":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/a"}]}}}`)
	f.Add(`{"type":"object","properties":{"a":{"type":"array","minItems":3,"items":{"type":"integer","minimum":5,"maximum":4}}},"required":["a"]}`)
	f.Add(`{"properties":{"s":{"pattern":"(a|b)*[^x]{3}","minLength":40,"maxLength":2},"e":{"enum":[]},"n":{"multipleOf":-1,"exclusiveMinimum":1e300}}}`)
	f.Fuzz(func(t *testing.T, raw string) {
		v, err := parseJSON([]byte(raw))
		if err != nil {
			return
		}
		tool := &tool{name: "create_thing", words: words("create_thing"), schema: newSchema(v)}
		p := newPool()
		for _, r := range p.recipes(tool) {
			args, _ := r.build(tool, p, variant{mark: "m", n: 3, turn: 2})
			_ = text(args)
		}
	})
}
