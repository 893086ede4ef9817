package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/reconcile"
	"github.com/holdfast-ai/holdfast/internal/sim"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
)

// toolConfig has tools before the simulator: each with another policy.
const toolConfig = `
env: test
tools:
  pay:
    base_url: SIM/api
    headers: {X-Api-Key: "shop-credential"}
    routes:
      - {match: "POST /charges", key: "{customer}:{cart}", timeout: 2s,
         reconcile: {get: "/charges?key={key}", happened: "len(body.items) > 0", every: 50ms, quiet: 300ms}}
      - {match: "POST /late", key: "{customer}:{cart}", timeout: 400ms,
         reconcile: {get: "/charges?key={key}", happened: "len(body.items) > 0", every: 50ms, quiet: 300ms}}
      - {match: "POST /held", key: "{cart}", timeout: 2s}
      - {match: "POST /worded", key: "{cart}", ignore: [note], timeout: 2s}
      - {match: "POST /sure", key: "{cart}", definite: [500], timeout: 2s}
      - {match: "POST /words", key: "{cart}", timeout: 2s, succeeded: ['body.status == "done"'], failed: ['body.status == "refused"']}
      - {match: "POST /watched", key: "{cart}", mode: observe}
      - {match: "POST /slow", key: "{cart}", timeout: 300ms}
      - {match: "GET /search", effect: external}
`

// newToolRig is a rig whose unknown outcomes are looked for.
func newToolRig(t *testing.T, options ...option) *rig {
	r := newRig(t, append([]option{func(c *rigConfig) { c.yaml = toolConfig }}, options...)...)
	r.patrol()
	return r
}

func (r *rig) patrol() {
	set, err := reconcile.New(context.Background(), reconcile.Config{Policy: r.policy, Ledger: r.store, Upstream: upstream.New(upstream.Config{})})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.log.Reconcile(ctx, intent.Patrol{Plan: set.Plan}) }()
	r.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
		if err := set.Close(); err != nil {
			r.t.Error(err)
		}
	})
}

// charge is a call of the tool pay; op tells tests apart, cart is the business key.
func charge(path, op string) request {
	return request{path: "/tools/pay" + path, body: fmt.Sprintf(`{"customer":"c1","cart":%q,"note":"op=%s"}`, op, op)}
}

// toolFailure reads the plain envelope.
func toolFailure(t *testing.T, a *answered) (e struct {
	Code, Message, Intent string
	Safe                  string `json:"safe_to_retry"`
	Wait                  int64  `json:"retry_after_ms"`
}) {
	t.Helper()
	var doc struct{ Error json.RawMessage }
	if err := json.Unmarshal(a.body, &doc); err != nil || json.Unmarshal(doc.Error, &e) != nil || e.Code == "" {
		t.Fatalf("no plain envelope: %d %s", a.status, a.body)
	}
	if a.header.Get("Holdfast-Error") != e.Code || a.header.Get("Holdfast-Safe-To-Retry") != e.Safe {
		t.Errorf("headers and envelope differ: %v %s", a.header, a.body)
	}
	return e
}

func (r *rig) effects(op string, want int) {
	r.t.Helper()
	if got := len(r.sim.Effects(op)); got != want {
		r.t.Errorf("op %s: %d effects, want %d", op, got, want)
	}
}

func TestToolCall(t *testing.T) {
	r := newToolRig(t)
	first := r.must(charge("/charges", "once"), 200)
	second := r.must(charge("/charges", "once"), 200)
	if string(first.body) != string(second.body) || second.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("no replay: %s %s %v", first.body, second.body, second.header)
	}
	other := charge("/charges", "once")
	other.body = strings.Replace(other.body, "{", `{"client_ts":"later","request_id":"r-2","tool_call_id":"call_2",`, 1) // made anew for each try
	if a := r.must(other, 200); string(a.body) != string(first.body) {
		t.Errorf("business arguments did not make the key: %s", a.body)
	}
	r.effects("once", 1)
	call := r.sim.Calls("once")[0]
	if call.Path != "/api/charges" || len(call.Key) != 36 || strings.Contains(call.Key, "once") {
		t.Errorf("sent %+v", call)
	}
	rec := r.settled(first.header.Get("Holdfast-Intent"))
	if rec.Provider != "tool" || rec.Workflow != "pay" || rec.Endpoint != "POST /charges" || rec.Path != "/tools/pay/charges" ||
		rec.Effect != ledger.EffectExternal || !rec.Hold {
		t.Errorf("recorded as %+v", rec.Intent)
	}
	if b, err := r.store.Body(t.Context(), rec.ID, ledger.BodyRequest); err != nil || !strings.Contains(string(b.Data), `"cart"`) {
		t.Errorf("what was asked: %v %v", b, err)
	}
}

// Other arguments under a business key would be lost in the first call's answer: they are refused, whatever the first call is
// doing, as by the MCP proxy, but for those that ignore names.
func TestToolBusinessKeyReused(t *testing.T) {
	r := newToolRig(t)
	other := func(path, op string) request {
		q := charge(path, op)
		q.body = strings.Replace(q.body, "op=", "another amount op=", 1)
		return q
	}
	first := r.must(charge("/charges", "reused"), 200)
	refused := func(q request) {
		t.Helper()
		if e := toolFailure(t, r.must(q, 422)); e.Code != string(gateway.CodeKeyReused) || e.Safe != "no" || !strings.Contains(e.Message, "{customer}:{cart}") {
			t.Errorf("%+v", e)
		}
	}
	refused(other("/charges", "reused"))
	if again := r.must(charge("/charges", "reused"), 200); string(again.body) != string(first.body) {
		t.Errorf("the record of the first call was touched: %s", again.body)
	}
	r.effects("reused", 1)

	r.stepped("unsure", "reply_lost")
	r.must(charge("/late", "unsure"), 409)
	refused(other("/late", "unsure"))
	r.effects("unsure", 1)

	r.must(charge("/worded", "worded"), 200)
	if a := r.must(other("/worded", "worded"), 200); a.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("what the policy ignores counts: %v", a.header)
	}
	r.effects("worded", 1)

	r.close()
	r.start(rigConfig{})
	refused(other("/charges", "reused"))
	r.effects("reused", 1)
}

// The far side gets the same key on every attempt, over a restart too.
func TestToolOutboundKey(t *testing.T) {
	r := newToolRig(t)
	r.script("keyed", "500", "500", "ok")
	r.must(charge("/sure", "keyed"), 200)
	if c := r.sim.Counts("keyed"); c.Calls != 3 || len(c.Keys) != 1 || c.Effects != 1 {
		t.Errorf("%+v", c)
	}
}

// What a client's library makes anew for each try is no part of what is asked for (interface.md §4).
func TestToolCallIDsDoNotCount(t *testing.T) {
	r := newToolRig(t)
	ask := func(id, title string) *answered {
		return r.must(request{path: "/tools/pay/tickets", body: fmt.Sprintf(`{"tool_call_id":%q,"title":%q,"note":"op=ids"}`, id, title)}, 200)
	}
	ask("call_1", "disk full")
	if a := ask("call_2", "disk full"); a.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("another tool_call_id made another operation")
	}
	ask("call_3", "disk fuller")
	r.effects("ids", 2)
}

// TestToolFaults is the table of faults: however the far side behaves, a key has at most one effect, and it is unknown
// exactly where evidence is missing.
func TestToolFaults(t *testing.T) {
	for _, c := range []struct {
		name, path string
		steps      []string
		first      int    // status of the first answer
		code       string // Holdfast-Error of it
		outcome    ledger.Outcome
		state      ledger.State
		effects    int
	}{
		{"reply lost after the effect", "/charges", []string{"reply_lost"}, 409, "outcome_unknown", ledger.OutcomeSuccess, ledger.Settled, 1},
		{"reply lost before the effect", "/charges", []string{"reset_after_body"}, 409, "outcome_unknown", ledger.OutcomeFailed, ledger.Settled, 0},
		{"hangs before the effect", "/charges", []string{"hang"}, 409, "outcome_unknown", ledger.OutcomeFailed, ledger.Settled, 0},
		{"hangs after the effect", "/charges", []string{"hang_after_effect"}, 409, "outcome_unknown", ledger.OutcomeSuccess, ledger.Settled, 1},
		{"500 after the effect", "/charges", []string{"error_after_effect"}, 500, "outcome_unknown", ledger.OutcomeSuccess, ledger.Settled, 1},
		{"500 without an effect", "/charges", []string{"500"}, 500, "outcome_unknown", ledger.OutcomeFailed, ledger.Settled, 0},
		{"503 without Retry-After", "/charges", []string{`{"status":503,"headers":{"Retry-After":""}}`}, 503, "outcome_unknown", ledger.OutcomeFailed, ledger.Settled, 0},
		{"half an answer", "/charges", []string{"cut_byte:5"}, 409, "outcome_unknown", ledger.OutcomeSuccess, ledger.Settled, 1},
		{"no HTTP", "/charges", []string{"garbage"}, 409, "outcome_unknown", ledger.OutcomeSuccess, ledger.Settled, 1},
		{"refused for certain", "/charges", []string{"422"}, 422, "", ledger.OutcomeFailed, ledger.Settled, 0},
		{"409", "/charges", []string{"409"}, 409, "outcome_unknown", ledger.OutcomeUnknown, ledger.Unknown, 0},
		{"lost, and nobody to ask", "/held", []string{"reply_lost"}, 409, "outcome_unknown", ledger.OutcomeUnknown, ledger.Unknown, 1},
		{"500 that is definite here", "/sure", []string{"500", "500", "500"}, 500, "", ledger.OutcomeFailed, ledger.Settled, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newToolRig(t)
			op := "fault"
			r.stepped(op, c.steps...)
			q := charge(c.path, op)
			a := r.do(q)
			if a.err != nil || a.status != c.first || a.header.Get("Holdfast-Error") != c.code {
				t.Fatalf("first: %d %s %s %v", a.status, a.header.Get("Holdfast-Error"), a.body, a.err)
			}
			id := a.header.Get("Holdfast-Intent")
			if c.first == 409 && c.name != "409" {
				e := toolFailure(t, a)
				if e.Intent != id || e.Safe != "after-reconcile" || !strings.Contains(e.Message, "not known") {
					t.Errorf("%+v", e)
				}
				if asks := c.path == "/charges"; asks != (e.Wait > 0) || asks != (a.header.Get("Retry-After") != "") {
					t.Errorf("next check in %d ms, Retry-After %q", e.Wait, a.header.Get("Retry-After"))
				}
			}
			if c.code == "outcome_unknown" {
				if again := r.do(q); again.err != nil || again.header.Get("Holdfast-Intent") != id && c.outcome != ledger.OutcomeFailed {
					t.Errorf("again: %d %s %v", again.status, again.body, again.err)
				}
			}
			wait(t, func() bool { return r.record(id).State == c.state })
			rec := r.record(id)
			if rec.Outcome != c.outcome {
				t.Errorf("%s, %s", rec.State, rec.Outcome)
			}
			r.effects(op, c.effects)
			r.repeatOnce(q, c.outcome, c.effects, op)
		})
	}
}

// repeatOnce asks again when all is known: what happened is replayed, what did not is done now, what is unknown waits.
func (r *rig) repeatOnce(q request, outcome ledger.Outcome, effects int, op string) {
	r.t.Helper()
	a := r.do(q)
	switch {
	case a.err != nil:
		r.t.Error(a.err)
	case outcome == ledger.OutcomeSuccess && (a.status != 200 || a.header.Get("Idempotency-Replayed") != "true"):
		r.t.Errorf("what happened is not replayed: %d %s", a.status, a.body)
	case outcome == ledger.OutcomeUnknown && a.header.Get("Holdfast-Error") != "outcome_unknown":
		r.t.Errorf("what is unknown is not held: %d %s", a.status, a.body)
	case outcome == ledger.OutcomeFailed && a.status == 200:
		effects++
	}
	r.effects(op, effects)
}

// stepped scripts the calls that write; reads are answered as they are.
func (r *rig) stepped(op string, steps ...string) {
	r.t.Helper()
	rule := sim.Rule{Match: sim.Match{Op: op, Method: "POST"}}
	for _, s := range steps {
		var st sim.Step
		text := s
		if !strings.HasPrefix(s, "{") {
			p, _ := json.Marshal(s)
			text = string(p)
		}
		if err := json.Unmarshal([]byte(text), &st); err != nil {
			r.t.Fatal(err)
		}
		rule.Steps = append(rule.Steps, st)
	}
	if err := r.sim.AddRules(rule); err != nil {
		r.t.Fatal(err)
	}
}

// A far side that acts late, and shows it later still, after a first look found nothing, never acts twice.
func TestToolLateEffect(t *testing.T) {
	for _, step := range []string{`{"work_ms":600}`, `{"work_ms":450,"visible_after_ms":100}`, `{"visible_after_ms":250,"cut":{"at":"effect","how":"reset"}}`} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			r := newToolRig(t)
			r.stepped("late", step)
			q := charge("/late", "late")
			id := r.do(q).header.Get("Holdfast-Intent")
			for range 20 { // an impatient client
				if a := r.do(q); a.err != nil || a.status != 409 && a.status != 200 {
					t.Errorf("%d %s %v", a.status, a.body, a.err)
				}
				<-time.After(30 * time.Millisecond)
			}
			if rec := r.settled(id); rec.Outcome != ledger.OutcomeSuccess {
				t.Errorf("settled as %s", rec.Outcome)
			}
			r.effects("late", 1)
		})
	}
}

// Whose operation may have had its effect hears that, and not that nothing was sent, when the route takes no calls.
func TestToolHeldBehindAnOpenBreaker(t *testing.T) {
	r := newToolRig(t)
	r.stepped("held", "reply_lost")
	q := charge("/held", "held")
	id := r.do(q).header.Get("Holdfast-Intent")
	done := charge("/charges", "done")
	r.must(done, 200)
	r.close()
	r.start(rigConfig{}) // nothing is at hand in memory
	if _, err := r.routes.Trip("*", "incident 9"); err != nil {
		t.Fatal(err)
	}
	if f := toolFailure(t, r.do(charge("/held", "new"))); f.Code != "circuit_open" || f.Safe != "yes" {
		t.Errorf("a new call: %+v", f)
	}
	for range 2 {
		if f := toolFailure(t, r.must(q, 409)); f.Code != "outcome_unknown" || f.Safe != "after-reconcile" || f.Intent != id {
			t.Errorf("%+v", f)
		}
	}
	if a := r.must(done, 200); a.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("what is done is not replayed: %v", a.header)
	}
	r.effects("held", 1)
}

// An escape that says nothing does not choose another route's policy, or none.
func TestToolPathIsNormal(t *testing.T) {
	r := newToolRig(t)
	r.must(charge("/charges", "path"), 200)
	for _, path := range []string{"/%63harges", "/charge%73", "/x/../charges"} {
		q := charge(path, "path")
		if a := r.do(q); a.status == 200 && a.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s was executed: %d %s", path, a.status, a.body)
		}
	}
	r.effects("path", 1)
}

// Success and failure can be in the words of the answer; what is neither is unknown (semantics 4).
func TestToolWords(t *testing.T) {
	r := newToolRig(t)
	r.must(charge("/words", "fine"), 200)
	r.stepped("refused", `{"body":"{\"status\":\"refused\"}"}`)
	if a := r.do(charge("/words", "refused")); a.status != 502 || r.settled(a.header.Get("Holdfast-Intent")).Outcome != ledger.OutcomeFailed {
		t.Errorf("%d %s", a.status, a.body)
	}
	r.stepped("neither", `{"body":"{\"status\":\"maybe\"}"}`)
	if a := r.do(charge("/words", "neither")); r.record(a.header.Get("Holdfast-Intent")).State != ledger.Unknown {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// Reads are no intents; a route may say that its GET acts.
func TestToolReads(t *testing.T) {
	r := newToolRig(t)
	a := r.must(request{method: "GET", path: "/tools/pay/charges?customer=c1&op=read"}, 200)
	if a.header.Get("Holdfast-Intent") != "" || r.rows() != 0 {
		t.Errorf("a read left a row: %v", a.header)
	}
	a = r.must(request{method: "GET", path: "/tools/pay/search?q=1"}, 200)
	if a.header.Get("Holdfast-Intent") == "" {
		t.Errorf("a GET that acts left no row")
	}
}

// mode: observe changes nothing of a route.
func TestToolObserve(t *testing.T) {
	r := newToolRig(t)
	r.must(charge("/watched", "watched"), 200)
	r.must(charge("/watched", "watched"), 200)
	r.effects("watched", 2)
}

// Where nothing is configured nothing is sent, and a path cannot leave its server.
func TestToolRefusals(t *testing.T) {
	r := newToolRig(t)
	for path, code := range map[string]string{"/tools/nobody/charges": "not_found", "/tools/": "not_found",
		"/tools/pay/../admin": "invalid_request", "/tools/pay/%2e%2e/admin": "invalid_request"} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", r.server.URL, strings.NewReader(`{"op":1}`))
		if err != nil {
			t.Fatal(err)
		}
		req.URL.Opaque = path
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Holdfast-Error"); got != code {
			t.Errorf("%s: %q", path, got)
		}
	}
	for _, cart := range []string{`null`, `""`, `" "`, `[]`, `["k"]`, `{}`, `{"id":1}`} {
		a := r.do(request{path: "/tools/pay/charges", body: `{"customer":"c1","cart":` + cart + `}`})
		if a.status != 400 || toolFailure(t, a).Code != "invalid_request" || !strings.Contains(string(a.body), "cart in ") {
			t.Errorf("a request that the template does not fit: %d %s", a.status, a.body)
		}
	}
	if calls := r.sim.Calls(""); len(calls) != 0 {
		t.Errorf("sent %+v", calls)
	}
}

// Without a key template another write ends the window: A, B, A are three effects, and a retry is none (semantics 41).
func TestToolWritesInOrder(t *testing.T) {
	r := newToolRig(t)
	ask := func(what string) *answered {
		return r.must(request{path: "/tools/pay/lights", body: fmt.Sprintf(`{"light":%q,"note":"op=order"}`, what)}, 200)
	}
	var first []string
	for i, what := range []string{"on", "off", "on", "off"} {
		a := ask(what)
		if a.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("write %d, %s, was taken for a repetition", i, what)
		}
		if again := ask(what); string(again.body) != string(a.body) {
			t.Errorf("the retry of write %d was executed", i)
		}
		first = append(first, a.header.Get("Holdfast-Intent"))
	}
	r.effects("order", 4)
	if k := r.sim.Counts("order").Keys; len(k) != 4 {
		t.Errorf("the far side got %d keys for 4 effects: %v of %v", len(k), k, first)
	}
	// What is unknown is asked for again by its own retry, whatever was written meanwhile.
	r.stepped("lost", "reply_lost")
	q := request{path: "/tools/pay/lights", body: `{"light":"lost","note":"op=lost"}`}
	lost := r.do(q)
	ask("other")
	if again := r.do(q); again.header.Get("Holdfast-Intent") != lost.header.Get("Holdfast-Intent") || again.code() != "outcome_unknown" {
		t.Errorf("an unknown write was sent again: %d %s", again.status, again.body)
	}
	r.effects("lost", 1)
}

// BR-001: a tool that answers after its time-out. Its late answer is the evidence, and is replayed.
func TestBR001LateAnswer(t *testing.T) {
	r := newToolRig(t)
	r.stepped("tk-77", `{"hold":"late"}`)
	q := charge("/slow", "tk-77") // without a reconciler
	first := r.do(q)
	if e := toolFailure(t, first); e.Code != "outcome_unknown" {
		t.Fatalf("%+v", e)
	}
	if again := r.do(q); again.code() != "outcome_unknown" || again.header.Get("Holdfast-Intent") != first.header.Get("Holdfast-Intent") {
		t.Errorf("again: %d %s", again.status, again.body)
	}
	r.sim.Release("late")
	rec := r.settled(first.header.Get("Holdfast-Intent"))
	if rec.Outcome != ledger.OutcomeSuccess || rec.BilledMaybe != 1 {
		t.Errorf("%+v", rec.Status)
	}
	third := r.must(q, 200)
	if third.header.Get("Idempotency-Replayed") != "true" || !strings.Contains(string(third.body), "eff_") {
		t.Errorf("%v %s", third.header, third.body)
	}
	r.effects("tk-77", 1)
}

// A credential of ours keeps the client's here; without one the client's own goes on, and separates tenants.
func TestToolCredentials(t *testing.T) {
	var got []http.Header
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = append(got, r.Header.Clone()) }))
	defer far.Close()
	config := `
env: test
auth: {keys: [{key: "a-key-of-the-shop-123", tenant: shop, workflows: [bare]}, {key: "a-key-of-the-bank-123", tenant: bank}]}
tools:
  own: {base_url: "FAR", headers: {X-Api-Key: "service-credential"}}
  bare: {base_url: "FAR"}
`
	config = strings.ReplaceAll(config, "FAR", far.URL)
	send := func(r *rig, tool, key string) *answered {
		return r.do(request{path: "/tools/" + tool + "/x", body: `{"a":1}`}.with("Authorization", "Bearer "+key))
	}
	r := newToolRig(t, func(c *rigConfig) { c.yaml = config })
	if a := send(r, "own", "a-key-of-the-shop-123"); a.status != 403 {
		t.Errorf("a credential for another server: %d %s", a.status, a.body)
	}
	if a := send(r, "bare", "nobody"); a.status != 401 {
		t.Errorf("a stranger: %d %s", a.status, a.body)
	}
	a, b := send(r, "own", "a-key-of-the-bank-123"), send(r, "bare", "a-key-of-the-shop-123")
	if a.status != 200 || b.status != 200 || r.record(a.header.Get("Holdfast-Intent")).Tenant != "bank" || len(got) != 2 ||
		got[0].Get("X-Api-Key") != "service-credential" || got[0].Get("Authorization") != "" || got[1].Get("Authorization") != "" {
		t.Errorf("%d %d %v", a.status, b.status, got)
	}
	got = nil
	open := newToolRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(config, config[strings.Index(config, "auth:"):strings.Index(config, "tools:")], "", 1)
	})
	a, b = send(open, "own", "theirs"), send(open, "bare", "theirs")
	if tenant := open.record(a.header.Get("Holdfast-Intent")).Tenant; tenant != "main" || got[0].Get("Authorization") != "" {
		t.Errorf("tenant %s, sent %v", tenant, got[0])
	}
	if tenant := open.record(b.header.Get("Holdfast-Intent")).Tenant; !strings.HasPrefix(tenant, "c-") || got[1].Get("Authorization") != "Bearer theirs" {
		t.Errorf("tenant %s, sent %v", tenant, got[1])
	}
	if c := send(open, "bare", "others"); c.header.Get("Idempotency-Replayed") != "" {
		t.Error("two callers share a key")
	}
}

// What is asked of a far side that hangs in its connection was not sent, and may be sent again.
func TestToolUnreachable(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	r := newToolRig(t, func(c *rigConfig) {
		c.yaml = "env: test\ntools: {far: {base_url: \"" + gone.URL + "\", routes: [{match: \"POST /x\", key: \"{a}\", timeout: 500ms}]}}\n"
	})
	q := request{path: "/tools/far/x", body: `{"a":1}`}
	a := r.do(q)
	if a.status < 500 || a.header.Get("Holdfast-Safe-To-Retry") != "yes" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if e := toolFailure(t, a); e.Code == "outcome_unknown" {
		t.Errorf("%+v", e)
	}
	if again := r.do(q); again.code() == "outcome_unknown" || again.header.Get("Holdfast-Intent") == a.header.Get("Holdfast-Intent") {
		t.Errorf("the key is held: %d %s", again.status, again.body)
	}
}

// An answer that only the end of its connection ends may be cut off anywhere. JSON that is not whole is no answer, and says
// nothing of what was done.
func TestToolAnswerWithoutFraming(t *testing.T) {
	r := newToolRig(t)
	for name, test := range map[string]struct {
		head, body string
		whole      bool
	}{
		"half":    {"HTTP/1.0 200 OK", `{"half":`, false},
		"half11":  {"HTTP/1.1 200 OK\r\nConnection: close", `{"a":1}{`, false},
		"nothing": {"HTTP/1.0 200 OK", "", false},
		"whole":   {"HTTP/1.0 200 OK", "\ufeff{\"a\":1}\n", true},
		"framed":  {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 8", `{"half":`, true}, // a tool's own affair
	} {
		raw, _ := json.Marshal(test.head + "\r\nContent-Type: application/json; charset=utf-8\r\n\r\n" + test.body)
		r.always(name, fmt.Sprintf(`{"raw":%s}`, raw))
		for range 2 {
			a := r.do(charge("/held", name))
			if test.whole && (a.err != nil || a.status != 200 || string(a.body) != test.body) {
				t.Errorf("%s: %d %v %q", name, a.status, a.err, a.body)
			}
			if !test.whole && (a.status != 409 && a.status != 502 || a.code() != string(gateway.CodeOutcomeUnknown)) {
				t.Errorf("%s: %d %v %q", name, a.status, a.header, a.body)
			}
		}
		r.calls(name, 1)
	}
}
