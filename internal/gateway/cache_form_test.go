package gateway_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/sim"
	"github.com/holdfast-ai/holdfast/ledger"
)

// cacheTold is what an observer is told of caches.
type cacheTold struct {
	mu   sync.Mutex
	said map[string]int
}

func (o *cacheTold) count(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.said == nil {
		o.said = map[string]int{}
	}
	o.said[fmt.Sprintf(format, args...)]++
}

func (o *cacheTold) of(what string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.said[what]
}

func (o *cacheTold) Request(r gateway.Request)             { o.count("%s %d %s", r.Source, r.Status, r.Code) }
func (o *cacheTold) CacheMiss(_, kind, reason string)      { o.count("miss %s %s", kind, reason) }
func (o *cacheTold) CacheHit(_, kind string)               { o.count("hit %s", kind) }
func (o *cacheTold) Unkept(_, reason string)               { o.count("unkept %s", reason) }
func (*cacheTold) Lookup(string)                           {}
func (*cacheTold) Duplicate(string, string)                {}
func (*cacheTold) StoreError(string)                       {}
func (*cacheTold) Attempt(gateway.Attempt)                 {}
func (*cacheTold) Retry(string, string)                    {}
func (*cacheTold) Bulkhead(string, string, bool)           {}
func (*cacheTold) Fallback(string, string, string, string) {}
func observed(t *testing.T) (*rig, *cacheTold) {
	t.Helper()
	o := &cacheTold{}
	return newRig(t, func(c *rigConfig) { withCache(c); c.observer = o }), o
}

// inForms is one question in each of the forms of an API.
func inForms(api, text string) (forms []request) {
	path, body := "", ""
	switch api {
	case "chat":
		path, body = "/v1/chat/completions", `{"model":"gpt-5","temperature":0,"messages":[{"role":"user","content":"TEXT"}]}`
	case "responses":
		path, body = "/v1/responses", `{"model":"gpt-5","temperature":0,"input":"TEXT"}`
	case "messages":
		path, body = "/v1/messages", `{"model":"claude-haiku-4-5","temperature":0,"max_tokens":99,"messages":[{"role":"user","content":"TEXT"}]}`
	case "gemini":
		path, body = "/v1beta/models/gemini-2.5-flash:generateContent", `{"generationConfig":{"temperature":0},"contents":[{"parts":[{"text":"TEXT"}]}]}`
	}
	q := request{path: path, body: strings.Replace(body, "TEXT", text, 1), header: map[string]string{"Authorization": "Bearer key-a", "Holdfast-Workflow": "near"}}
	if api == "messages" {
		q = q.with("anthropic-version", "2023-06-01")
	}
	if api == "gemini" {
		array, sse := q, q
		array.path = strings.Replace(path, "generate", "streamGenerate", 1)
		sse.path = array.path + "?alt=sse"
		return []request{q, array, sse}
	}
	forms = []request{q, q.vary(`{`, `{"stream":true,`)}
	if api == "chat" {
		forms = append(forms, q.vary(`{`, `{"stream":true,"stream_options":{"include_usage":true},`))
	}
	return forms
}

// whole reads an answer in the form that was asked for: its text, and its usage.
func whole(t *testing.T, q request, a *answered) (string, provider.Usage) {
	t.Helper()
	at, err := url.Parse(q.path)
	if err != nil {
		t.Fatal(err)
	}
	header := map[string][]string{}
	if q.header["anthropic-version"] != "" {
		header["Anthropic-Version"] = []string{"2023-06-01"}
	}
	call := provider.Parse(&provider.Request{Method: "POST", Path: at.Path, RawQuery: at.RawQuery, Body: []byte(q.body), Header: header})
	kind := a.header.Get("Content-Type")
	if provider.FormatOf(&call, kind) != call.Format {
		t.Errorf("%s %s: %s", q.path, q.body, kind)
	}
	if !call.Stream {
		p := provider.PlainAnswer(&call, 200, kind, a.body)
		if !p.Complete {
			t.Errorf("%s: %s", q.path, a.body)
		}
		return provider.Text(&call, a.body), p.Usage
	}
	s := provider.NewStream(&call, call.Format, provider.Limits{})
	if err := s.Feed(a.body); err != nil || s.Close() != provider.Complete {
		t.Errorf("%s: %v, %s", q.path, err, a.body)
	}
	return "", s.Progress().Usage
}

// An answer in one form answers who asks the same in another one: of its own form as it stands, else said anew, with its id, its
// model and its words.
func TestCacheInEachForm(t *testing.T) {
	r := cacheRig(t)
	for _, api := range []string{"chat", "responses", "messages", "gemini"} {
		for i := range inForms(api, "") {
			forms := inForms(api, fmt.Sprintf("who tells %s in form %d", api, i))
			made := r.cachedFor(forms[i])
			n := r.upstream(func() {
				for j, q := range forms {
					a := r.must(q, 200)
					r.source(a, "cache:semantic")
					text, usage := whole(t, q, a)
					if text != "" && !strings.Contains(text, "answer #") {
						t.Errorf("%s as %s: %s", forms[i].path, q.path, a.body)
					}
					if j == i && string(a.body) != string(made.body) {
						t.Errorf("%s is not as it was made:\n%s\n%s", q.body, a.body, made.body)
					}
					if plain := i == 0; plain && !(api == "chat" && j == 1) && usage.Output <= 0 {
						t.Errorf("%s %s: usage %+v in %s", q.path, q.body, usage, a.body)
					}
				}
			})
			if n != 0 {
				t.Errorf("%s form %d: %d calls of the provider", api, i, n)
			}
		}
	}
}

// As the last resort too, and by a template; numbered where that is asked for, with the client's usage.
func TestLastResortInAnotherForm(t *testing.T) {
	r := cacheRig(t)
	r.cachedFor(question("charm", "Why buy the lamp?"))
	r.down(`{"status":503}`)
	a := r.must(question("charm", "Why buy the lamp?").streams().with("Holdfast-Stream-Ids", "1"), 200)
	r.canned(a, "cache:template", "all_tiers_failed")
	if body := string(a.body); !strings.Contains(body, "id: 1\n") || !strings.Contains(body, "chat.completion.chunk") || !strings.Contains(body, "data: [DONE]") || !strings.Contains(body, "answer #") {
		t.Errorf("%s", body)
	}
}

// What the other form would not tell just so is a miss, with its reason; each form then has its own.
func TestCacheInAnotherFormOrNot(t *testing.T) {
	r, o := observed(t)
	r.script("odd", `{"body":`+jsonText(`{"id":"c","object":"chat.completion","model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"logprobs":{"content":[{"token":"x"}]},"finish_reason":"stop"}]}`)+`}`)
	q := question("near", "op=odd")
	r.cachedFor(q)
	made := r.cachedFor(q.streams())
	r.source(made, "openai")
	if o.of("miss semantic other_form") != 1 {
		t.Errorf("%v", o.said)
	}
	for _, again := range []request{q, q.streams()} {
		r.source(r.must(again, 200), "cache:semantic")
	}
}

// Where a vector takes no call its row goes with the settlement, which is on record here before the answer ends: of a burst nothing is
// left out.
func TestCacheOfABurst(t *testing.T) {
	r, o := observed(t)
	var all sync.WaitGroup
	next := make(chan int)
	for range 24 {
		all.Go(func() {
			for i := range next {
				id := r.must(question("near", fmt.Sprintf("question number %d", i)), 200).header.Get("Holdfast-Intent")
				if len(r.indexed(ledger.CachedFilter{Intent: id})) != 1 {
					t.Errorf("question %d is settled without its row", i)
				}
			}
		})
	}
	for i := range 300 {
		next <- i
	}
	close(next)
	all.Wait()
	if n := o.of("unkept too_many_waiting"); n > 0 {
		t.Errorf("%d left out", n)
	}
}

// An answer under a 200 is no error in the metrics either.
func TestStandInsAreNoErrors(t *testing.T) {
	r, o := observed(t)
	r.down(`{"status":503}`)
	r.canned(r.must(question("charm", "q"), 200), "default", "all_tiers_failed")
	wait(t, func() bool { return o.of("default 200 ") == 1 })
}

// What another API answered is kept as what it is told as (docs/translate.md).
func TestCacheOfATranslatedAnswer(t *testing.T) {
	r := cacheRig(t)
	for i, q := range []request{question("cross", "one plain"), question("cross", "two streamed").streams()} {
		made := r.cachedFor(q)
		r.source(made, "far")
		a := r.must(q, 200)
		r.source(a, "cache:semantic")
		if string(a.body) != string(made.body) {
			t.Errorf("%d: %s, made as %s", i, a.body, made.body)
		}
	}
	r.script("cut", `{"finish":"max_tokens"}`)
	id := r.must(question("cross", "op=cut"), 200).header.Get("Holdfast-Intent")
	r.settled(id)
	r.close()
	r.rowless(id)
}

// An answer that says nothing answers nobody else.
func TestCacheOfNothing(t *testing.T) {
	r := cacheRig(t)
	r.script("empty", `{"body":`+jsonText(`{"id":"c","object":"chat.completion","model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":" \n"},"finish_reason":"stop"}]}`)+`}`)
	id := r.must(question("near", "op=empty"), 200).header.Get("Holdfast-Intent")
	r.close()
	r.rowless(id)
}

// A purge counts for what has no row yet, since its vector is being made.
func TestPurgeBeforeTheRow(t *testing.T) {
	r, o := observed(t)
	if err := r.sim.AddRules(sim.Rule{Match: sim.Match{Endpoint: "embeddings"}, Steps: []sim.Step{r.step(`{"hold":"gate"}`)}, Times: 1}); err != nil {
		t.Fatal(err)
	}
	q := question("first", "is it there?")
	r.settled(r.must(q, 200).header.Get("Holdfast-Intent"))
	if err := r.sim.WaitHeld(t.Context(), "gate", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := r.gw.Purge(context.Background(), ledger.CachedFilter{}); err != nil {
		t.Fatal(err)
	}
	r.sim.Release("gate")
	wait(t, func() bool { return o.of("unkept purged") == 1 })
	r.source(r.must(q, 200), "openai")
}
