package policy

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func goodFiles(t *testing.T) []string {
	t.Helper()
	return append(files(t, "testdata/good/*.yaml"), files(t, "../../examples/config/*.yaml")...)
}

func load(t *testing.T, file string, env func(string) (string, bool)) *Config {
	t.Helper()
	c, faults := Load(file, env)
	if c == nil {
		t.Fatalf("refused:\n%s", lines(faults))
	}
	return c
}

// parse loads a configuration that must be accepted.
func parse(t *testing.T, text string) *Config {
	t.Helper()
	c, faults := Parse("holdfast.yaml", []byte(text), noEnv)
	if c == nil {
		t.Fatalf("refused:\n%s", lines(faults))
	}
	return c
}

// TestGood accepts the samples of the documentation with and without their variables, and holds their warnings.
func TestGood(t *testing.T) {
	for _, file := range goodFiles(t) {
		t.Run(file, func(t *testing.T) {
			load(t, file, fullEnv)
			c, faults := Load(file, noEnv)
			if c == nil {
				t.Fatalf("refused:\n%s", lines(faults))
			}
			if strings.HasPrefix(file, "testdata") {
				golden(t, strings.TrimSuffix(file, ".yaml")+".golden", lines(faults))
				return
			}
			for _, f := range faults {
				if f.Severity != Missing {
					t.Errorf("an example should show no mistake: %s", f)
				}
			}
		})
	}
}

// equal compares what configurations say, not where they say it. Policies are inlined by Print.
var equal = cmp.Options{
	cmpopts.IgnoreUnexported(Config{}, Workflow{}),
	cmpopts.IgnoreFields(Config{}, "Policies"),
	cmpopts.EquateEmpty(),
}

// TestPrintRoundTrip: check --print gives a file that means the same.
func TestPrintRoundTrip(t *testing.T) {
	for _, file := range goodFiles(t) {
		for name, env := range map[string]func(string) (string, bool){"set": fullEnv, "unset": noEnv} {
			t.Run(file+"/"+name, func(t *testing.T) {
				c := load(t, file, env)
				again, faults := Parse(file, c.Print(), env)
				if again == nil {
					t.Fatalf("refused:\n%s\n%s", lines(faults), c.Print())
				}
				if diff := cmp.Diff(c, again, equal); diff != "" {
					t.Errorf("-loaded +printed and loaded:\n%s", diff)
				}
				if c.Revision != again.Revision {
					t.Errorf("revision %s, then %s", c.Revision, again.Revision)
				}
			})
		}
	}
}

// TestEveryFieldIsPrinted: every.yaml writes each field there is, so that the round trip covers it.
func TestEveryFieldIsPrinted(t *testing.T) {
	c := load(t, "testdata/good/every.yaml", fullEnv)
	written := map[string]bool{}
	for path := range c.source.pos {
		segs := segments(path)
		written[segs[len(segs)-1]] = true
	}
	var missing []string
	walk(reflect.TypeFor[Config](), map[reflect.Type]bool{}, func(f field) {
		if !f.alias && !f.value && !written[f.name] && f.name != "key" {
			missing = append(missing, f.name)
		}
	})
	if len(missing) > 0 {
		t.Errorf("not in every.yaml: %v", missing)
	}
}

func walk(t reflect.Type, seen map[reflect.Type]bool, visit func(field)) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if seen[t] || t.Kind() != reflect.Struct || isScalar(t) || t == conditionsType {
		return
	}
	seen[t] = true
	for _, f := range fieldsOf(t) {
		visit(f)
		walk(f.typ, seen, visit)
	}
}

// TestDefaults holds the table of interface.md §5.
func TestDefaults(t *testing.T) {
	c := Default(noEnv)
	w := c.Workflow("default")
	got := map[string]any{
		"listen": c.Listen, "admin": c.Admin, "store": c.Store[0].Reveal(), "mode": w.Mode, "effect": w.Effect,
		"on_unknown": w.UnknownRule(false), "acting": w.UnknownRule(true),
		"derive": w.Idempotency.Derive, "window": w.Idempotency.Window, "ttl": w.Idempotency.TTL,
		"on_in_flight": w.Idempotency.OnInFlight, "on_store_error": w.Idempotency.OnStoreError,
		"max_concurrent": w.Bulkhead.MaxConcurrent, "wait": w.Bulkhead.Wait, "reserve": w.Bulkhead.InteractiveReserve,
		"timeouts": w.Timeouts, "breaker": w.Breaker, "on_disconnect": w.OnDisconnect, "finish_limit": w.FinishLimit,
		"finish_quota": w.FinishQuota, "bridge_after": w.BridgeAfter, "adopt_grace": w.AdoptGrace,
		"delivery_grace": w.DeliveryGrace, "error_hold": w.ErrorHold, "durability": w.Durability,
		"interactive": w.Lanes.InteractiveAdmission, "background": w.Lanes.BackgroundRetry, "limits": c.Limits, "retention": c.Retention,
		"retry": strings.Join(w.Retry.On, " "), "attempts": w.Retry.MaxAttempts, "base": w.Retry.Base, "max": w.Retry.Max, "share": w.Retry.Share,
	}
	const MiB = 1 << 20
	want := map[string]any{
		"listen": "127.0.0.1:8787", "admin": "127.0.0.1:8788", "store": "sqlite:holdfast.db", "mode": Enforce, "effect": ByPath,
		"on_unknown": RetryUnknown, "acting": HoldUnknown,
		"derive": DeriveRetries, "window": 5 * time.Minute, "ttl": 30 * time.Minute,
		"on_in_flight": Attach, "on_store_error": Local,
		"max_concurrent": 0, "wait": false, "reserve": 0.2,
		"timeouts": Timeouts{300 * time.Second, 300 * time.Second, 590 * time.Second, 590 * time.Second, 600 * time.Second, time.Hour},
		"breaker":  Breaker{10, 30 * time.Second, "local", 1}, "on_disconnect": Finish, "finish_limit": time.Minute,
		"finish_quota": 0.2, "bridge_after": 15 * time.Second, "adopt_grace": 20 * time.Millisecond,
		"delivery_grace": 2 * time.Second, "error_hold": 7 * time.Second, "durability": Relaxed,
		"interactive": Interactive{MaxWait: 8 * time.Second, MaxAttempts: 3}, "background": Background{MaxQueueAge: 15 * time.Minute, MaxAttempts: 5},
		"limits":    Limits{16384, 1024 * MiB, 64 * MiB, 64 * MiB, 16 * MiB, MiB, 64 << 10, 128, 1000, 2 * time.Second, 10 * time.Minute},
		"retention": Retention{24 * time.Hour, "jobs", 30 * 24 * time.Hour, 90 * 24 * time.Hour, 10 << 30},
		"retry":     "429 500 502 503 504 529 connection_error", "attempts": 3, "base": 500 * time.Millisecond, "max": 8 * time.Second, "share": 0.2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDefaultProviders(t *testing.T) {
	c := Default(func(name string) (string, bool) { return "sk-" + name, name == "GEMINI_API_KEY" })
	for _, want := range []struct{ name, base, key string }{
		{"openai", "https://api.openai.com/v1", ""},
		{"anthropic", "https://api.anthropic.com", ""},
		{"gemini", "https://generativelanguage.googleapis.com", "sk-GEMINI_API_KEY"},
	} {
		p := c.Provider(want.name)
		if p == nil || p.BaseURL != want.base || p.APIKey.Reveal() != want.key {
			t.Errorf("%s: %+v", want.name, p)
		}
	}
}

// TestEffectDefaults: what an external effect changes, and tools with and without a key template (semantics 41).
func TestEffectDefaults(t *testing.T) {
	c := parse(t, `
workflows:
  keyless: {effect: external}
  keyed: {effect: external, idempotency: {key: "{order_id}"}}
tools:
  t: {base_url: "http://127.0.0.1:1", mode: observe, routes: [{match: "POST /a"}, {match: "POST /b", key: "{order_id}", mode: enforce}, {match: "GET /c", effect: read}]}
`)
	w := c.Workflow("keyless")
	if w.UnknownRule(false) != HoldUnknown || w.Durability != Strict || w.Idempotency.Derive != DeriveAlways || w.Idempotency.Window != 10*time.Minute {
		t.Errorf("keyless: %+v", w)
	}
	if w = c.Workflow("keyed"); w.Idempotency.Window != 24*time.Hour || w.Idempotency.TTL != 24*time.Hour {
		t.Errorf("keyed: %+v", w.Idempotency)
	}
	r := c.Tools[0].Routes
	if r[0].Window != 10*time.Minute || r[0].Timeout != time.Minute || r[0].OnUnknown != HoldUnknown || r[0].Mode != Observe || r[0].Derive != DeriveAlways {
		t.Errorf("route without key: %+v", r[0])
	}
	if r[1].Window != 24*time.Hour || r[1].TTL != 24*time.Hour || r[1].Mode != Enforce || r[2].Durability != Relaxed {
		t.Errorf("routes: %+v", r[1:])
	}
}

func TestMatch(t *testing.T) {
	c := parse(t, `
workflows:
  default: {mode: observe}
  gpt: {match: {paths: [/v1/chat/completions, "/v1/resp*"], models: ["gpt-?", "gpt-*-mini"]}}
  gemini: {match: {paths: ["/v1beta/models/*:generateContent"]}}
  tagged: {match: {headers: {x-app: "shop-*"}}}
`)
	shop := http.Header{"X-App": {"other", "shop-7"}}
	for _, tt := range []struct {
		path, model string
		header      http.Header
		want        string
	}{
		{"/v1/chat/completions", "gpt-5", nil, "gpt"},
		{"/v1/chat/completions", "gpt-5.1-mini", nil, "gpt"},
		{"/v1/chat/completions", "gpt-55", nil, "default"},
		{"/v1/chat/completions/", "gpt-5", nil, "default"},
		{"/v1/responses/abc", "gpt-5", nil, "gpt"},
		{"/v1/chat/completions", "", nil, "default"},
		{"/v1beta/models/a/b:generateContent", "", nil, "gemini"},
		{"/v1beta/models/:generateContentX", "", nil, "default"},
		{"/v1/embeddings", "", shop, "tagged"},
		{"/v1/chat/completions", "gpt-5", shop, "gpt"},
	} {
		if got := c.Match(tt.path, tt.model, tt.header).Name; got != tt.want {
			t.Errorf("%s %q %v: %s, want %s", tt.path, tt.model, tt.header, got, tt.want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { c.Match("/v1/embeddings", "gpt-5", shop) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestGlobIsWhatItSays(t *testing.T) {
	for _, tt := range []struct {
		glob, text string
		want       bool
	}{
		{"*", "", true}, {"", "", true}, {"", "a", false}, {"a*b*c", "aXbYc", true}, {"a*b*c", "ac", false}, {"*aa*aa", "aaa", false},
		{"*aa*aa", "aaaa", true}, {"a?c", "abc", true}, {"a?c", "ac", false}, {"*?", "", false}, {"?*", "x", true}, {"*b?", "abbc", true},
		{"**", "x", true}, {"ab*ba", "aba", false},
	} {
		g := compileGlob(tt.glob)
		if got := g.match(tt.text); got != tt.want {
			t.Errorf("%q matches %q: %v", tt.glob, tt.text, got)
		}
	}
}

func TestPos(t *testing.T) {
	c := parse(t, "workflows:\n  chat:\n    timeouts: {total: 25s}\n    tiers:\n      - {model: gpt-5}\n")
	for path, want := range map[string]string{
		"workflows.chat.timeouts.total":  "holdfast.yaml:3:16",
		"workflows.chat.tiers[0].model":  "holdfast.yaml:5:10",
		"workflows.chat.tiers[0]":        "holdfast.yaml:5:9",
		"workflows.chat.retry.max":       "holdfast.yaml:2:3",
		"workflows.chat.timeouts.stream": "holdfast.yaml:3:5",
		"listen":                         "(default)",
	} {
		if pos, _ := c.Pos(path); pos.String() != want {
			t.Errorf("%s: %s, want %s", path, pos, want)
		}
	}
	if _, ok := c.Pos("workflows.chat.retry.max"); ok {
		t.Error("a default counts as written")
	}
}

// TestTimeoutsFollow: bounds that are left out follow what is written.
func TestTimeoutsFollow(t *testing.T) {
	for written, want := range map[string]Timeouts{
		"total: 25s":                {FirstToken: 25 * time.Second, Attempt: 25 * time.Second, Total: 25 * time.Second, Request: 600 * time.Second},
		"request: 30s":              {FirstToken: 25 * time.Second, Attempt: 25 * time.Second, Total: 25 * time.Second, Request: 30 * time.Second},
		"request: 2h":               {FirstToken: 300 * time.Second, Attempt: 590 * time.Second, Total: 590 * time.Second, Request: 2 * time.Hour},
		"total: 20m":                {FirstToken: 300 * time.Second, Attempt: 590 * time.Second, Total: 20 * time.Minute, Request: 20*time.Minute + 21*time.Second},
		"attempt: 598s":             {FirstToken: 300 * time.Second, Attempt: 598 * time.Second, Total: 598 * time.Second, Request: 600 * time.Second},
		"first_token: 10m":          {FirstToken: 600 * time.Second, Attempt: 600 * time.Second, Total: 600 * time.Second, Request: 611 * time.Second},
		"attempt: 20s, request: 1m": {FirstToken: 20 * time.Second, Attempt: 20 * time.Second, Total: 50 * time.Second, Request: time.Minute},
	} {
		c := parse(t, "workflows: {a: {timeouts: {"+written+"}}}")
		want.Idle, want.Stream = 300*time.Second, time.Hour
		if diff := cmp.Diff(want, c.Workflow("a").Timeouts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", written, diff)
		}
	}
}
