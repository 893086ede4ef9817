package idempotency_test

import (
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/idempotency"
)

func keyer(t testing.TB, c idempotency.Config) *idempotency.Keyer {
	t.Helper()
	k, err := idempotency.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// post is a JSON request to a path with an optional query.
func post(target, body string) *idempotency.Request {
	path, query, _ := strings.Cut(target, "?")
	return &idempotency.Request{Env: "test", Tenant: "main", Workflow: "default", Method: "POST", Path: path, Query: query, Body: []byte(body)}
}

func with(r *idempotency.Request, name string, values ...string) *idempotency.Request {
	c := *r
	c.Header = map[string][]string{name: values}
	for n, v := range r.Header {
		if n != name {
			c.Header[n] = v
		}
	}
	return &c
}

// want reports when two requests are, or are not, one.
func want(t *testing.T, k *idempotency.Keyer, a, b *idempotency.Request, same bool) {
	t.Helper()
	if got := k.Fingerprint(a) == k.Fingerprint(b); got != same {
		t.Errorf("same = %v\n%s\n%s", got, k.Canonical(nil, a), k.Canonical(nil, b))
	}
}

func TestPathCounts(t *testing.T) {
	k := keyer(t, idempotency.Config{})
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"/v1/chat/completions", "/v1/completions", false},
		{"/v1beta/models/a:generateContent", "/v1beta/models/b:generateContent", false},
		{"/v1beta/models/a:generateContent", "/v1beta/models/a%3AgenerateContent", true},
		{"/model/a%3a0/converse", "/model/a%3A0/converse", true},
		{"/m/%7Efoo%2d", "/m/~foo-", true},
		{"/m/a%2Fb", "/m/a/b", false},
		{"/m/a%2fb", "/m/a%2Fb", true},
		{"/m/é", "/m/%C3%A9", true},
		{"/m/%zz", "/m/%25zz", true},
		{"/v1/./x/../chat", "/v1/chat", true},
		{"/v1/%2e%2e/chat", "/chat", true},
		{"/../..", "/", true},
		{"/a/..", "/", true},
		{"/a/.", "/a/", true},
		{"/a/.b", "/a/b", false},
		{"/a/", "/a", false},
		{"//a", "/a", false},
		{"/A", "/a", false},
	} {
		want(t, k, post(tc.a, `{}`), post(tc.b, `{}`), tc.same)
	}
	a, b := post("/x", `{}`), post("/x", `{}`)
	b.Method = "PUT"
	want(t, k, a, b, false)
}

func TestQueryCountsWithoutCredentials(t *testing.T) {
	k := keyer(t, idempotency.Config{})
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"/x?alt=sse", "/x", false},
		{"/x?alt=sse", "/x?alt=json", false},
		{"/x?", "/x", true},
		{"/x?a=1&b=2", "/x?b=2&a=1", true},
		{"/x?a=1&a=2", "/x?a=2&a=1", false},
		{"/x?a=%31&&", "/x?a=1", true},
		{"/x?a=b%20c", "/x?a=b+c", true},
		{"/x?a=b%2Bc", "/x?a=b+c", false},
		{"/x?a=1%26b=2", "/x?a=1&b=2", false},
		{"/x?a", "/x?a=", false},
		{"/x?key=SECRET-1&alt=sse", "/x?alt=sse&key=SECRET-2", true},
		{"/x?KEY=SECRET-1", "/x?access_token=SECRET-2", true},
		{"/x?k%65y=SECRET-1", "/x", true},
		{"/x?api-version=1", "/x?api-version=2", false},
		{"/x?keys=1", "/x?keys=2", false},
	} {
		a, b := post(tc.a, `{}`), post(tc.b, `{}`)
		want(t, k, a, b, tc.same)
		if s := string(k.Canonical(nil, a)); strings.Contains(s, "SECRET") {
			t.Errorf("%s: %s", tc.a, s)
		}
	}
}

func TestHeadersThatCount(t *testing.T) {
	k := keyer(t, idempotency.Config{})
	base := post("/v1/messages", `{}`)
	for _, tc := range []struct {
		name string
		a, b []string
		same bool
	}{
		{"Anthropic-Version", []string{"2023-06-01"}, []string{"2026-10-21"}, false},
		{"Anthropic-Version", []string{"2023-06-01"}, []string{" 2023-06-01 "}, true},
		{"Anthropic-Beta", []string{"a,b"}, []string{"b, a"}, true},
		{"Anthropic-Beta", []string{"a,b"}, []string{"b", "a", "a"}, true},
		{"Anthropic-Beta", []string{"a"}, []string{"a,b"}, false},
		{"Anthropic-Beta", []string{"a"}, nil, false},
		{"Anthropic-Beta", []string{"", ","}, nil, true},
		{"Anthropic-Beta", []string{"a\"\n"}, []string{"a"}, false},
		{"Openai-Beta", []string{"assistants=v2"}, []string{"assistants=v1"}, false},
		{"Openai-Project", []string{"p1"}, []string{"p2"}, false},
		{"Authorization", []string{"Bearer 1"}, []string{"Bearer 2"}, true}, // the tenant's matter, not the fingerprint's
		{"Content-Type", []string{"application/json"}, []string{"application/json; charset=utf-8"}, true},
		{"X-Stainless-Retry-Count", []string{"0"}, []string{"1"}, true},
		{"Accept", []string{"text/event-stream"}, []string{"*/*"}, true},
	} {
		want(t, k, with(base, tc.name, tc.a...), with(base, tc.name, tc.b...), tc.same)
	}
	a, b := post("/x", `{}`), post("/x", `{}`)
	a.Owner, b.Owner = "team-a", "team-b"
	want(t, k, a, b, false)
	b.Owner = "team-a\"\nbody none"
	want(t, k, a, b, false)
}

// The scope of a key is no part of the fingerprint: a policy reload must not make a retry a conflict.
func TestScopeIsNotFingerprinted(t *testing.T) {
	k := keyer(t, idempotency.Config{})
	a, b := post("/x", `{}`), post("/x", `{}`)
	b.Env, b.Tenant, b.Workflow = "other", "other", "other"
	want(t, k, a, b, true)
}

func TestBodyForms(t *testing.T) {
	k := keyer(t, idempotency.Config{})
	for _, tc := range []struct {
		name, mediaType, a, b string
		same                  bool
	}{
		{"empty is no value", "", "", "null", false},
		{"a byte order mark", "application/json", "\xef\xbb\xbf{}", "{}", true},
		{"json by suffix", "application/vnd.api+json", `{"a":1}`, `{ "a":1 }`, true},
		{"json of any top", "application/json", `[1.0]`, `[1]`, true},
		{"text is bytes", "text/plain", `{"a":1}`, `{ "a":1 }`, false},
		{"a form is bytes", "application/x-www-form-urlencoded", "a=1&b=2", "b=2&a=1", false},
		{"lines of JSON are bytes", "application/x-ndjson", `{"a":1}`, `{ "a":1 }`, false},
		{"named twice", "application/json", `{"a":1,"a":2}`, `{"a":2}`, false},
		{"named twice, byte for byte", "application/json", `{"a":1,"a":2}`, `{"a":1,"a":2}`, true},
		{"half a pair", "application/json", `"\ud800"`, `"\ufffd"`, false},
		{"not UTF-8", "application/json", "\"\xff\"", `"\ufffd"`, false},
		{"garbage behind", "application/json", `{}}`, `{}`, false},
		{"too deep", "application/json", strings.Repeat("[", 500), strings.Repeat("[", 501), false},
		{"bytes are no JSON of their line", "application/json", `{`, `{"a":1}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := post("/x", tc.a), post("/x", tc.b)
			if tc.mediaType != "" {
				a, b = with(a, "Content-Type", tc.mediaType), with(b, "Content-Type", tc.mediaType)
			}
			want(t, k, a, b, tc.same)
		})
	}
}

// A provider reads its JSON whatever the header says, curl's default included.
func TestKnownPathIsJSON(t *testing.T) {
	k := keyer(t, idempotency.Config{})
	a, b := post("/v1/chat/completions", `{"a":1}`), post("/v1/chat/completions", `{ "a":1 }`)
	want(t, k, with(a, "Content-Type", "application/x-www-form-urlencoded"), b, true)
}

func TestExplainSaysWhy(t *testing.T) {
	k := keyer(t, idempotency.Config{})
	if _, why := k.Explain(nil, post("/x", `{"amount":1,"amount":2}`)); why == nil || strings.Contains(why.Error(), "amount") {
		t.Errorf("got %v: it must say why and quote nothing", why)
	}
	if _, why := k.Explain(nil, post("/x", `{}`)); why != nil {
		t.Error(why)
	}
	if _, why := k.Explain(nil, with(post("/x", `a`), "Content-Type", "text/plain")); why != nil {
		t.Error(why)
	}
}

func TestIgnore(t *testing.T) {
	k := keyer(t, idempotency.Config{Ignore: []string{"ts", "a.b.c", "messages.name", "metadata.user_id"}})
	const chat, messages = "/v1/chat/completions", "/v1/messages"
	for _, tc := range []struct {
		path, a, b string
		same       bool
	}{
		{"/x", `{"ts":1,"x":1}`, `{"ts":2,"x":1}`, true},
		{"/x", `{"ts":1,"x":1}`, `{"x":1}`, true},
		{"/x", `{"x":{"ts":1}}`, `{"x":{"ts":2}}`, false},
		{"/x", `[{"ts":1}]`, `[{"ts":2}]`, true},
		{"/x", `{"a":{"b":{"c":1}}}`, `{"a":{"b":{"c":2}}}`, true},
		{"/x", `{"a":[{"b":[[{"c":1}]]}]}`, `{"a":[{"b":[[{"c":2}]]}]}`, true},
		{"/x", `{"a":{"b":{"d":1}}}`, `{"a":{"b":{"d":2}}}`, false},
		{"/x", `{"a.b.c":1}`, `{"a.b.c":2}`, false},
		{chat, `{"messages":[{"name":"x","content":"a "}]}`, `{"messages":[{"name":"y","content":"a "}]}`, true},
		{chat, `{"messages":[{"role":"user","content":"a "}]}`, `{"messages":[{"role":"user","content":"a"}]}`, true},
		{messages, `{"metadata":{"user_id":"a"}}`, `{"metadata":{"user_id":"b"}}`, true},
	} {
		want(t, k, post(tc.path, tc.a), post(tc.path, tc.b), tc.same)
	}
	for _, bad := range []string{"", "a.", ".a", "a..b", `a"b`, "a[]", "a b", "é"} {
		if _, err := idempotency.New(idempotency.Config{Ignore: []string{bad}}); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestSchemaVersionStandsForTheSchema(t *testing.T) {
	plain, v1, v2 := keyer(t, idempotency.Config{}), keyer(t, idempotency.Config{SchemaVersion: "1"}), keyer(t, idempotency.Config{SchemaVersion: "2"})
	for path, bodies := range map[string][2]string{
		"/v1/chat/completions":                    {`{"response_format":{"type":"json_schema","json_schema":{"schema":{"a":1}}}}`, `{"response_format":{"type":"json_schema","json_schema":{"schema":{"b":1}}}}`},
		"/v1/responses":                           {`{"text":{"format":{"schema":{"a":1}}}}`, `{"text":{"format":{"schema":{"b":1}}}}`},
		"/v1/messages":                            {`{"output_config":{"format":{"schema":{"a":1}}}}`, `{"output_config":{"format":{"schema":{"b":1}}}}`},
		"/v1beta/models/m:generateContent":        {`{"generationConfig":{"responseSchema":{"a":1}}}`, `{"generationConfig":{"responseSchema":{"b":1}}}`},
		"/v1beta/models/m:streamGenerateContent":  {`{"generationConfig":{"responseJsonSchema":{"a":1}}}`, `{"generationConfig":{"responseJsonSchema":{"b":1}}}`},
		"/api/chat":                               {`{"format":{"a":1}}`, `{"format":{"b":1}}`},
		"/openai/deployments/d/chat/completions/": {`{"a":1}`, `{ "a":1}`}, // no format: only the line
	} {
		a, b := post(path, bodies[0]), post(path, bodies[1])
		if !strings.HasSuffix(path, "/") {
			want(t, plain, a, b, false)
		}
		want(t, v1, a, b, true)
		if v1.Fingerprint(a) == v2.Fingerprint(a) || v1.Fingerprint(a) == plain.Fingerprint(a) {
			t.Errorf("%s: the version does not count", path)
		}
	}
}

func TestFingerprintDoesNotAllocate(t *testing.T) {
	if race {
		t.Skip("the race detector empties pools")
	}
	k := keyer(t, idempotency.Config{})
	r := with(with(post("/v1/chat/completions?b=2&a=1", string(conversation(8<<10))), "Anthropic-Beta", "b,a"), "Content-Type", "application/json")
	key := make([]byte, 0, 128)
	if n := testing.AllocsPerRun(50, func() { key, _ = k.AppendDerivedKey(key[:0], r, k.Fingerprint(r)) }); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}
