package reconcile_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// TestJudgeSaysWhy holds that what cannot be told says why, in words without the far side's.
func TestJudgeSaysWhy(t *testing.T) {
	r := newRig(t, strings.ReplaceAll(getConfig, "FAR2", "http://127.0.0.1:1"))
	rec := r.lose(tool("/charges"), `{"cart":"c1"}`, nil)
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{200, `{"items":[1],"items":[]}`, "a member stands twice in one object"},
		{200, `{"items":"hidden"}`, "body.items is text where a list is expected"},
		{200, `{"hidden":"hidden"}`, "body.items is not there"},
		{200, ``, "it is empty"},
		{200, `hidden`, "it is not JSON, or only a part"},
		{200, `<html>hidden`, "with a page, not with data"},
		{200, strings.Repeat(" ", 1<<20) + `{}`, "larger than 1 MiB"},
		{302, ``, "answered 302"},
		{404, ``, `write not_happened: "status == 404"`},
	} {
		r.far.says(c.status, c.body)
		if f := r.check(rec); f.Found != intent.CannotTell || !strings.Contains(f.Reason, c.want) || strings.Contains(f.Reason, "hidden") {
			t.Errorf("%d %.30s: %s, %q", c.status, c.body, f.Found, f.Reason)
		}
	}
}

// A path that names the operation may be absent; a page never says so, whatever it calls itself.
func TestGetAbsence(t *testing.T) {
	const config = `
env: test
tools:
  pay:
    base_url: FAR
    routes:
      - {match: "POST /path", key: "{cart}", reconcile: {get: "/x/{cart}", happened: "body.state == 'paid'"}}
      - {match: "POST /status", key: "{cart}", reconcile: {get: "/x?cart={cart}", happened: "status == 200"}}
      - {match: "POST /both", key: "{cart}", reconcile: {get: "/x/{cart}", happened: "body.n > 0", not_happened: "body.n < 2"}}
      - {match: "POST /says", key: "{cart}", reconcile: {get: "/x?cart={cart}", happened: "body.n > 0", not_happened: "status == 404"}}
      - {match: "POST /lenient", key: "{cart}", reconcile: {get: "/x?cart={cart}", happened: "status == 201", not_happened: "(body?.state ?? 'none') != 'paid'"}}
`
	r := newRig(t, config)
	for _, c := range []struct {
		path, contentType string
		status            int
		body              string
		want              intent.Found
	}{
		{"/path", "application/json", 404, `{"error":"none"}`, intent.DidNotHappen},
		{"/path", "", 404, ``, intent.DidNotHappen},
		{"/path", "application/json", 410, ``, intent.DidNotHappen},
		{"/path", "text/html; charset=utf-8", 404, `<h1>no such app</h1>`, intent.CannotTell},
		{"/path", "application/json", 404, ` <!doctype html>`, intent.CannotTell},
		{"/path", "application/json", 200, `{"state":"new"}`, intent.DidNotHappen},
		{"/path", "text/plain", 200, `{"state":"new"}`, intent.DidNotHappen},
		{"/path", "text/html", 200, `{"state":"new"}`, intent.CannotTell},
		{"/path", "application/json", 201, `{"state":"new"}`, intent.CannotTell},
		{"/path", "application/json", 200, `{"state":["new"]}`, intent.CannotTell},
		{"/path", "text/plain", 404, `default backend - 404`, intent.CannotTell},
		{"/path", "application/json", 404, `default backend - 404`, intent.CannotTell},
		{"/path", "text/plain", 410, `gone`, intent.CannotTell},
		{"/path", "application/xml", 404, `<none/>`, intent.CannotTell},
		{"/path", "application/json", 404, `{"a":1,"a":2}`, intent.CannotTell},
		{"/path", "application/json", 404, `{"error":`, intent.CannotTell},
		{"/path", "text/plain", 404, ` `, intent.DidNotHappen},
		{"/path", "text/plain", 404, `{"error":"none"}`, intent.DidNotHappen},
		{"/status", "application/json", 404, `{}`, intent.CannotTell}, // only a query names it
		{"/says", "text/plain", 404, `default backend - 404`, intent.CannotTell},
		{"/says", "", 404, ``, intent.DidNotHappen},
		{"/lenient", "application/json", 404, `{"error":"no such route"}`, intent.CannotTell},
		{"/lenient", "application/json", 200, `{"error":"none"}`, intent.DidNotHappen},
		{"/status", "text/html", 200, `<form>please log in`, intent.CannotTell},
		{"/status", "text/plain", 200, `ok`, intent.Happened},
		{"/status", "application/xml", 200, `<order/>`, intent.Happened},
		{"/status", "text/plain", 200, "\n<HTML>", intent.CannotTell},
		{"/status", "application/json", 400, `{}`, intent.CannotTell},
		{"/both", "application/json", 200, `{"n":1}`, intent.CannotTell},
		{"/both", "application/json", 200, `{"n":0}`, intent.DidNotHappen},
		{"/both", "application/json", 200, `{"n":2}`, intent.Happened},
		{"/says", "application/json", 404, `{}`, intent.DidNotHappen},
		{"/says", "application/json", 200, `{"n":0}`, intent.CannotTell},
	} {
		r.far.says(c.status, c.body)
		r.far.headers = map[string]string{"Content-Type": c.contentType}
		if f := r.check(r.lose(tool(c.path), `{"cart":"c1"}`, nil)); f.Found != c.want {
			t.Errorf("%s %d %s %s: %s, %q", c.path, c.status, c.contentType, c.body, f.Found, f.Reason)
		}
	}
}

// TestGetNames holds that nothing at an address is an absence only where its last segment is the operation.
func TestGetNames(t *testing.T) {
	for _, c := range []struct {
		key, get string
		want     bool
	}{
		{"{o}", "/orders/{o}", true},
		{"{o}", "/orders/{o}/", true},
		{"{o}", "/orders/{o}?full=1", true},
		{"{o}", "/orders/{o}/?region={region}", true},
		{"{o}", "/orders/order-{o}.json", true},
		{"{o}", "/{region}/orders/{o}", true},
		{"{o}", "/orders/{key}", true},
		{"{a}:{b}", "/orders/{a}-{b}", true},
		{"{a}:{b}", "/orders/{key}", true},
		{"{a.b}", "/orders/{a.b}", true},
		{"", "/orders/{key}", true},
		{"{o}", "FAR/orders/{o}", true},
		{"{o}", "HEAD /orders/{o}", true},
		{"{o}", "/{region}/e?ref={key}", false},
		{"{o}", "/{o}/lines", false},
		{"{o}", "/{o}/lines/", false},
		{"{o}", "/{key}/lines?x=/{o}", false},
		{"{o}", "/orders?o={o}", false},
		{"{o}", "/orders/?o={o}", false},
		{"{o}", "/orders/{region}?o={o}", false},
		{"{a}:{b}", "/orders/{a}", false},
		{"{a}:{b}", "/{a}/{b}", false},
		{"{a.b}", "/orders/{a}", false},
		{"", "/orders/{o}", false},
		{"{o}", "FAR/{o}/x?y={key}", false},
		{"{o}", "/orders", false},
	} {
		route := `{match: "POST /x", reconcile: {get: "` + c.get + `", happened: "status == 200"}`
		if c.key != "" {
			route += `, key: "` + c.key + `"`
		}
		r := newRig(t, "{env: test, tools: {pay: {base_url: FAR, routes: ["+route+"}]}}}")
		r.far.says(404, "")
		f := r.check(r.lose(tool("/x"), `{"o":"o1","a":"a1","b":"b1","region":"eu"}`, nil))
		if c.key == "{a.b}" {
			f = r.check(r.lose(tool("/x"), `{"o":"o1","a":{"b":"b1"}}`, nil))
		}
		if (f.Found == intent.DidNotHappen) != c.want {
			t.Errorf("%s by %s: %s, %q", c.key, c.get, f.Found, f.Reason)
		}
	}
}

// TestHeadAbsence holds that a server in between, which would answer with text, answers no HEAD.
func TestHeadAbsence(t *testing.T) {
	r := newRig(t, strings.ReplaceAll(getConfig, "FAR2", "http://127.0.0.1:1"))
	for _, c := range []struct {
		contentType, length string
		want                intent.Found
	}{
		{"application/json", "20", intent.DidNotHappen},
		{"application/problem+json", "20", intent.DidNotHappen},
		{"text/plain", "0", intent.DidNotHappen},
		{"text/plain", "21", intent.CannotTell},
		{"text/html", "146", intent.CannotTell},
	} {
		r.far.says(404, "")
		r.far.headers = map[string]string{"Content-Type": c.contentType, "Content-Length": c.length}
		if f := r.check(r.lose(tool("/head"), `{"cart":"c1"}`, nil)); f.Found != c.want {
			t.Errorf("%s of %s bytes: %s, %q", c.contentType, c.length, f.Found, f.Reason)
		}
	}
}

// An empty value would ask for everything.
func TestGetAsksForSomething(t *testing.T) {
	r := newRig(t, strings.ReplaceAll(getConfig, "FAR2", "http://127.0.0.1:1"))
	for _, request := range []string{`{"cart":""}`, `{"cart":" "}`, `{}`, `{"cart":null}`, `{"cart":[]}`} {
		r.far.says(200, `{"items":[1]}`)
		if f := r.check(r.lose(tool("/charges"), request, nil)); f.Found != intent.CannotTell || r.far.last() != nil {
			t.Errorf("%s: %s, %q", request, f.Found, f.Reason)
		}
	}
}

// A broken-off answer is none, though what came of it would be an absence.
func TestGetBrokenOff(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"items":[]}`))
	}))
	defer server.Close()
	r := newRig(t, strings.ReplaceAll(strings.ReplaceAll(getConfig, "FAR2", "http://127.0.0.1:1"), "FAR", server.URL))
	if f := r.check(r.lose(tool("/charges"), `{"cart":"c1"}`, nil)); f.Found != intent.CannotTell || f.Reason == "" {
		t.Errorf("%+v", f)
	}
}

const rowsConfig = `
env: test
tools:
  pay:
    base_url: FAR
    routes:
      - {match: "POST /order", key: "{cart}:{n}", reconcile: {sql: "SELECT id FROM t WHERE b = $2 AND a = $1", arguments: {a: "{cart}", b: "{n}"}, dsn: "sqlite:DIR/far.db", happened: "len(result) > 0"}}
      - {match: "POST /twice", key: "{cart}", reconcile: {sql: "SELECT id, a AS id FROM t WHERE a = $1", arguments: {a: "{cart}"}, dsn: "sqlite:DIR/far.db", happened: "result[0].id > 0"}}
      - {match: "POST /text", key: "{cart}", reconcile: {sql: "SELECT cast(count(*) AS TEXT) AS n FROM t WHERE a = $1", arguments: {a: "{cart}"}, dsn: "sqlite:DIR/far.db", happened: "result[0].n > 0"}}
      - {match: "POST /null", key: "{cart}", reconcile: {sql: "SELECT max(id) AS n FROM t WHERE a = $1", arguments: {a: "{cart}"}, dsn: "sqlite:DIR/far.db", happened: "result[0].n > 0"}}
      - {match: "POST /gone", key: "{cart}", reconcile: {sql: "SELECT id FROM nowhere WHERE a = $1", arguments: {a: "{cart}"}, dsn: "sqlite:DIR/far.db", happened: "len(result) > 0"}}
      - {match: "POST /mark", key: "{cart}", reconcile: {sql: "SELECT id FROM t WHERE a = ? AND '$2' <> ''", arguments: {a: "{cart}"}, dsn: "sqlite:DIR/far.db", happened: "len(result) > 0"}}
workflows:
  rows: {effect: external, reconcile: {sql: "SELECT id FROM t WHERE a <> $1", dsn: "sqlite:DIR/far.db", happened: "len(result) > 0"}}
`

func TestSQLRows(t *testing.T) {
	r := newRig(t, rowsConfig)
	db, err := sql.Open("sqlite3", "file:"+filepath.ToSlash(r.policy.Tools[0].Routes[0].Reconcile.DSN.Path()))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b TEXT); INSERT INTO t(a, b) VALUES ('c1', '7')`); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, request string
		want          intent.Found
		why           string
	}{
		{"/order", `{"cart":"c1","n":7}`, intent.Happened, ""}, // each value stands where its number says
		{"/order", `{"cart":"7","n":"c1"}`, intent.DidNotHappen, ""},
		{"/twice", `{"cart":"c1"}`, intent.CannotTell, "two columns of the query have one name"},
		{"/text", `{"cart":"c1"}`, intent.CannotTell, "result[0].n > 0 compares text with a number"},
		{"/null", `{"cart":"c2"}`, intent.CannotTell, "result[0].n > 0 compares null with a number"},
		{"/gone", `{"cart":"c1"}`, intent.CannotTell, "no such table: nowhere"},
		{"/mark", `{"cart":"c1"}`, intent.Happened, ""},
		{"/mark", `{"cart":"c2"}`, intent.DidNotHappen, ""},
	} {
		f := r.check(r.lose(tool(c.path), c.request, nil))
		if f.Found != c.want || !strings.Contains(f.Reason, c.why) {
			t.Errorf("%s %s: %s, %q", c.path, c.request, f.Found, f.Reason)
		}
		// Whoever asks again gets what was read, as of an address that was read.
		if (f.Answer != nil) != (c.want == intent.Happened) || f.Answer != nil && (f.Answer.HTTPStatus != 200 || string(f.Body.Data) != `[{"id":1}]`) {
			t.Errorf("%s %s: answer %+v", c.path, c.request, f.Answer)
		}
	}
	rows := r.lose(ledger.Intent{Workflow: "rows", Provider: "openai", Method: "POST", Path: "/v1/chat/completions"}, "", nil)
	if f := r.check(rows); f.Found != intent.Happened || f.Answer != nil { // rows are no completion
		t.Errorf("%+v", f)
	}
}

// A tool's text is read as data only where it is that, and in one way alone.
func TestToolShape(t *testing.T) {
	r := newRig(t, mcpConfig)
	rec := r.lose(ledger.Intent{Workflow: "orders", Provider: "mcp", Method: "tools/call", Path: "/mcp/orders", Endpoint: "create_order"},
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_order","arguments":{"customer_id":"c1","count":1}}}`, nil)
	for _, result := range []any{map[string]any{"orders": ""}, map[string]any{"orders": nil}, map[string]any{"orders": map[string]any{}}, map[string]any{}, []any{}, "", nil} {
		r.set.ReadTools(reader(func(string, string, json.RawMessage) (any, bool, error) { return result, false, nil }))
		if f := r.check(rec); f.Found != intent.CannotTell || f.Reason == "" {
			t.Errorf("%v: %s, %q", result, f.Found, f.Reason)
		}
	}
	lenient := r.lose(ledger.Intent{Workflow: "orders", Provider: "mcp", Method: "tools/call", Path: "/mcp/orders", Endpoint: "lenient"},
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lenient","arguments":{"customer_id":"c1"}}}`, nil)
	for _, c := range []struct {
		result any
		want   intent.Found
	}{
		{nil, intent.CannotTell}, {`{"orders":[1`, intent.CannotTell}, {` [`, intent.CannotTell}, {`{"a":1,"a":2}`, intent.CannotTell}, {"{}{}", intent.CannotTell},
		{"", intent.DidNotHappen}, {"there is none", intent.DidNotHappen}, {` {"orders":[1]}`, intent.Happened}, {map[string]any{}, intent.Happened},
	} {
		r.set.ReadTools(reader(func(string, string, json.RawMessage) (any, bool, error) { return c.result, false, nil }))
		if f := r.check(lenient); f.Found != c.want || f.Reason == "" {
			t.Errorf("%v: %s, %q", c.result, f.Found, f.Reason)
		}
	}
	r.set.ReadTools(reader(func(string, string, json.RawMessage) (any, bool, error) {
		_, err := policy.Document([]byte(`{"orders":[1],"orders":[]}`))
		return nil, false, err
	}))
	plan, _ := r.set.Plan(rec)
	if f, err := plan.Reconciler.Check(t.Context(), rec); err == nil || !strings.Contains(f.Reason, "stands twice") {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestNoDocument holds that an answer without a document decides nothing that would have been read of one, however leniently.
func TestNoDocument(t *testing.T) {
	reads := []string{`(body?.state ?? "none") == "done"`, `body != nil && body.n > 0`, `body == nil`, `not (body == nil)`, `len(body?.items ?? []) > 0`,
		`type(body) == "map"`, `toJSON(body) contains "done"`, `string(body) == "done"`, `(result?.state ?? "") == "done"`, `[body] != [nil]`,
		`let b = body; b != nil`, `status == 201 or body != nil`, `status == 201 and body != nil`, `{"a": body}.a != nil`, `get(body ?? {}, "a") != nil`,
		`(headers["x-state"] ?? "") == "done"`, `"x-state" in headers`, `len(headers) > 9`}
	var config strings.Builder
	config.WriteString("\nenv: test\ntools:\n  pay:\n    base_url: FAR\n    routes:\n")
	for i, e := range append(reads, `status == 201`) {
		fmt.Fprintf(&config, "      - {match: \"POST /is/%d\", key: \"{cart}\", reconcile: {get: \"/x/{cart}\", happened: '%s'}}\n", i, e)
		fmt.Fprintf(&config, "      - {match: \"POST /not/%d\", key: \"{cart}\", reconcile: {get: \"/x/{cart}\", happened: \"status == 202\", not_happened: 'not (%s)'}}\n", i, e)
	}
	r := newRig(t, config.String())
	for _, body := range []string{"", " ", "we are in maintenance", `{"items":[1],"items":[]}`, `{"items":[]`, `{"items":[]}{}`, `{"id":123456789012345678901}`, "\xff"} {
		for i := range len(reads) + 1 {
			want := intent.CannotTell
			if i == len(reads) { // the status alone decides
				want = intent.DidNotHappen
			}
			for _, path := range []string{"/is", "/not"} {
				r.far.says(200, body)
				if f := r.check(r.lose(tool(fmt.Sprintf("%s/%d", path, i)), `{"cart":"c1"}`, nil)); f.Found != want || f.Reason == "" {
					t.Errorf("%s %d of %q: %s, %q", path, i, body, f.Found, f.Reason)
				}
			}
		}
	}
}
