package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/sim"
	"github.com/holdfast-ai/holdfast/ledger"
)

// down has every call of a provider fail, and leaves the embedder as it is.
func (r *rig) down(step string) {
	r.t.Helper()
	for _, endpoint := range []string{"chat.completions", "responses", "messages", "generateContent", "streamGenerateContent"} {
		r.fails(endpoint, step)
	}
}

func (r *rig) fails(endpoint, step string) {
	r.t.Helper()
	if err := r.sim.AddRules(sim.Rule{Match: sim.Match{Endpoint: endpoint}, Steps: []sim.Step{r.step(step)}, Times: -1}); err != nil {
		r.t.Fatal(err)
	}
}

// canned checks what a client is told of an answer in the place of a provider's.
func (r *rig) canned(a *answered, source, code string) {
	r.t.Helper()
	r.source(a, source)
	h := a.header
	if h.Get("Holdfast-Error") != "" || h.Get("Holdfast-Fallback-Reason") != code || h.Get("Holdfast-Requested-Model") != "gpt-5" || h.Get("Holdfast-Served-Model") == "" {
		r.t.Errorf("%v", h)
	}
	if (h.Get("Holdfast-Cache") != "") != strings.HasPrefix(source, "cache:") {
		r.t.Errorf("Holdfast-Cache %q from %s", h.Get("Holdfast-Cache"), source)
	}
}

// said is the text of a chat completion.
func said(t *testing.T, a *answered) string {
	t.Helper()
	var doc struct {
		Object  string
		Choices []struct {
			Message struct{ Content string }
		}
	}
	if err := json.Unmarshal(a.body, &doc); err != nil || doc.Object != "chat.completion" || len(doc.Choices) != 1 {
		t.Fatalf("%s: %v", a.body, err)
	}
	return doc.Choices[0].Message.Content
}

// What finally fails is answered by a template, by meaning, by a fixed text, in this order; it is on record as the failure that
// it is, and its key is free (semantics 14).
func TestLastResort(t *testing.T) {
	r := cacheRig(t)
	made := r.cachedFor(question("charm", "Why buy the lamp?"))
	r.down(`{"status":503}`)
	a := r.must(question("charm", "Why  buy the lamp? ").key("k1"), 200)
	r.canned(a, "cache:template", "all_tiers_failed")
	if string(a.body) != string(made.body) || !strings.Contains(a.header.Get("Holdfast-Cache"), "entry="+made.header.Get("Holdfast-Intent")) {
		t.Errorf("%v %s", a.header, a.body)
	}
	rec := r.settled(a.header.Get("Holdfast-Intent"))
	if rec.Outcome != ledger.OutcomeFailed || rec.Answer != nil || !rec.ClaimUntil.IsZero() || rec.Attempt != 1 {
		t.Errorf("settled %s with %+v until %s, %d attempts", rec.Outcome, rec.Answer, rec.ClaimUntil, rec.Attempt)
	}
	wait(t, func() bool { // the history says what its client was given
		return slices.ContainsFunc(r.history(rec.ID), func(e ledger.Event) bool {
			return strings.Contains(e.Reason, made.header.Get("Holdfast-Intent")) && strings.Contains(e.Reason, "all_tiers_failed") && e.Rule == "semantics 14"
		})
	})
	b := r.must(question("charm", "Why buy the lamp?").key("k1"), 200)
	if b.header.Get("Idempotency-Replayed") != "" || b.header.Get("Holdfast-Intent") == rec.ID {
		t.Errorf("the same key replays an answer that was not made for it: %v", b.header)
	}
	other := r.must(question("charm", "Why buy the chair?"), 200)
	r.canned(other, "default", "all_tiers_failed")
	if got := said(t, other); got != "We are busy just now." {
		t.Errorf("%q", got)
	}
	if rec := r.settled(other.header.Get("Holdfast-Intent")); rec.Outcome != ledger.OutcomeFailed {
		t.Errorf("settled %s", rec.Outcome)
	}
}

// By its meaning an answer is found as well where a temperature was left out: what counts is that there is one at all.
func TestLastResortByMeaning(t *testing.T) {
	r := cacheRig(t)
	q := question("last", "Which sizes are there?").vary(`"temperature":0,`, ``)
	r.cachedFor(q)
	r.source(r.must(q, 200), "openai")
	streamed := q.vary(`"model"`, `"stream":true,"model"`)
	made := r.cachedFor(streamed)
	r.down(`{"status":500}`)
	r.canned(r.must(q.vary("Which sizes", "which  sizes"), 200), "cache:semantic", "all_tiers_failed")
	if a := r.must(streamed, 200); string(a.body) != string(made.body) || a.header.Get("Content-Type") != made.header.Get("Content-Type") {
		t.Errorf("%v %s", a.header, a.body)
	}
	r.canned(r.must(q.with("Holdfast-Fresh", "1"), 200), "default", "all_tiers_failed")
	r.canned(r.must(question("last", "Which colours are there?"), 200), "default", "all_tiers_failed")
}

// A fixed text comes in the form of each API, plain and as a stream.
func TestDefaultInEachForm(t *testing.T) {
	r := cacheRig(t)
	r.down(`{"status":503}`)
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"gpt-5","messages":[{"role":"user","content":"q"}]}`,
		"/v1/responses":        `{"model":"gpt-5","input":"q"}`,
		"/v1/messages":         `{"model":"claude-haiku-4-5","max_tokens":9,"messages":[{"role":"user","content":"q"}]}`,
		"/v1beta/models/gemini-2.5-flash:generateContent":       `{"contents":[{"parts":[{"text":"q"}]}]}`,
		"/v1beta/models/gemini-2.5-flash:streamGenerateContent": `{"contents":[{"parts":[{"text":"q"}]}]}`,
	} {
		q := request{path: path, body: body, header: map[string]string{"Authorization": "Bearer key-a", "Holdfast-Workflow": "charm"}}
		if strings.HasSuffix(path, "messages") {
			q = q.with("anthropic-version", "2023-06-01")
		}
		a := r.must(q, 200)
		if r.source(a, "default"); !strings.Contains(string(a.body), "We are busy just now.") {
			t.Errorf("%s: %s", path, a.body)
		}
		if strings.Contains(path, "models") {
			continue
		}
		q.body = strings.Replace(body, "{", `{"stream":true,`, 1)
		if a = r.must(q, 200); !strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") || a.header.Get("Holdfast-Source") != "default" {
			t.Errorf("%s, streamed: %v %s", path, a.header, a.body)
		}
	}
	r.fails("embeddings", `{"status":503}`)
	r.must(request{path: "/v1/embeddings", body: `{"model":"e","input":"q"}`, header: map[string]string{"Authorization": "Bearer key-a", "Holdfast-Workflow": "charm"}}, 503)
}

// What is the client's own fault, what is open, and what waits in a lane is not answered by something else.
func TestNoLastResort(t *testing.T) {
	r := cacheRig(t)
	for op, c := range map[string]struct {
		step   string
		q      request
		status int
	}{
		"bad":      {`{"status":400}`, question("charm", "op=bad"), 400},
		"unknown":  {`{"status":404}`, question("charm", "op=unknown"), 404},
		"lasting":  {`{"status":501}`, question("charm", "op=lasting"), 501},
		"acting":   {`{"status":503}`, question("charm", "op=acting").vary(`"model"`, `"tools":[{"type":"mcp","server_label":"x","server_url":"http://x.example"}],"model"`), 503},
		"creature": {`{"status":503}`, question("default", "op=creature"), 503},
	} {
		r.always(op, c.step)
		if a := r.must(c.q, c.status); a.header.Get("Holdfast-Source") == "default" || a.header.Get("Holdfast-Cache") != "" {
			t.Errorf("%s: %v", op, a.header)
		}
	}
	r.must(question("charm", "q").with("Authorization", "Bearer nobody"), 401)
	r.must(question("charm", "one").key("used"), 200)
	r.must(question("charm", "two").key("used"), 422)
	r.always("later", `{"status":503}`)
	r.must(question("charm", "op=later").with("Prefer", "respond-async"), 202)
}

// Who is refused before anything is written is answered as well, and nothing is written of it.
func TestLastResortOfARefusal(t *testing.T) {
	r := cacheRig(t)
	r.always("busy", `{"hold":"gate"}`)
	var all sync.WaitGroup
	all.Go(func() { r.must(question("narrow", "op=busy"), 200) })
	if err := r.sim.WaitHeld(t.Context(), "gate", 1); err != nil {
		t.Fatal(err)
	}
	a := r.must(question("narrow", "another").key("k"), 200)
	r.canned(a, "default", "bulkhead_full")
	if a.header.Get("Holdfast-Intent") != "" {
		t.Errorf("a refusal left a row: %v", a.header)
	}
	r.sim.Release("gate")
	all.Wait()
	r.source(r.must(question("narrow", "another").key("k"), 200), "openai")
}

// Requests with one key that wait for one execution all get what stands in its place, and the next one runs.
func TestLastResortOfFollowers(t *testing.T) {
	r := cacheRig(t)
	r.script("all", `{"hold":"gate","status":503}`)
	q := question("always", "op=all")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { r.canned(r.must(q, 200), "default", "all_tiers_failed") })
	}
	if err := r.sim.WaitHeld(t.Context(), "gate", 1); err != nil {
		t.Fatal(err)
	}
	wait(t, func() bool { return r.gw.Followers() == 2 })
	r.sim.Release("gate")
	all.Wait()
	r.source(r.must(q, 200), "openai")
	r.calls("all", 2)
}

// The index is the ledger's: a restart keeps it, a purge empties both, and what is over is found no more.
func TestCacheOutlivesItsProcess(t *testing.T) {
	r := cacheRig(t)
	byMeaning, byTemplate := question("first", "is it kept?"), question("charm", "Why buy the lamp?")
	r.cachedFor(byMeaning)
	made := r.cachedFor(byTemplate)
	r.close()
	c := rigConfig{}
	withCache(&c)
	r.start(c)
	r.source(r.must(byMeaning, 200), "cache:semantic")
	r.down(`{"status":503}`)
	r.source(r.must(byTemplate, 200), "cache:template")
	if n, err := r.gw.Purge(context.Background(), ledger.CachedFilter{Intent: made.header.Get("Holdfast-Intent")}); n != 1 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	r.source(r.must(byTemplate, 200), "default")
	for _, f := range []struct {
		tenant, workflow string
		want             int
	}{{"a", "charm", 0}, {"b", "first", 0}, {"a", "first", 1}, {"", "", 0}} {
		if n, err := r.gw.Purge(context.Background(), ledger.CachedFilter{Workflow: f.workflow, Tenant: f.tenant}); n != f.want || err != nil {
			t.Errorf("purged %d, %v: %+v", n, err, f)
		}
	}
	r.must(byMeaning, 503)
}

// A purge that another process made counts here too: the log decides, not the index.
func TestCacheRowDecides(t *testing.T) {
	r := cacheRig(t)
	q := question("first", "is it there?")
	id := r.cachedFor(q).header.Get("Holdfast-Intent")
	if err := r.store.Uncache(context.Background(), []ledger.CachedRef{{Intent: id, Kind: ledger.CachedSemantic}}); err != nil {
		t.Fatal(err)
	}
	r.source(r.must(q, 200), "openai")
}

// A workflow keeps no more entries than it may: the oldest go, with their rows.
func TestCacheBound(t *testing.T) {
	r := cacheRig(t)
	for _, text := range []string{"question one", "question two", "question three"} {
		r.cachedFor(question("small", text))
	}
	wait(t, func() bool { return len(r.indexed(ledger.CachedFilter{Workflow: "small"})) == 2 })
	r.source(r.must(question("small", "question three"), 200), "cache:semantic")
	r.source(r.must(question("small", "question one"), 200), "openai")
}

// An embedder that does not answer costs a look-up, and no call.
func TestCacheWithoutEmbedder(t *testing.T) {
	r := cacheRig(t)
	q := question("first", "is it known?")
	r.cachedFor(q)
	r.fails("embeddings", `{"status":503}`)
	r.source(r.must(question("first", "is it  known?"), 200), "openai")
}

// Behind a bridge the head has gone out: what stands in an answer's place follows it where it has the form that was promised,
// with its facts in trailers.
func TestLastResortBehindABridge(t *testing.T) {
	r := cacheRig(t)
	r.always("slow", `{"hold":"gate","status":503}`)
	resp, err := r.open(question("bridged", "op=slow").streams())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, 1)
	if _, err := resp.Body.Read(first); err != nil || first[0] != ':' {
		t.Fatalf("%q %v", first, err)
	}
	if err := r.sim.WaitHeld(t.Context(), "gate", 1); err != nil {
		t.Fatal(err)
	}
	r.sim.Release("gate")
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(rest), "We are busy just now.") || !strings.Contains(string(rest), "data: [DONE]") {
		t.Errorf("%s %v", rest, err)
	}
	if h := resp.Trailer; h.Get("Holdfast-Source") != "default" || h.Get("Holdfast-Error") != "" || h.Get("Holdfast-Fallback-Reason") != "all_tiers_failed" {
		t.Errorf("%v", h)
	}
}

// A reload leaves the index as it is, and what the policy says by then counts: a shorter ttl ends what is older, a workflow
// without a cache finds nothing.
func TestCacheOverAReload(t *testing.T) {
	r := cacheRig(t)
	q := question("first", "is it there?")
	r.cachedFor(q)
	reload := func(yaml string) {
		t.Helper()
		cfg, faults := policy.Parse("test.yaml", []byte(strings.ReplaceAll(yaml, "SIM", r.sim.URL())), os.LookupEnv)
		if cfg == nil {
			t.Fatal(faults[len(faults)-1])
		}
		if err := r.gw.Reload(cfg); err != nil {
			t.Fatal(err)
		}
	}
	const was = "cache: {first: true, semantic: {embedder: main}}"
	reload(strings.Replace(caching, was, "cache: {first: true, semantic: {embedder: main, threshold: 0.9}}", 1))
	r.source(r.must(q, 200), "cache:semantic")
	reload(strings.Replace(caching, was, "mode: enforce", 1))
	r.source(r.must(q, 200), "openai")
	reload(caching)
	r.source(r.must(q, 200), "cache:semantic")
	reload(strings.Replace(caching, was, "cache: {first: true, semantic: {embedder: main, ttl: 1ms}}", 1))
	r.source(r.must(q, 200), "openai")
	// Behind an alias stands another model by now.
	reload(strings.Replace(caching, was, was+"\n    tiers: [{name: pro, provider: openai, model: gpt-5-mini}]", 1))
	r.source(r.must(q, 200), "pro")
}

// What has a provider act is held where its outcome is unknown: nothing stands in for it.
func TestNoLastResortForWhatIsHeld(t *testing.T) {
	r := cacheRig(t)
	r.always("held", "cut:2")
	q := question("charm", "op=held").streams().vary(`"model"`, `"conversation":"c","model"`)
	a := r.do(q)
	if a.header.Get("Holdfast-Source") == "default" || strings.Contains(string(a.body), "We are busy") {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
}

// An answer stands for those of the tier that gave it: given first it is only where that tier, or one of its class, would be asked
// first; as the last resort wherever it might have answered.
func TestCacheOfATier(t *testing.T) {
	r := cacheRig(t)
	down := func(model string, times int) {
		t.Helper()
		if err := r.sim.AddRules(sim.Rule{Match: sim.Match{Endpoint: "chat.completions", Model: model}, Steps: []sim.Step{r.step(`{"status":503}`)}, Times: times}); err != nil {
			t.Fatal(err)
		}
	}
	for _, workflow := range []string{"apart", "equal"} {
		q := question(workflow, "is it there?")
		down("gpt-5", 1)
		r.source(r.cachedFor(q), "flash")
		want := "pro"
		if workflow == "equal" {
			want = "cache:semantic"
		}
		r.source(r.must(q, 200), want)
	}
	down("gpt-5", -1)
	down("gpt-5-mini", -1)
	r.source(r.must(question("apart", "IS IT  THERE?").with("Holdfast-Owner", ""), 200), "cache:semantic")
	if a := r.must(question("apart", "and this?"), 502); a.code() != "all_tiers_failed" {
		t.Errorf("%v", a.header)
	}
}

// A row that this version cannot read leads nowhere, and goes at the next start; the answer stays.
func TestCacheRowOfAnotherVersion(t *testing.T) {
	r := cacheRig(t)
	a := r.must(question("default", "is it there?").key("k"), 200)
	id := a.header.Get("Holdfast-Intent")
	r.settled(id)
	if err := r.log.Cache(id, ledger.Cached{CachedRef: ledger.CachedRef{Kind: ledger.CachedSemantic}, Data: []byte{99}, ExpiresAt: r.store.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if list, err := r.gw.Cached(context.Background(), ledger.CachedFilter{}); err != nil || len(list) != 1 || !list[0].Stale {
		t.Errorf("%+v, %v", list, err)
	}
	r.close()
	c := rigConfig{}
	withCache(&c)
	r.start(c)
	wait(t, func() bool { return len(r.indexed(ledger.CachedFilter{})) == 0 })
	r.source(r.must(question("default", "is it there?").key("k"), 200), "replay")
}

// What is answered first holds nothing: no place, no key, no row. Who has a key is answered by it, before the cache.
func TestCacheFirstHoldsNothing(t *testing.T) {
	r := cacheRig(t)
	q := question("keyed", "is it there?")
	r.cachedFor(q)
	r.source(r.must(q, 200), "replay")
	before := len(r.all())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { r.source(r.must(question("keyed", "IS IT  THERE?"), 200), "cache:semantic") })
	}
	all.Wait()
	if n := len(r.all()); n != before {
		t.Errorf("%d rows more", n-before)
	}
	wait(t, func() bool { working, _, executions := r.gw.Held(); return working == 0 && executions == 0 })
	// Of a key that is on record the answer is its own, also where only the log knows of it.
	own := r.must(question("keyed", "and is THIS there?").key("k"), 200)
	r.settled(own.header.Get("Holdfast-Intent"))
	r.close()
	c := rigConfig{}
	withCache(&c)
	r.start(c)
	r.source(r.must(question("keyed", "and is THIS there?").key("k"), 200), "replay")
	if a := r.must(question("keyed", "is it there?").key("k"), 422); a.header.Get("Holdfast-Cache") != "" {
		t.Errorf("another request under the key: %v", a.header)
	}
	// A hit leaves the key free.
	before = len(r.all())
	r.source(r.must(question("keyed", "is  it there?").key("free"), 200), "cache:semantic")
	if n := len(r.all()); n != before {
		t.Errorf("%d rows more", n-before)
	}
}

func (r *rig) all() []*ledger.Record {
	r.t.Helper()
	list, err := r.store.List(context.Background(), ledger.Filter{Limit: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

// Where nothing counts as the same operation an answer is kept for others all the same, by both ways that its question has.
func TestCacheWithoutKeys(t *testing.T) {
	r := cacheRig(t)
	for _, q := range []request{question("keyless", "Why buy the lamp?"), question("keyless", "Why buy the chair?").streams()} {
		made := r.must(q, 200)
		wait(t, func() bool {
			return len(r.indexed(ledger.CachedFilter{Intent: made.header.Get("Holdfast-Intent")})) == 2
		})
		a := r.must(q, 200)
		r.source(a, "cache:template")
		if string(a.body) != string(made.body) {
			t.Errorf("%s, made as %s", a.body, made.body)
		}
		numbered := r.must(q.with("Holdfast-Stream-Ids", "1"), 200)
		if ids := strings.Contains(string(numbered.body), "id: 1\n"); ids != strings.Contains(q.body, "stream") {
			t.Errorf("numbered: %s", numbered.body)
		}
	}
}
