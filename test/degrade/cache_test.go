package degrade

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// canned is the default answer of a workflow: no two have the same, so that one which crosses shows.
func canned(workflow string) string {
	return "Nobody can answer just now (" + workflow + "). Please come back in a minute."
}

// last is a gateway that has a cache and a default answer behind its one tier, for two tenants and three workflows.
var last = `
env: degrade
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "sk-pro"}
embedders:
  near: {type: ngram}
auth:
  keys: [{key: "credential-of-tenant-one", tenant: one}, {key: "credential-of-tenant-two", tenant: two},
         {key: "credential-of-an-operator", role: operator}]
workflows:
  chat: {match: {paths: ["/by-name-only"]}, COMMON, default: "` + canned("chat") + `"}}
  help: {match: {paths: ["/by-name-only"]}, COMMON, default: "` + canned("help") + `"}}
  bare: {match: {paths: ["/by-name-only"]}, idempotency: {derive: "off"}, retry: {max_attempts: 1}, tiers: [{name: pro, provider: openai, model: pro-1}], cache: {default: "` + canned("bare") + `"}}
  default: {}
`

const lastCommon = `idempotency: {derive: "off"}, retry: {max_attempts: 1}, tiers: [{name: pro, provider: openai, model: pro-1}],
    cache: {semantic: {embedder: near, threshold: 0.95}, template: [{name: product, pattern: "Tell me about the product {product}"}]`

// question is something that is asked in several ways: same are of one meaning with it, other are near it and of another.
type question struct {
	text        string
	same, other []string
}

var questions = []question{
	{"How do I enable two-factor authentication for my account?", []string{"how do I enable two-factor authentication for my account", "  How do I enable  two-factor authentication for my account? "},
		[]string{"How do I disable two-factor authentication for my account?", "How do I not enable two-factor authentication for my account?"}},
	{"What is the refund for order 1041 that I placed last week?", []string{"what is the refund for order 1041 that I placed last week?"},
		[]string{"What is the refund for order 1014 that I placed last week?", "What is the refund for order 1041 that I placed last month?"}},
	{"Convert 250 euros to dollars at the rate of today", []string{"Convert 250 euros to dollars at the rate of today."},
		[]string{"Convert 250 dollars to euros at the rate of today", "Convert 205 euros to dollars at the rate of today"}},
	{"Tell me about the product Aurora lamp", []string{"Tell me about the product Aurora lamp "}, []string{"Tell me about the product Aurora lamps 2", "Tell me about the product Borealis lamp"}},
	{"Summarise the contract between Anna Weber and Jonas Klein", []string{"summarise the contract between Anna Weber and Jonas Klein"},
		[]string{"Summarise the contract between Anna Weber and Jonas Klain", "Summarise the contract between Anne Weber and Jonas Klein"}},
	{"東京から大阪までの新幹線の料金を教えてください", []string{"東京から大阪までの新幹線の料金を教えてください。"}, []string{"大阪から東京までの新幹線の料金を教えてください", "東京から大阪までの飛行機の料金を教えてください"}},
	{"Wie kann ich mein Abonnement verlängern, ohne die Rufnummer zu verlieren?", []string{"wie kann ich mein Abonnement verlängern, ohne die  Rufnummer zu verlieren?"},
		[]string{"Wie kann ich mein Abonnement kündigen, ohne die Rufnummer zu verlieren?"}},
	{"List all users that have an open invoice", []string{"list all users that have an open invoice."}, []string{"List all users that have no open invoice", "List some users that have an open invoice"}},
}

// partition is all that an answer may not cross.
type partition struct{ tenant, workflow, system, temperature, path string }

var partitions = func() (all []partition) {
	for _, tenant := range []string{"one", "two"} {
		for _, workflow := range []string{"chat", "help", "bare"} {
			for _, system := range []string{"You are the assistant of a shop.", "You are the assistant of a bank."} {
				all = append(all, partition{tenant, workflow, system, "0", "/v1/chat/completions"}, partition{tenant, workflow, system, "0.9", "/v1/chat/completions"},
					partition{tenant, workflow, system, "0", "/v1/responses"})
			}
		}
	}
	return all
}()

func (p partition) ask(text string, stream bool) *call {
	return &call{path: p.path, text: text, system: p.system, stream: stream, temperature: p.temperature,
		header: map[string]string{"Authorization": "Bearer credential-of-tenant-" + p.tenant, "Holdfast-Workflow": p.workflow}}
}

// asked is a call while every tier is down, with what may answer it.
type asked struct {
	*call
	in       partition
	question int
	kind     string // again, near, other, never
}

// numbered is the number that the far side gave to an execution: no two answers of it are alike.
var numbered = regexp.MustCompile(`answer #(\d+) to`)

// With every tier down the cache and the default answer: no answer comes from another partition or to another question, and what
// was answered before is found again.
func TestCacheAndDefaultOnly(t *testing.T) {
	r := newRig(t, strings.ReplaceAll(last, "COMMON", lastCommon))
	rnd := rand.New(rand.NewPCG(r.seed, 11))
	r.script(`{"match":{"model":"pro-1"},"times":-1,"steps":["ok"]}`)
	owner := r.fill()
	r.script(`{"match":{"path":"/v1/**"},"times":-1,"steps":[{"status":503},{"status":500},"fin_after_body"]}`)
	var all []*asked
	var calls []*call
	for range requests() {
		a := someAsked(rnd)
		all, calls = append(all, a), append(calls, a.call)
	}
	rows, wrong := map[string]*row{}, 0
	out := &table{}
	for _, kind := range []string{"again", "near", "other", "never"} {
		rows[kind] = out.row(kinds[kind])
	}
	for i, a := range r.sendAll(calls) {
		rows[all[i].kind].add(a)
		if fault := all[i].judge(a, owner); fault != "" {
			complain(t, &wrong, a, fault)
		}
	}
	hits, of := 0, 0
	for _, row := range out.rows {
		hits, of = hits+row.source["cache:semantic"]+row.source["cache:template"], of+row.requests
	}
	report(t, "every tier is down: %d of %d requests are answered from the cache, %.1f %%\n%s", hits, of, 100*float64(hits)/float64(of), out)
	r.end()
}

// kinds names the kinds of questions in the table.
var kinds = map[string]string{"again": "asked before", "near": "the same, put otherwise", "other": "near, another meaning", "never": "never asked"}

// fill asks every question in every partition at once, half of them plain and streamed, the others in one of both forms, whose answer
// is to be found in the other one too. It says to whom each answer belongs and what it answers.
func (r *rig) fill() map[string]asked {
	r.t.Helper()
	owner, kept := map[string]asked{}, 0
	var calls []*call
	var of []asked
	for n, p := range partitions {
		for i, q := range questions {
			for _, stream := range [][]bool{{false, true}, {n%4 < 2}}[i%2] {
				c := p.ask(q.text, stream)
				calls, of = append(calls, c), append(of, asked{call: c, in: p, question: i})
				if p.workflow != "bare" {
					kept++
				}
			}
		}
	}
	for i, a := range r.sendAll(calls) {
		m := numbered.FindStringSubmatch(a.text())
		if a.failure() != "" || m == nil || owner[m[1]].call != nil {
			r.t.Fatalf("%s of %v: %s %.300s", a.call.text, of[i].in, a.failure(), a.body)
		}
		owner[m[1]] = of[i]
	}
	r.indexed(kept)
	return owner
}

// indexed waits until so many answers are found by others: that takes an embedder, for which no client waits.
func (r *rig) indexed(answers int) {
	r.t.Helper()
	found := map[string]bool{}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.gateway.Admin+"/holdfast/v1/cache?limit=1000", nil)
		if err != nil {
			r.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer credential-of-an-operator")
		resp, err := r.client.Do(req)
		if err != nil {
			r.t.Fatal(err)
		}
		var entries []struct{ Entry string }
		err = json.NewDecoder(resp.Body).Decode(&entries)
		_ = resp.Body.Close()
		if err != nil {
			r.t.Fatal(err)
		}
		for _, e := range entries {
			found[e.Entry] = true
		}
		if len(found) == answers {
			return
		}
	}
	r.t.Errorf("%d of %d answers are found by others", len(found), answers)
}

func someAsked(rnd *rand.Rand) *asked {
	p := partitions[rnd.IntN(len(partitions))]
	a := &asked{in: p, question: rnd.IntN(len(questions))}
	q := questions[a.question]
	text := q.text
	switch n := rnd.IntN(10); {
	case n < 4:
		a.kind = "again"
	case n < 6:
		a.kind, text = "near", q.same[rnd.IntN(len(q.same))]
	case n < 9:
		a.kind, text = "other", q.other[rnd.IntN(len(q.other))]
	default:
		a.kind, text = "never", fmt.Sprintf("What became of the %dth sheep of herd %d?", rnd.IntN(1e6), rnd.IntN(1e6))
	}
	a.call = p.ask(text, rnd.IntN(2) == 0)
	return a
}

// judge says what is wrong with an answer, "" for nothing.
func (q *asked) judge(a *answer, owner map[string]asked) string {
	text := a.text()
	switch {
	case a.failure() != "":
		return "a workflow with a default answer gives none: " + a.failure()
	case a.source() == "default":
		if text != canned(q.in.workflow) {
			return "the default answer is not this workflow's: " + text
		}
		if q.kind == "again" && q.in.workflow != "bare" {
			return "the very same request was answered before, and is not found"
		}
		return ""
	case !slices.Contains([]string{"cache:semantic", "cache:template"}, a.source()):
		return "the answer comes from " + a.source()
	}
	m := numbered.FindAllStringSubmatch(text, -1)
	if len(m) != 1 {
		return "it is not one stored answer: " + text
	}
	from, known := owner[m[0][1]]
	switch {
	case !known:
		return "nobody was given this answer"
	case from.in != q.in:
		return fmt.Sprintf("it crosses from %v to %v", from.in, q.in)
	case from.question != q.question || q.kind == "other" || q.kind == "never":
		return "it answers another question: " + from.text
	}
	return ""
}
