package policy

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestOverride(t *testing.T) {
	c := Default(fullEnv)
	before := c.Revision
	faults := c.Override(Overrides{Env: "test", Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Store: "sqlite:x.db", Upstreams: []string{"openai=http://127.0.0.1:9/v1"}})
	if Unservable(faults) {
		t.Fatalf("%s", lines(faults))
	}
	if c.Env != "test" || c.Listen != "127.0.0.1:0" || c.Store[0].Path() != "x.db" || c.Provider("openai").BaseURL != "http://127.0.0.1:9/v1" || c.Revision == before {
		t.Errorf("%+v", c)
	}
	for _, o := range []Overrides{
		{Listen: "0.0.0.0:80"}, {Listen: "nonsense"}, {Env: "A b"}, {Store: "mysql://x"}, {Upstreams: []string{"openai"}},
		{Upstreams: []string{"nobody=http://127.0.0.1:1"}}, {Upstreams: []string{"openai=ftp://x"}},
	} {
		if faults := Default(noEnv).Override(o); !Unservable(faults) {
			t.Errorf("%+v: %s", o, lines(faults))
		}
	}
}

// A plain file name is a store, as for the commands that only read it; what may hold a password is none.
func TestStoreIsAPlainFile(t *testing.T) {
	for text, want := range map[string]string{"shop.db": "sqlite:shop.db", "/var/lib/shop.db": "sqlite:/var/lib/shop.db", `C:\shop.db`: `sqlite:C:\shop.db`,
		"sqlite:shop.db": "sqlite:shop.db", "host=db password=x": "", "u:x@db": "", ":memory:": "", "file:shop.db": "", "shop.db?mode=ro": "", "mysql:x": ""} {
		c, faults := Parse("x.yaml", []byte("store: '"+text+"'"), noEnv)
		over := Default(noEnv)
		flag := over.Override(Overrides{Store: text})
		if want == "" {
			if !Refused(faults) || !Unservable(flag) {
				t.Errorf("%s: %s %s", text, lines(faults), lines(flag))
			}
			continue
		}
		if Unservable(faults) || c.Store[0].Reveal() != want || Unservable(flag) || over.Store[0].Reveal() != want {
			t.Errorf("%s: %s %s", text, lines(faults), lines(flag))
		}
	}
}

// TestOverrideKeepsWhatLoadFound: a flag must not make serve forget that a key is missing.
func TestOverrideKeepsWhatLoadFound(t *testing.T) {
	const text = `
listen: ${ADDR}
providers: {openai: {api_key: "${KEY}", base_url: "${BASE}"}}
`
	c, _ := Parse("x.yaml", []byte(text), noEnv)
	faults := c.Override(Overrides{Listen: "127.0.0.1:0", Upstreams: []string{"openai=http://127.0.0.1:9/v1"}})
	if got := lines(faults); len(faults) != 1 || faults[0].Path != "providers.openai.api_key" || !Unservable(faults) {
		t.Errorf("%s", got)
	}
}

func TestMissingIsForServe(t *testing.T) {
	_, faults := Parse("x.yaml", []byte(`providers: {openai: {api_key: "${KEY}"}}`), noEnv)
	if Refused(faults) || !Unservable(faults) {
		t.Errorf("%s", lines(faults))
	}
}

func TestConditions(t *testing.T) {
	c := parse(t, `workflows: {a: {succeeded: [201, "status == 200 && body.ok"], failed: "body.items[0].state == 'bad'", definite: 500}}`)
	w := c.Workflow("a")
	ok := map[string]any{"ok": true}
	for _, tt := range []struct {
		c      Conditions
		a      Answer
		want   bool
		failed bool
	}{
		{w.Succeeded, Answer{Status: 201}, true, false},
		{w.Succeeded, Answer{Status: 200, Body: ok}, true, false},
		{w.Succeeded, Answer{Status: 202, Body: ok}, false, false},
		{w.Succeeded, Answer{Status: 200}, false, true},
		{w.Succeeded, Answer{Status: 200, Body: map[string]any{"ok": "text"}}, false, true},
		{w.Failed, Answer{Body: map[string]any{"items": []any{map[string]any{"state": "bad"}}}}, true, false},
		{w.Failed, Answer{Body: map[string]any{"items": []any{}}}, false, true},
		{w.Definite, Answer{Status: 500}, true, false},
		{Conditions{}, Answer{Status: 500}, false, false},
	} {
		got, err := tt.c.Match(tt.a)
		if got != tt.want || (err != nil) != tt.failed {
			t.Errorf("%+v on %+v: %v, %v", tt.c, tt.a, got, err)
		}
	}
}

func TestLadder(t *testing.T) {
	c := parse(t, "workflows: {chat: {timeouts: {first_token: 10s, idle: 60s, attempt: 20s, total: 25s, request: 30s}}}")
	want := "chat: attempt 20s ≤ total 25s < request 30s < client SDK (set 33s) < balancer (set 35s); streams: first token 10s, idle 1m, stream 1h"
	if got := c.Workflow("chat").Ladder(); got != want {
		t.Errorf("%s", got)
	}
}

// TestTimeoutsNest: whatever part is written, the parts left out never break the nest by themselves.
func TestTimeoutsNest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w Timeouts
		written := map[string]bool{}
		for name, at := range map[string]*time.Duration{"first_token": &w.FirstToken, "attempt": &w.Attempt, "total": &w.Total, "request": &w.Request} {
			if rapid.Bool().Draw(t, name) {
				*at, written[name] = time.Duration(rapid.Int64Range(1000, 1e13).Draw(t, name+" value")), true
			}
		}
		possible := orderedWhereWritten(w, written)
		w.resolve(func(f string) bool { return written[f] })
		nested := w.FirstToken <= w.Attempt && w.Attempt <= w.Total && w.Total < w.Request && w.FirstToken > 0
		if possible && !nested {
			t.Fatalf("written %v: %+v", written, w)
		}
		if !possible && nested {
			t.Fatalf("what was written was changed: %v, %+v", written, w)
		}
	})
}

func orderedWhereWritten(w Timeouts, written map[string]bool) bool {
	last := time.Duration(0)
	for _, b := range []struct {
		name string
		d    time.Duration
	}{{"first_token", w.FirstToken}, {"attempt", w.Attempt}, {"total", w.Total}} {
		if written[b.name] {
			if b.d < last {
				return false
			}
			last = b.d
		}
	}
	return !written["request"] || last < w.Request
}

func TestSQLIsRead(t *testing.T) {
	for sql, reads := range map[string]bool{
		"SELECT 1": true, "select n from t where ref = $1;": true, "WITH x AS (SELECT 1) SELECT * FROM x": true,
		"SELECT 'DELETE FROM t; --' AS \"update\"": true, "SELECT updated_at /* insert */ FROM t -- delete": true,
		"DELETE FROM t": false, "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x": false, "SELECT 1; DROP TABLE t": false,
		"SELECT * INTO new FROM t": false, "SELECT * FROM t FOR UPDATE": false, "SELECT nextval('s')": false, "SELECT $$a$$": true, "SELECT $t$ DELETE; $3 $t$": true, "SELECT $t$ DELETE $u$": false,
		"SELECT $$a$$; DELETE FROM t": false, "SELECT 1 /* /* */ DELETE */": true, "SELECT 1 /* /* */": false, `SELECT E'\'; DELETE'`: true, `SELECT '\'; DELETE FROM t`: false,
		"SELECT a$$b$$ FROM t": true, "SELECT a$$ DELETE FROM t $$": false,
		"SELECT 'open": false, "": false, "EXPLAIN ANALYZE DELETE FROM t": false, "SELECT pg_sleep(100)": false, "SELECT dblink_exec('x')": false,
	} {
		if why := writesSQL(sql, true); (why == "") != reads {
			t.Errorf("%q: %q", sql, why)
		}
	}
}

func TestScalars(t *testing.T) {
	for text, want := range map[string]time.Duration{"300ms": 300 * time.Millisecond, "1h30m": 90 * time.Minute, "30d": 720 * time.Hour, "0": 0, "1.5s": 1500 * time.Millisecond} {
		got, what, _ := parseDuration(text)
		if got != want || what != "" {
			t.Errorf("%s: %v %s", text, got, what)
		}
		if again, what, _ := parseDuration(Span(got)); again != got || what != "" {
			t.Errorf("%s prints as %s", text, Span(got))
		}
	}
	for _, text := range []string{"30", "-1s", "1 s", "1w", "s", "1e3s", "010", "99999999999999999999h", "1s ", "٣s", ""} {
		if _, what, remedy := parseDuration(text); what == "" || remedy == "" {
			t.Errorf("%q is a duration", text)
		}
	}
	for text, want := range map[string]int64{"64MiB": 64 << 20, "10GiB": 10 << 30, "1.5KiB": 1536, "1MB": 1e6, "12": 12, "12B": 12} {
		if got, what, _ := parseSize(text, true); got != want || what != "" {
			t.Errorf("%s: %d %s", text, got, what)
		}
	}
	for _, text := range []string{"64mib", "1M", "-1", "010", "1e9", "9999999TiB", "", "1.5"} {
		if n, what, _ := parseSize(text, true); what == "" && n >= 0 {
			t.Errorf("%q is a size", text)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"first_token", "attempt", "total", "on_unknown", "fail_closed_when", "env"}
	for text, want := range map[string]string{"frist_token": "first_token", "firstToken": "first_token", "first-token": "first_token", "totl": "total",
		"fail_closed": "fail_closed_when", "e": "", "zzz": "", "onunknown": "on_unknown", strings.Repeat("x", 1000): ""} {
		if got := nearest(text, known); got != want {
			t.Errorf("%.20s: %q, want %q", text, got, want)
		}
	}
}

// A flag for a provider that the file leaves out says what to write, and never offers the name that it refuses.
func TestOverrideOfAnAbsentProvider(t *testing.T) {
	c, faults := Parse("x.yaml", []byte("providers: {openai: {}}"), noEnv)
	if c == nil {
		t.Fatal(faults)
	}
	text := lines(c.Override(Overrides{Upstreams: []string{"gemini=http://127.0.0.1:9", "opnai=http://127.0.0.1:9"}}))
	if !strings.Contains(text, "add gemini: {} to it") || !strings.Contains(text, `"opnai" is no provider; name one of openai`) {
		t.Error(text)
	}
}
