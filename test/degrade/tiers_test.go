package degrade

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// slots is the bulkhead of each tier; the clients fill no more than 60 % of it.
const slots = clients * 10 / 6

// tiers is a gateway with two equal tiers.
var tiers = fmt.Sprintf(`
env: degrade
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "sk-pro"}
  spare: {type: openai, base_url: "SIM/v1", api_key: "sk-flash"}
models:
  pro-1: {context_tokens: 100000, tools: true, images: true, json_schema: true, input_cost: 2, output_cost: 8}
  flash-1: {context_tokens: 100000, tools: true, images: true, json_schema: true, input_cost: 1, output_cost: 4}
workflows:
  default:
    bulkhead: {max_concurrent: %d}
    timeouts: {first_token: 10s, idle: 20s, attempt: 20s, total: 25s, request: 30s}
    retry: {max_attempts: 2, base: 5ms, max: 50ms}
    tiers:
      - {name: pro, provider: openai, model: pro-1, quality_class: a, cost_class: high, data_boundary: us}
      - {name: flash, provider: spare, model: flash-1, quality_class: a, cost_class: low, data_boundary: us}
`, slots+1)

// faults are how a tier fails before anybody has seen a part of its answer; inStream is how streams fail besides.
var (
	faults   = []string{`{"status":503}`, `{"status":500}`, `{"status":529}`, `"reset_after_body"`, `"fin_after_body"`, `"reply_lost"`, `"error_after_effect"`, `"cut:0"`, `"reset_after_head"`}
	inStream = []string{`"error:0"`, `"clean:0"`, `{"fault":"cut:1","chunks":6}`}
)

// broken is a fault behind the boundary, where no other tier may answer: in a stream it is the client's.
const broken = `{"fault":"cut:8","chunks":12}`

// failing are the rules by which a model fails with this probability, in one way after the other.
func failing(model string, p float64, more ...string) string {
	rule := func(stream bool, steps []string) string {
		return fmt.Sprintf(`{"name":"faults of %s","match":{"model":%q,"stream":%v},"times":-1,"probability":%g,"steps":[%s]}`, model, model, stream, p, strings.Join(steps, ","))
	}
	return rule(true, slices.Concat(faults, inStream, more)) + "," + rule(false, faults)
}

// healthy is a rule by which a model answers, with this latency.
func healthy(model string, ms int) string {
	return fmt.Sprintf(`{"name":"%s answers","match":{"model":%q},"times":-1,"steps":[{"delay_ms":%d,"chunks":4}]}`, model, model, ms)
}

// phase is a part of the run.
type phase struct {
	name  string
	rules []string
}

// The first tier fails a fifth of its calls, then all of them; the second is twice as slow and has faults of its own. Of all calls,
// plain and streamed, at least 99 % have a whole answer, each says who gave it, and the others say why not.
func TestTiersFail(t *testing.T) {
	r := newRig(t, tiers)
	rnd := rand.New(rand.NewPCG(r.seed, 7))
	second := []string{failing("flash-1", 0.05, broken), healthy("flash-1", 20)}
	phases := []phase{
		{"first tier fails 20 %", append([]string{failing("pro-1", 0.2), healthy("pro-1", 10)}, second...)},
		{"first tier fails", append([]string{failing("pro-1", 1)}, second...)},
	}
	all, wrong := &table{}, 0
	for i, p := range phases {
		r.script(p.rules...)
		calls := make([]*call, requests()/len(phases))
		for n := range calls {
			calls[n] = someCall(rnd, fmt.Sprintf("%d-%05d", i, n))
		}
		answers := r.sendAll(calls)
		seen := r.stats()
		row := all.row(p.name)
		for _, a := range answers {
			row.add(a)
			if fault := judgeTier(a, seen, i == 1); fault != "" {
				complain(t, &wrong, a, fault)
			}
		}
		if used := seen.Total.MaxInFlight; used > slots*6/10 {
			t.Errorf("%d calls at once; a tier has %d slots", used, slots)
		}
	}
	report(t, "%d requests, bulkheads at most %d %% full\n%s", requests(), 100*clients/(slots+1), all)
	ok, of := all.sum()
	if of != requests() || float64(ok) < 0.99*float64(of) {
		t.Errorf("%d of %d requests succeeded", ok, of)
	}
	for _, row := range all.rows {
		if row.requests >= 5000 && float64(row.ok) < 0.99*float64(row.requests) { // of fewer, chance alone may take so many
			t.Errorf("%s: %d of %d succeeded", row.name, row.ok, row.requests)
		}
	}
	if n := all.rows[0].source["flash"] + all.rows[1].source["flash"]; n < requests()/2-requests()/50 || all.rows[0].source["pro"] == 0 {
		t.Errorf("answers by source: %v and %v", all.rows[0].source, all.rows[1].source)
	}
	r.end()
}

// complain reports an answer that is wrong, the first ten of them in full.
func complain(t *testing.T, wrong *int, a *answer, fault string) {
	if *wrong++; *wrong > 10 {
		t.Fail()
		return
	}
	t.Errorf("%s: %s\n%d %v\n%.300s", a.call.text, fault, a.status, a.header, a.body)
}

// someCall is a call of either API, plain or streamed; its operation's name is in its text.
func someCall(rnd *rand.Rand, op string) *call {
	c := &call{path: "/v1/chat/completions", text: "say something of op=" + op, system: "Be brief.", stream: rnd.IntN(2) == 0}
	if rnd.IntN(3) == 0 {
		c.path = "/v1/responses"
	}
	return c
}

// judgeTier says what is wrong with an answer, whole or not, "" for nothing. Whether it is an answer at all is the table's.
func judgeTier(a *answer, seen stats, down bool) string {
	_, op, _ := strings.Cut(a.call.text, "op=")
	attempts, _ := strconv.Atoi(a.header.Get("Holdfast-Attempts"))
	if calls := seen.Ops[op].Calls; a.err == nil && attempts != calls {
		return fmt.Sprintf("it says %d attempts, the far side heard %d", attempts, calls)
	}
	if a.failure() != "" {
		if a.header.Get("Holdfast-Error") == "all_tiers_failed" && !(bytes.Contains(a.body, []byte("pro: ")) && bytes.Contains(a.body, []byte("flash: "))) {
			return "it does not name every tier with its reason"
		}
		return ""
	}
	served := map[string]string{"pro": "pro-1", "flash": "flash-1"}[a.source()]
	switch text := a.text(); {
	case strings.Count(text, "answer #") != 1 || !strings.HasSuffix(text, `op=`+op+`"`):
		return "it is not one answer to this question: " + text
	case served == "" || down && served != "flash-1":
		return "it comes from " + a.source()
	case a.header.Get("Holdfast-Served-Model") != served || a.header.Get("Holdfast-Requested-Model") != "asked":
		return "it does not say which model was asked for and which one answers"
	case served == "flash-1" && a.header.Get("Holdfast-Fallback-Reason") == "":
		return "it does not say why the second tier answers"
	}
	return ""
}

// table is what became of the requests of each phase.
type table struct{ rows []*row }

type row struct {
	name            string
	requests, ok    int
	source, failure map[string]int
	lost            []string // what failed, by name
}

// message is what an error says.
var message = regexp.MustCompile(`"message":"((?:[^"\\]|\\.)*)"`)

func (t *table) row(name string) *row {
	r := &row{name: name, source: map[string]int{}, failure: map[string]int{}}
	t.rows = append(t.rows, r)
	return r
}

func (r *row) add(a *answer) {
	r.requests++
	why := a.failure()
	if why == "" {
		r.ok++
		r.source[a.source()]++
		return
	}
	r.failure[why]++
	if said := message.FindAllSubmatch(a.body, -1); len(said) > 0 {
		why += ": " + string(said[len(said)-1][1])
	}
	r.lost = append(r.lost, a.call.text+": "+why)
}

func (t *table) sum() (ok, of int) {
	for _, r := range t.rows {
		ok, of = ok+r.ok, of+r.requests
	}
	return ok, of
}

// String is the table, and below it every request without an answer.
func (t *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-26s %9s %9s %9s  %s\n", "phase", "requests", "answered", "share", "answered by, or why not")
	for _, r := range t.rows {
		fmt.Fprintf(&b, "%-26s %9d %9d %8.2f%%  %s\n", r.name, r.requests, r.ok, 100*float64(r.ok)/float64(max(r.requests, 1)), counted(r.source))
		for _, why := range keys(r.failure) {
			fmt.Fprintf(&b, "%-26s %9s %9d %8.2f%%  %s\n", "", "", r.failure[why], 100*float64(r.failure[why])/float64(r.requests), why)
		}
		for _, l := range r.lost {
			fmt.Fprintf(&b, "  %s\n", l)
		}
	}
	return b.String()
}

func counted(m map[string]int) string {
	var all []string
	for _, k := range keys(m) {
		all = append(all, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(all, ", ")
}

func keys(m map[string]int) []string {
	all := make([]string, 0, len(m))
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}
