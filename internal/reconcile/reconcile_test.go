package reconcile_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver"
	"go.uber.org/goleak"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/reconcile"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// far is a far side whose answers a test writes; it records what it was asked.
type far struct {
	mu      sync.Mutex
	asked   []*http.Request
	status  int
	body    string
	headers map[string]string
}

func (f *far) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r)
	w.Header().Set("Content-Type", "application/json")
	for k, v := range f.headers {
		w.Header().Set(k, v)
	}
	w.WriteHeader(f.status)
	_, _ = io.WriteString(w, f.body)
}

func (f *far) says(status int, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status, f.body, f.asked = status, body, nil
}

func (f *far) last() *http.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asked) == 0 {
		return nil
	}
	return f.asked[len(f.asked)-1]
}

type rig struct {
	*testing.T
	far    *far
	url    string
	store  ledger.Ledger
	log    *intent.Log
	policy *policy.Config
	set    *reconcile.Set
}

// newRig has the configuration yaml, in which FAR is the far side and DIR a folder.
func newRig(t *testing.T, yaml string) *rig {
	t.Helper()
	r := &rig{T: t, far: &far{status: 200}}
	server := httptest.NewServer(r.far)
	r.url = server.URL
	dir := t.TempDir()
	cfg, faults := policy.Parse("test.yaml", []byte(strings.NewReplacer("FAR", r.url, "DIR", dir).Replace(yaml)), os.LookupEnv)
	if cfg == nil {
		t.Fatal(faults)
	}
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "log.db"), Env: "test"})
	if err != nil {
		t.Fatal(err)
	}
	r.store, r.policy = store, cfg
	r.log = intent.New(intent.Config{Ledger: store, Exclusive: true})
	client := upstream.New(upstream.Config{})
	if r.set, err = reconcile.New(t.Context(), reconcile.Config{Policy: cfg, Ledger: store, Upstream: client}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.set.Close(); err != nil {
			t.Error(err)
		}
		client.CloseIdle()
		server.Close()
		r.log.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// lose makes an unknown operation.
func (r *rig) lose(h ledger.Intent, request string, partial *ledger.Body) *ledger.Record {
	r.Helper()
	h.Tenant, h.Effect, h.Hold, h.MaxAttempts = "main", ledger.EffectExternal, true, 1
	h.Key = fmt.Sprintf("idem:test:main:%s:%d", h.Workflow, len(request))
	b := intent.Begin{Head: h, Attempt: &intent.Attempt{Route: "r", Tier: "t"}, Visibility: ledger.VisBefore}
	if request != "" {
		b.Request = &ledger.Body{Kind: ledger.BodyRequest, Data: []byte(request)}
	}
	o, err := r.log.Begin(b)
	if err == nil {
		err = o.Lose(intent.Ending{Billed: true, Reason: "no answer"}, partial)
	}
	if err != nil {
		r.Fatal(err)
	}
	rec, err := r.store.Get(r.Context(), o.ID())
	if err != nil {
		r.Fatal(err)
	}
	return rec
}

func (r *rig) check(rec *ledger.Record) intent.Finding {
	r.Helper()
	plan, ok := r.set.Plan(rec)
	if !ok {
		r.Fatal("there is no plan")
	}
	f, err := plan.Reconciler.Check(r.Context(), rec)
	if err != nil {
		r.Logf("check: %v", err)
		f.Found = intent.CannotTell
	}
	return f
}

const getConfig = `
env: test
tools:
  pay:
    base_url: FAR/api
    headers: {X-Api-Key: "shop-credential"}
    routes:
      - {match: "POST /charges", key: "{cart}", timeout: 5s, reconcile: {get: "/charges?ref={key}&cart={cart}", happened: "len(body.items) > 0"}}
      - {match: "POST /orders", key: "{cart}", reconcile: {get: "/orders/{cart}", happened: "body.state == 'paid'", not_happened: "body.state == 'void'", when: batch, every: 7m, attempts: 3, quiet: 2m}}
      - {match: "POST /elsewhere", key: "{cart}", reconcile: {get: "FAR2/x/{cart}", happened: "status == 200"}}
      - {match: "POST /head", key: "{cart}", reconcile: {get: "HEAD /x/{cart}", happened: "status == 200"}}
      - {match: "POST /none", key: "{cart}"}
`

func tool(path string) ledger.Intent {
	return ledger.Intent{Workflow: "pay", Provider: "tool", Method: "POST", Path: "/tools/pay" + path, Endpoint: "POST " + path}
}

func TestGet(t *testing.T) {
	r := newRig(t, strings.ReplaceAll(getConfig, "FAR2", "http://127.0.0.1:1"))
	rec := r.lose(tool("/charges"), `{"cart":"a/b c"}`, nil)
	plan, _ := r.set.Plan(rec)
	if plan.Quiet.Seconds() != 60 || plan.Every.Seconds() != 60 || plan.Attempts != 5 || plan.Batch || plan.Wanted || plan.Name != "reconciler get" {
		t.Errorf("%+v", plan)
	}
	for _, c := range []struct {
		status int
		body   string
		want   intent.Found
	}{
		{200, `{"items":[{"id":1}]}`, intent.Happened},
		{200, `{"items":[]}`, intent.DidNotHappen},
		{404, `nothing`, intent.CannotTell}, // the address may be wrong: only a query names the operation
		{410, ``, intent.CannotTell},
		{200, `{"items":[1],"items":[]}`, intent.CannotTell},
		{200, `{"items":[],"items":[1]}`, intent.CannotTell},
		{200, `{"items":""}`, intent.CannotTell},
		{200, `{"items":"x"}`, intent.CannotTell},
		{200, `{"items":{}}`, intent.CannotTell},
		{200, `{"items":null}`, intent.CannotTell},
		{200, `{"error":"try later"}`, intent.CannotTell},
		{200, ``, intent.CannotTell},
		{200, `null`, intent.CannotTell},
		{200, `{"items":[]`, intent.CannotTell},
		{200, `{"items":[]}{"items":[1]}`, intent.CannotTell},
		{202, `{"items":[]}`, intent.CannotTell},
		{206, `{"items":[]}`, intent.CannotTell},
		{204, ``, intent.CannotTell},
		{422, `{"items":[]}`, intent.CannotTell},
		{409, `{"items":[]}`, intent.CannotTell},
		{200, `<html>`, intent.CannotTell},
		{200, `{"other":1}`, intent.CannotTell},
		{400, `{"items":[]}`, intent.CannotTell},
		{401, `{"items":[]}`, intent.CannotTell},
		{403, `{"items":[]}`, intent.CannotTell},
		{429, `{"items":[]}`, intent.CannotTell},
		{500, `{"items":[]}`, intent.CannotTell},
		{503, `{"items":[1]}`, intent.CannotTell},
		{302, `{"items":[1]}`, intent.CannotTell},
		{200, `{"items":[1],"pad":"` + strings.Repeat("x", 1<<20) + `"}`, intent.CannotTell},
	} {
		r.far.says(c.status, c.body)
		f := r.check(rec)
		if f.Found != c.want || f.Reason == "" || !json.Valid(f.Evidence) {
			t.Errorf("%d %.40s: %s, %q, %s; want %s", c.status, c.body, f.Found, f.Reason, f.Evidence, c.want)
		}
		if strings.Contains(string(f.Evidence), "a/b") {
			t.Errorf("the evidence holds what the caller asked for: %s", f.Evidence)
		}
		if (f.Answer != nil) != (c.want == intent.Happened) {
			t.Errorf("%d %.40s: answer %+v", c.status, c.body, f.Answer)
		}
	}
	secret, err := r.store.Secret(t.Context(), "hmac")
	if err != nil {
		t.Fatal(err)
	}
	asked := r.far.last()
	if asked.Method != "GET" || asked.URL.Path != "/api/charges" || asked.Header.Get("X-Api-Key") != "shop-credential" ||
		asked.URL.Query().Get("ref") != idempotency.OutboundKey(secret, rec.Key) || asked.URL.Query().Get("cart") != "a/b c" {
		t.Errorf("asked %s %s %v", asked.Method, asked.URL, asked.Header)
	}
}

func TestGetTemplates(t *testing.T) {
	r := newRig(t, strings.ReplaceAll(getConfig, "FAR2", "http://127.0.0.1:1"))
	r.far.says(200, `{"state":"paid"}`)
	for request, path := range map[string]string{
		`{"cart":"c 1?x=1#y"}`:          "/api/orders/c%201%3Fx=1%23y",
		`{"cart":12345678901234567890}`: "/api/orders/12345678901234567890",
		`{"cart":"../admin"}`:           "",
		`{"cart":".."}`:                 "",
		`{"cart":"."}`:                  "",
		`{"cart":"a/b"}`:                "",
		`{"cart":"a\\b"}`:               "",
		`{"cart":""}`:                   "",
		`{"cart":null}`:                 "",
		`{"cart":{"a":1}}`:              "",
		`{"other":1}`:                   "",
		`no JSON`:                       "",
		``:                              "",
		`{"cart":"@169.254.169.254"}`:   "/api/orders/@169.254.169.254",
		`{"cart":"` + strings.Repeat("x", 2000) + `"}`: "",
	} {
		r.far.says(200, `{"state":"paid"}`)
		f := r.check(r.lose(tool("/orders"), request, nil))
		asked := r.far.last()
		switch {
		case path == "" && (asked != nil || f.Found != intent.CannotTell):
			t.Errorf("%.60s: asked %v, %s", request, asked.URL, f.Found)
		case path != "" && (asked == nil || asked.URL.EscapedPath() != path || f.Found != intent.Happened):
			t.Errorf("%.60s: asked %v, %s", request, asked, f.Found)
		}
	}
	rec := r.lose(tool("/orders"), `{"cart":"c1"}`, nil)
	for body, want := range map[string]intent.Found{`{"state":"paid"}`: intent.Happened, `{"state":"void"}`: intent.DidNotHappen, `{"state":"new"}`: intent.CannotTell} {
		r.far.says(200, body)
		if f := r.check(rec); f.Found != want {
			t.Errorf("%s: %s", body, f.Found)
		}
	}
	plan, _ := r.set.Plan(rec)
	if !plan.Batch || plan.Every.Minutes() != 7 || plan.Attempts != 3 || plan.Quiet.Minutes() != 2 {
		t.Errorf("%+v", plan)
	}
	if _, ok := r.set.Plan(r.lose(tool("/none"), `{"cart":"c1"}`, nil)); ok {
		t.Error("a route without a reconciler has a plan")
	}
	r.far.says(200, "")
	if f := r.check(r.lose(tool("/head"), `{"cart":"c1"}`, nil)); f.Found != intent.Happened || r.far.last().Method != "HEAD" || f.Answer != nil {
		t.Errorf("%+v", f)
	}
}

// A credential goes to the far side that it is for, and to no other.
func TestGetElsewhere(t *testing.T) {
	other := &far{status: 200, body: "{}"}
	server := httptest.NewServer(other)
	defer server.Close()
	r := newRig(t, strings.ReplaceAll(getConfig, "FAR2", server.URL))
	if f := r.check(r.lose(tool("/elsewhere"), `{"cart":"c1"}`, nil)); f.Found != intent.Happened {
		t.Errorf("%+v", f)
	}
	if got := other.last(); got == nil || got.Header.Get("X-Api-Key") != "" {
		t.Errorf("asked %+v", got)
	}
	for _, host := range []string{"{host}", "a.{host}", "u@h", "{host}:80"} {
		if cfg, _ := policy.Parse("x.yaml", []byte(`{env: test, tools: {a: {base_url: "http://127.0.0.1", routes: [{match: "POST /", reconcile: {get: "http://`+host+
			`/x", happened: "true"}}]}}}`), os.LookupEnv); cfg != nil {
			t.Errorf("%s is accepted as a host", host)
		}
	}
}

const sqlConfig = `
env: test
workflows:
  refunds: {effect: external, reconcile: {sql: "SELECT id, amount, note FROM charges WHERE ref = $1", dsn: "sqlite:DIR/far.db", happened: "len(result) > 0 && result[0].amount > 1"}}
  writes: {match: {paths: ["/w"]}, effect: external, reconcile: {sql: "SELECT count(*) AS n FROM charges WHERE ref = $1", dsn: "sqlite:DIR/none.db", happened: "result[0].n > 0"}}
`

func TestSQL(t *testing.T) {
	r := newRig(t, sqlConfig)
	rec := r.lose(ledger.Intent{Workflow: "refunds", Provider: "openai", Method: "POST", Path: "/x"}, "", nil)
	if f := r.check(rec); f.Found != intent.CannotTell || !strings.Contains(f.Reason, "unable to open database file") {
		t.Errorf("a database that is not there: %+v", f)
	}
	dsn := r.policy.Workflow("refunds").Reconcile.DSN.Path()
	if _, err := os.Stat(dsn); err == nil {
		t.Error("reading made a database")
	}
	db, err := sql.Open("sqlite3", "file:"+dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	secret, err := r.store.Secret(t.Context(), "hmac")
	if err != nil {
		t.Fatal(err)
	}
	exec := func(q string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), q, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TABLE charges(id INTEGER PRIMARY KEY, ref TEXT, amount INTEGER, note BLOB)`)
	if f := r.check(rec); f.Found != intent.DidNotHappen {
		t.Errorf("no row: %+v", f)
	}
	exec(`INSERT INTO charges(ref, amount, note) VALUES (?, 5, x'00ff')`, idempotency.OutboundKey(secret, rec.Key))
	if f := r.check(rec); f.Found != intent.Happened || !strings.Contains(string(f.Evidence), `"rows":1`) || f.Answer != nil {
		t.Errorf("a row: %+v", f)
	}
	for i := range 150 {
		exec(`INSERT INTO charges(ref, amount) VALUES (?, ?)`, idempotency.OutboundKey(secret, rec.Key), i)
	}
	if f := r.check(rec); f.Found != intent.CannotTell || !strings.Contains(f.Reason, "more than 100 rows") {
		t.Errorf("too many rows: %+v", f)
	}
}

const openAIConfig = `
env: test
providers:
  openai: {type: openai, base_url: "FAR/v1", api_key: "provider-credential"}
  bare: {type: openai, base_url: "FAR/v1"}
workflows:
  agents: {on_unknown: hold, reconcile: {openai_response: true}}
`

func TestOpenAIResponse(t *testing.T) {
	r := newRig(t, openAIConfig)
	h := ledger.Intent{Workflow: "agents", Provider: "openai", Method: "POST", Path: "/v1/responses", Endpoint: "responses"}
	partial := &ledger.Body{Kind: ledger.BodyPartial, Data: []byte("event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\": \"resp_1\",\"status\":\"in_progress\"}}\n\n")}
	rec := r.lose(h, "", partial)
	for body, want := range map[string]intent.Found{
		`{"id":"resp_1","status":"completed","output":[]}`:         intent.Happened,
		`{"id":"resp_1","status":"incomplete"}`:                    intent.Happened,
		`{"id":"resp_1","status":"in_progress"}`:                   intent.CannotTell,
		`{"id":"resp_1","status":"failed"}`:                        intent.CannotTell,
		`{}`:                                                       intent.CannotTell,
		`{"id":"resp_2","status":"completed"}`:                     intent.CannotTell,
		`{"id":"resp_1","status":"completed","status":"failed"}`:   intent.CannotTell,
		`{"id":"resp_1","status":"failed","status":"completed"}`:   intent.CannotTell,
		`{"id":"resp_1","status":["completed"]}`:                   intent.CannotTell,
		`{"id":"resp_1","status":"completed"`:                      intent.CannotTell,
		`{"object":"error","id":"resp_1","message":"unavailable"}`: intent.CannotTell,
	} {
		r.far.says(200, body)
		f := r.check(rec)
		if f.Found != want || (f.Answer != nil) != (want == intent.Happened) {
			t.Errorf("%s: %+v", body, f)
		}
		if want == intent.Happened && string(f.Body.Data) != body {
			t.Errorf("answer %s", f.Body.Data)
		}
	}
	if asked := r.far.last(); asked.URL.Path != "/v1/responses/resp_1" || asked.Header.Get("Authorization") != "Bearer provider-credential" {
		t.Errorf("asked %s %v", asked.URL, asked.Header)
	}
	r.far.says(404, `{}`)
	if f := r.check(rec); f.Found != intent.CannotTell {
		t.Errorf("a response that was not stored: %+v", f)
	}
	r.far.says(200, `{"id":"resp_2","status":"completed"}`)
	if f := r.check(r.lose(h, "", nil)); f.Found != intent.CannotTell || r.far.last() != nil {
		t.Errorf("without an id: %+v", f)
	}
	noted := r.lose(h, "", nil)
	r.log.Load(noted).Note(ledger.Event{Kind: "note", Reason: "the response's id", Evidence: json.RawMessage(`{"response_id":"resp_2"}`)})
	if err := r.log.Load(noted).Evidence(intent.Ending{Reason: "later"}, nil); err != nil { // behind the note
		t.Fatal(err)
	}
	if f := r.check(noted); f.Found != intent.Happened || r.far.last().URL.Path != "/v1/responses/resp_2" {
		t.Errorf("by its note: %+v", f)
	}
	h.Provider = "bare"
	if f := r.check(r.lose(h, "", partial)); f.Found != intent.CannotTell {
		t.Errorf("without a key of its own: %+v", f)
	}
}

const storedConfig = `
env: test
providers:
  openai: {type: openai, base_url: "FAR/v1", api_key: "provider-credential"}
workflows:
  chat: {on_unknown: hold, reconcile: {openai_response: true, metadata: true}}
  plain: {match: {paths: ["/p"]}, on_unknown: hold, reconcile: {openai_response: true}}
`

// TestStoredCompletion believes a mark alone, on whichever page it stands, and no absence.
func TestStoredCompletion(t *testing.T) {
	r := newRig(t, storedConfig)
	secret, err := r.store.Secret(t.Context(), "hmac")
	if err != nil {
		t.Fatal(err)
	}
	h := ledger.Intent{Workflow: "chat", Provider: "openai", Method: "POST", Path: "/v1/chat/completions", Endpoint: "chat.completions"}
	unmarked := r.lose(h, "", nil)
	if f := r.check(unmarked); f.Found != intent.CannotTell || r.far.last() != nil {
		t.Errorf("nothing was written into it: %+v", f)
	}
	mark := func(rec *ledger.Record, value string) {
		r.log.Load(rec).Note(ledger.Event{Kind: "note", Evidence: json.RawMessage(`{"metadata":{"holdfast":"` + value + `"}}`)})
		if err := r.log.Load(rec).Evidence(intent.Ending{Reason: "later"}, nil); err != nil { // behind the note
			t.Fatal(err)
		}
	}
	mark(unmarked, "of another operation")
	if f := r.check(unmarked); f.Found != intent.CannotTell || r.far.last() != nil {
		t.Errorf("another's mark: %+v", f)
	}
	rec := r.lose(h, "x", nil)
	own := idempotency.OutboundKey(secret, rec.ID)
	mark(rec, own)
	one := `{"id":"chatcmpl-2","object":"chat.completion","metadata":{"holdfast":"` + own + `"},"choices":[]}`
	other := `{"id":"chatcmpl-1","metadata":{"holdfast":"x","n":"` + own + `"}}`
	for body, want := range map[string]intent.Found{
		`{"object":"list","data":[` + one + `],"has_more":false}`:                     intent.Happened,
		`{"data":[` + other + `,` + one + `],"has_more":true,"last_id":"chatcmpl-2"}`: intent.Happened,
		`{"data":[` + other + `],"has_more":false,"last_id":"chatcmpl-1"}`:            intent.CannotTell, // it does not filter
		`{"data":[],"has_more":false}`:                                                intent.CannotTell,
		`{"data":[` + other + `],"has_more":true,"last_id":"chatcmpl-1"}`:             intent.CannotTell, // for ever
		`{"data":{"0":` + one + `}}`:                                                  intent.CannotTell,
		`no json`:                                                                     intent.CannotTell,
	} {
		r.far.says(200, body)
		f := r.check(rec)
		if f.Found != want || (f.Answer != nil) != (want == intent.Happened) || want == intent.Happened && string(f.Body.Data) != one {
			t.Errorf("%s: %+v", body, f)
		}
		if asked := r.far.last(); asked.URL.Query().Get("metadata[holdfast]") != own || asked.URL.Path != "/v1/chat/completions" || asked.Header.Get("Authorization") != "Bearer provider-credential" {
			t.Errorf("asked %s %v", asked.URL, asked.Header)
		}
	}
	r.far.says(200, `{"data":[`+other+`],"has_more":true,"last_id":"chatcmpl-1"}`)
	if _ = r.check(rec); r.far.last().URL.Query().Get("after") != "chatcmpl-1" {
		t.Errorf("the next page: %s", r.far.last().URL)
	}
	r.far.says(403, `{}`)
	if f := r.check(rec); f.Found != intent.CannotTell {
		t.Errorf("refused: %+v", f)
	}
	h.Workflow = "plain"
	if f := r.check(r.lose(h, "xy", nil)); f.Found != intent.CannotTell || !strings.Contains(f.Reason, "metadata") {
		t.Errorf("not opted in: %+v", f)
	}
}

const mcpConfig = `
env: test
mcp:
  servers:
    orders:
      url: FAR/mcp
      tools:
        create_order: {key: "{customer_id}", reconcile: {tool: find_order, arguments: {customer: "{customer_id}", n: "{count}", text: "order {count} of {customer_id}"}, happened: "len(result.orders) > 0"}}
        lenient: {key: "{customer_id}", reconcile: {tool: find_order, arguments: {customer: "{customer_id}"}, happened: 'type(result) == "map"'}}
        keyed: {key: "{customer_id}", reconcile: {tool: find_order, arguments: {customer: "{customer_id}"}, happened: "len(result.orders) > 0", not_happened: 'result == "unknown customer"'}}
`

type reader func(server, tool string, arguments json.RawMessage) (any, bool, error)

func (f reader) ReadTool(_ context.Context, r *ledger.Record, tool string, arguments json.RawMessage) (any, bool, error) {
	return f(r.Workflow, tool, arguments)
}

func TestTool(t *testing.T) {
	r := newRig(t, mcpConfig)
	rec := r.lose(ledger.Intent{Workflow: "orders", Provider: "mcp", Method: "tools/call", Path: "/mcp/orders", Endpoint: "create_order"},
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_order","arguments":{"customer_id":"c1","count":12345678901234567890}}}`, nil)
	plan, _ := r.set.Plan(rec)
	if _, err := plan.Reconciler.Check(t.Context(), rec); !errors.Is(err, intent.ErrNotNow) {
		t.Errorf("without a way to the server: %v", err)
	}
	var result any
	var isError bool
	var failed error
	r.set.ReadTools(reader(func(server, tool string, arguments json.RawMessage) (any, bool, error) {
		if server != "orders" || tool != "find_order" || !strings.Contains(string(arguments), `"customer":"c1"`) {
			t.Errorf("called %s of %s with %s", tool, server, arguments)
		}
		if want := `"n":12345678901234567890,"text":"order 12345678901234567890 of c1"`; strings.Contains(string(arguments), `"n"`) && !strings.Contains(string(arguments), want) {
			t.Errorf("called with %s", arguments)
		}
		return result, isError, failed
	}))
	other := r.lose(ledger.Intent{Workflow: "orders", Provider: "mcp", Method: "tools/call", Path: "/mcp/orders", Endpoint: "keyed"},
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"keyed","arguments":{"customer_id":"c1"}}}`, nil)
	for _, c := range []struct {
		rec     *ledger.Record
		result  any
		isError bool
		err     error
		want    intent.Found
	}{
		{rec, map[string]any{"orders": []any{1}}, false, nil, intent.Happened},
		{rec, map[string]any{"orders": []any{}}, false, nil, intent.DidNotHappen},
		{rec, map[string]any{"orders": []any{1}}, true, nil, intent.CannotTell},
		{rec, map[string]any{"orders": []any{}}, true, nil, intent.CannotTell},
		{rec, "some text", false, nil, intent.CannotTell},
		{rec, nil, false, errors.New("it writes"), intent.CannotTell},
		{other, "unknown customer", true, nil, intent.DidNotHappen},
		{other, "the database is busy", true, nil, intent.CannotTell},
	} {
		result, isError, failed = c.result, c.isError, c.err
		if f := r.check(c.rec); f.Found != c.want {
			t.Errorf("%v: %+v", c.result, f)
		}
	}
}

// TestReadsShowNoSecret holds semantics 45 for what is read: it is judged as it came, and kept and given without the secrets that the far
// side is sent.
func TestReadsShowNoSecret(t *testing.T) {
	const secret = "shop-secret-4711-abcdef"
	r := newRig(t, `
env: test
tools:
  shop:
    base_url: FAR
    headers: {X-Shop-Token: "shop-secret-4711-abcdef"}
    routes: [{match: "POST /*", key: "{cart}", reconcile: {get: "/find?ref={key}", happened: 'any(body.items, .state == "shop-secret-4711-abcdef") && headers["x-state"] == "shop-secret-4711-abcdef"'}}]
mcp:
  servers:
    orders:
      url: FAR/mcp
      headers: {Authorization: "Bearer shop-secret-4711-abcdef"}
      tools: {create_order: {key: "{customer_id}", reconcile: {tool: find_order, arguments: {customer: "{customer_id}"}, happened: 'result.state == "shop-secret-4711-abcdef"'}}}
`)
	r.far.headers = map[string]string{"X-State": secret, "Content-Type": "application/json;x=" + secret}
	r.far.says(200, `{"items":[{"state":"`+secret+`"}]}`)
	r.set.ReadTools(reader(func(string, string, json.RawMessage) (any, bool, error) {
		return map[string]any{"state": secret}, false, nil
	}))
	for _, rec := range []*ledger.Record{
		r.lose(ledger.Intent{Workflow: "shop", Provider: "tool", Method: "POST", Path: "/tools/shop/a", Endpoint: "POST /*"}, `{"cart":"c1"}`, nil),
		r.lose(ledger.Intent{Workflow: "orders", Provider: "mcp", Method: "tools/call", Path: "/mcp/orders", Endpoint: "create_order"},
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_order","arguments":{"customer_id":"c1"}}}`, nil),
	} {
		f := r.check(rec)
		if f.Found != intent.Happened || !strings.Contains(string(f.Read), strings.Repeat("*", len(secret))) {
			t.Errorf("%s: %v %s: %s", rec.Workflow, f.Found, f.Reason, f.Read)
		}
		shown := f.Reason + string(f.Evidence) + string(f.Read)
		if f.Answer != nil {
			shown += fmt.Sprint(f.Answer.Header, f.Body.ContentType, string(f.Body.Data))
		}
		if strings.Contains(shown, secret) {
			t.Errorf("%s: a secret is kept: %s", rec.Workflow, shown)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("/a/{b}?c={d.e}", `{"b":"x","d":{"e":1}}`)
	f.Add("/{{x}}/{b}", `{"b":"../y"}`)
	f.Add("{key}", `{}`)
	f.Add("/{b}?c=#/a/{b}", `{"b":"x"}`)
	f.Fuzz(func(t *testing.T, text, arguments string) { reconcile.CheckAddress(t, text, []byte(arguments)) })
}
