package idempotency_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/idempotency"
)

// BR-003: the key of business arguments holds no volatile field, and every business field.
func TestBR003(t *testing.T) {
	k := keyer(t, idempotency.Config{Key: "{customer}:{amount}:{currency}:{cart}"})
	charge := func(body string, headers ...string) string {
		r := post("/charges", body)
		for i := 0; i < len(headers); i += 2 {
			r = with(r, headers[i], headers[i+1])
		}
		key, err := k.DerivedKey(r, k.Fingerprint(r))
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	first := charge(`{"customer":"c-9","amount":5000,"currency":"usd","cart":"cart-3","client_ts":1}`, "X-Request-Id", "a", "User-Agent", "x/1")
	again := charge(`{"client_ts":2,"cart":"cart-3","currency":"usd","amount":5000.0,"customer":"c-9"}`, "X-Request-Id", "b", "User-Agent", "x/2")
	if first != again {
		t.Errorf("a retry is a new charge: %s, %s", first, again)
	}
	if other := charge(`{"customer":"c-9","amount":5000,"currency":"usd","cart":"cart-4","client_ts":1}`); other == first {
		t.Error("another cart is taken for a retry")
	}
}

// BR-006: the same caller's key with another body is a conflict, whichever comes between.
func TestBR006(t *testing.T) {
	k := keyer(t, idempotency.Config{})
	send := func(body string) *idempotency.Request {
		return with(post("/transfers", body), "Idempotency-Key", "K1")
	}
	a, b := send(`{"to":"acct-1","amount":10}`), send(`{"to":"acct-1","amount":999}`)
	if r := k.Compare(a, b); r.Same || !r.Conflict || r.A != r.B {
		t.Errorf("call 2: %+v", r)
	}
	if r := k.Compare(a, send(`{"amount":10, "to":"acct-1"}`)); !r.Same || r.Conflict {
		t.Errorf("call 3: %+v", r)
	}
	elsewhere := with(post("/refunds", `{"to":"acct-1","amount":10}`), "Idempotency-Key", "K1")
	if r := k.Compare(a, elsewhere); !r.Conflict {
		t.Errorf("another path: %+v", r)
	}
	b.Tenant = "other"
	if r := k.Compare(a, b); r.Conflict || r.A == r.B {
		t.Errorf("another tenant's key: %+v", r)
	}
}

// BR-008: serializers differ, values do not; and the other way round.
func TestBR008(t *testing.T) {
	k := keyer(t, idempotency.Config{})
	for _, p := range [][2]string{
		{`{"a":1,"b":{"x":2,"y":3}}`, `{ "b":{"y":3,"x":2}, "a":1 }`},
		{`{"t":"\u00e9"}`, `{"t":"é"}`},
	} {
		want(t, k, post("/x", p[0]), post("/x", p[1]), true)
	}
	for _, p := range [][2]string{
		{`{"order":9007199254740992}`, `{"order":9007199254740993}`},
		{`{"id":"7"}`, `{"id":7}`},
		{`{"messages":["a","b"]}`, `{"messages":["b","a"]}`},
		{`{"x":null}`, `{}`},
	} {
		for _, path := range []string{"/x", "/v1/chat/completions", "tools/call"} {
			want(t, k, post(path, p[0]), post(path, p[1]), false)
		}
	}
}

func TestTemplateValuesCannotPassForOthers(t *testing.T) {
	k := keyer(t, idempotency.Config{Key: "{a}:{b}"})
	key := func(body string) string {
		r := post("/x", body)
		key, err := k.DerivedKey(r, [32]byte{})
		if err != nil {
			t.Fatal(body, err)
		}
		return key
	}
	seen := map[string]string{}
	for _, body := range []string{
		`{"a":"a:b","b":"c"}`, `{"a":"a","b":"b:c"}`, `{"a":"a\":\"b","b":"c"}`, `{"a":7,"b":1}`, `{"a":71,"b":1}`,
		`{"a":7,"b":11}`, `{"a":true,"b":1}`, `{"a":"true","b":1}`, `{"a":"07","b":1}`, `{"a":"7.0","b":1}`, `{"a":"-0","b":1}`, `{"a":0,"b":1}`,
		`{"a":" 7","b":1}`, `{"a":"+7","b":1}`, `{"a":"7e0","b":1}`, `{"a":"null","b":1}`, `{"a":"7,1","b":1}`, `{"a":"7]","b":1}`,
		`{"a":9007199254740993,"b":1}`, `{"a":9007199254740992,"b":1}`,
	} {
		if other, ok := seen[key(body)]; ok {
			t.Errorf("%s and %s have one key", body, other)
		}
		seen[key(body)] = body
	}
	if key(`{"a":7.0,"b":1e0,"c":2}`) != key(`{"b":1,"a":7}`) {
		t.Error("spelling counts")
	}
	for _, pair := range [][2]string{
		{`{"a":7,"b":1}`, `{"a":"7","b":"1"}`}, {`{"a":-7,"b":1}`, `{"a":"-7","b":1}`}, {`{"a":19.90,"b":1}`, `{"a":"19.9","b":1}`},
		{`{"a":12345678901234567890123,"b":1}`, `{"a":"1.2345678901234567890123e+22","b":1}`}, {`{"a":"\u0037","b":1}`, `{"a":7,"b":1}`},
	} {
		if key(pair[0]) != key(pair[1]) {
			t.Errorf("%s and %s have two keys: an id is an id, as text and as a number", pair[0], pair[1])
		}
	}
}

// TestTemplateRefusesEmptyValues holds that no key is made of what would be the same for everybody, and that the error names the field.
func TestTemplateRefusesEmptyValues(t *testing.T) {
	k := keyer(t, idempotency.Config{Key: "{a}:{b.c}"})
	for value, why := range map[string]string{
		`""`: "is empty text", `" "`: "is empty text", `"\t\n"`: "is empty text", `"\u00a0"`: "is empty text", `null`: "is null",
		`[]`: "is a list", `["x"]`: "is a list", `{}`: "is an object", `{"d":1}`: "is an object",
	} {
		r := post("/x", `{"a":1,"b":{"c":`+value+`}}`)
		key, err := k.DerivedKey(r, k.Fingerprint(r))
		if !errors.Is(err, idempotency.ErrNoField) || key != "" || !strings.Contains(err.Error(), `b.c in "{a}:{b.c}" `+why) {
			t.Errorf("%s: %q, %v", value, key, err)
		}
	}
	for _, value := range []string{`"x"`, `" x "`, `"\u00e9"`, `0`, `false`, `"0"`, `"\\"`, `"\""`} {
		if _, err := k.DerivedKey(post("/x", `{"a":1,"b":{"c":`+value+`}}`), [32]byte{}); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestTemplate(t *testing.T) {
	for _, tc := range []struct{ text, body, want string }{
		{"{a}", `{"a":1}`, `key "{a}" [1]`},
		{"charge {{x}} {a.b.c}:{d}", `{"a":{"b":{"c":"\u00e9"}},"d":1.0}`, `key "charge {{x}} {a.b.c}:{d}" ["é",1]`},
	} {
		k := keyer(t, idempotency.Config{Key: tc.text})
		got, err := k.Business(nil, post("/x", tc.body))
		if err != nil || !strings.HasSuffix(string(got), tc.want+"\n") {
			t.Errorf("%s: %s, %v", tc.text, got, err)
		}
	}
	for text, say := range map[string]string{
		"": "no field", "date": "no field", "{": "not closed", "{a": "not closed", "{a{b}": "not closed", "}": "closes nothing", "{}": "empty name",
		"{a..b}": "empty name", "{a b}": `" "`, "{{a}}": "no field", "{a[0]}": `"["`,
	} {
		if _, err := idempotency.ParseTemplate(text); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%q: %v, want %q", text, err, say)
		}
	}
	tpl, err := idempotency.ParseTemplate("{a}:{b.c}")
	if err != nil || strings.Join(tpl.Fields(), " ") != "a b.c" || tpl.String() != "{a}:{b.c}" {
		t.Errorf("%v, %v", tpl, err)
	}
}

func TestTemplateNeedsItsFields(t *testing.T) {
	k := keyer(t, idempotency.Config{Key: "{a}:{b.c}"})
	for body, want := range map[string]error{
		`{"a":1}`: idempotency.ErrNoField, `{"a":1,"b":{"c":null}}`: idempotency.ErrNoField, `{"a":1,"b":2}`: idempotency.ErrNoField,
		`[]`: idempotency.ErrNoField, `1`: idempotency.ErrNoField, `{"a":1,"a":2,"b":{"c":1}}`: idempotency.ErrNotJSON, ``: idempotency.ErrNotJSON, `a=1`: idempotency.ErrNotJSON,
	} {
		r := post("/x", body)
		if key, err := k.DerivedKey(r, k.Fingerprint(r)); !errors.Is(err, want) || key != "" {
			t.Errorf("%s: %q, %v", body, key, err)
		}
	}
}

// A tool's fields are those of its arguments, and another tool with the same ones is another effect.
func TestTemplateOfATool(t *testing.T) {
	k := keyer(t, idempotency.Config{Key: "{customer_id}:{item_id}"})
	key := func(body string) string {
		r := post("tools/call", body)
		key, err := k.DerivedKey(r, k.Fingerprint(r))
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	first := key(`{"name":"order","arguments":{"customer_id":1,"item_id":2,"call_id":"x"},"_meta":{"progressToken":1}}`)
	if key(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"order","arguments":{"item_id":2,"customer_id":1,"call_id":"y"}}}`) != first {
		t.Error("the same arguments in an envelope have another key")
	}
	if key(`{"name":"cancel","arguments":{"customer_id":1,"item_id":2}}`) == first {
		t.Error("another tool has the same key")
	}
}
