package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/ledger"
)

// twoTiers has one workflow of two equal tiers for each wire format. Each case asks for a model of its own, so that it has a
// route of its own: what one does to a breaker or a cool-down is nothing to the next.
const twoTiers = `
env: test
providers:
  openai: {type: openai, base_url: "FAR/first/v1", api_key: "sk-a"}
  openai2: {type: openai, base_url: "FAR/second/v1", api_key: "sk-b"}
  claude: {type: anthropic, base_url: "FAR/first", api_key: "sk-c"}
  claude2: {type: anthropic, base_url: "FAR/second", api_key: "sk-d"}
  gemini: {type: gemini, base_url: "FAR/first", api_key: "sk-e"}
  gemini2: {type: gemini, base_url: "FAR/second", api_key: "sk-f"}
models:
  good: {context_tokens: 1000000, tools: true, images: true, json_schema: true, input_cost: 1, output_cost: 1}

workflows:
  openai: {match: {paths: ["/by-name-only"]}, COMMON, tiers: [{name: first, provider: openai}, {name: second, provider: openai2, model: good}]}
  anthropic: {match: {paths: ["/by-name-only"]}, COMMON, tiers: [{name: first, provider: claude}, {name: second, provider: claude2, model: good}]}
  gemini: {match: {paths: ["/by-name-only"]}, COMMON, tiers: [{name: first, provider: gemini}, {name: second, provider: gemini2, model: good}]}
  openai-anthropic: {match: {paths: ["/by-name-only"]}, COMMON, tiers: [{name: first, provider: openai}, {name: second, provider: claude2, model: good}]}
  openai-gemini: {match: {paths: ["/by-name-only"]}, COMMON, tiers: [{name: first, provider: openai}, {name: second, provider: gemini2, model: good}]}
  anthropic-openai: {match: {paths: ["/by-name-only"]}, COMMON, tiers: [{name: first, provider: claude}, {name: second, provider: openai2, model: good}]}
  anthropic-gemini: {match: {paths: ["/by-name-only"]}, COMMON, tiers: [{name: first, provider: claude}, {name: second, provider: gemini2, model: good}]}
  default: {}
`

const twoTiersCommon = `idempotency: {derive: "off"}, retry: {max_attempts: 1}, fallback: {on: [rate_limited, overloaded, server_error, timeout,
    connection_error, unknown_outcome, quota_exhausted, not_found, auth, context_length]}`

// cutCase is a stream of the first tier that ends where it should not.
type cutCase struct {
	name   string
	wire   string
	model  string // its own
	stream []byte // what of it is sent
	clean  bool   // the HTTP body ends properly behind that
	pieces bool   // it is sent event by event, not in one write
	other  string // the workflow whose second tier speaks another format; "": the one of two like tiers
	denies bool   // its provider declines to answer: whose answer that is depends on the policy
	own    bool   // it reports an error itself, in a form of its own, which more may follow
}

// cutStep is how far apart the events are at which a stream of so many is cut: none is left out but of the long one, and under
// -short and the race detector of every one.
func cutStep(events int) int {
	switch {
	case events > 100 && os.Getenv("HOLDFAST_FULL") == "":
		return 150
	case testing.Short() || raceDetector:
		return 5
	}
	return 1
}

// cutsOf are the ends that a recorded stream is given: behind each event, inside each, both torn off and closed properly, and
// its own.
func cutsOf(t *testing.T, c streamCase) (all []cutCase) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(corpus, c.File))
	if err != nil {
		t.Fatal(err)
	}
	wire := wireOf(c)
	add := func(at int, how string, clean bool) {
		all = append(all, cutCase{name: fmt.Sprintf("%s, %s at %d of %d", c.File, how, at, len(b)), wire: wire, stream: b[:at], clean: clean})
	}
	add(0, "torn", false)
	events := framesOf(wire, b)
	step := cutStep(len(events))
	for i := 0; i < len(events); i += step {
		e := events[i]
		add(e.from+(e.to-e.from)/2, "torn inside an event", false)
		add(e.to, "torn", false)
		all[len(all)-1].pieces = i%2 == 1
		add(e.to, "closed", true)
		all[len(all)-1].pieces = i%2 == 0
	}
	add(len(b), "closed", true)
	return all
}

// cutFar is the far side of both tiers: the first sends each case's piece of a stream, the second is healthy.
type cutFar struct {
	mu    sync.Mutex
	cases map[string]cutCase // by model
	calls map[string]int     // of the second tier, by what the request says
}

func (f *cutFar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	op := request{body: string(body)}.op()
	f.mu.Lock()
	c, known := f.cases[op]
	second := strings.HasPrefix(r.URL.Path, "/second/")
	if second {
		f.calls[op]++
	}
	f.mu.Unlock()
	if !known {
		http.Error(w, "no such case: "+op, http.StatusTeapot)
		return
	}
	kind := "text/event-stream"
	if second {
		c.wire = speaks(r.URL.Path, c.wire)
	}
	if c.wire == "gemini-array" {
		kind = "application/json"
	}
	w.Header().Set("Content-Type", kind)
	if second {
		_, _ = io.WriteString(w, goodAnswer[c.wire])
		return
	}
	sent := 0
	for _, e := range framesOf(c.wire, c.stream) {
		if c.pieces {
			_, _ = w.Write(c.stream[sent:e.to])
			_ = http.NewResponseController(w).Flush()
			sent = e.to
		}
	}
	_, _ = w.Write(c.stream[sent:])
	if !c.clean {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// speaks is the format of a request to the second tier, which is not always the client's.
func speaks(path, client string) string {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return "openai-chat"
	case strings.HasSuffix(path, "/messages"):
		return "anthropic"
	case strings.HasSuffix(path, ":streamGenerateContent") && !strings.HasPrefix(client, "gemini"):
		return "gemini-sse"
	}
	return client
}

// ask is the request of a case.
func (c cutCase) ask() request {
	q := ask(c.wire, c.model)
	for _, model := range []string{"gpt-5", "claude-haiku-4-5", "gemini-2.5-flash"} {
		q.body = strings.Replace(q.body, `"`+model+`"`, `"`+c.model+`"`, 1)
		q.path = strings.Replace(q.path, "/"+model+":", "/"+c.model+":", 1)
	}
	workflow, _, _ := strings.Cut(c.wire, "-")
	if c.other != "" {
		workflow = c.other
	}
	return q.workflow(workflow)
}

// Every stream of the corpus ends at every event and inside every event. Before the boundary the client has one whole answer, the
// second tier's, and nothing of the first one's; behind it one structured error and no second model (semantics 22, 24).
func TestEveryStreamCutAtEveryEvent(t *testing.T) {
	var all []cutCase
	streams := 0
	for _, c := range corpusStreams(t) {
		if wireOf(c) == "" || c.Format != "sse" && c.Format != "json_array" {
			continue
		}
		streams++
		all = append(all, cutsOf(t, c)...)
	}
	tally := playCuts(t, all)
	t.Logf("%d streams cut in %d ways: %v", streams, len(all), tally)
	if streams < 80 || tally["before"] == 0 || tally["after"] == 0 {
		t.Errorf("%d streams, %v", streams, tally)
	}
}

// The same where the second tier speaks another format: before the boundary the client has that tier's answer, whole and in its own form.
func TestCutStreamsAnsweredInAnotherFormat(t *testing.T) {
	others := map[string][]string{"openai-chat": {"openai-anthropic", "openai-gemini"}, "anthropic": {"anthropic-openai", "anthropic-gemini"}}
	var all []cutCase
	for _, c := range corpusStreams(t) {
		for _, other := range others[wireOf(c)] {
			if c.Format != "sse" {
				continue
			}
			for _, cut := range cutsOf(t, c) {
				if cut.other = other; !hasContent(cut.wire, cut.stream) {
					all = append(all, cut)
				}
			}
		}
	}
	if tally := playCuts(t, all); tally["before"] < 100 {
		t.Errorf("%v", tally)
	}
}

// playCuts plays all cases, a few at a time, and counts them by where their cut lies; on are further failures that another tier answers.
func playCuts(t *testing.T, all []cutCase, on ...string) map[string]int {
	t.Helper()
	far := &cutFar{cases: map[string]cutCase{}, calls: map[string]int{}}
	for i := range all {
		all[i].model = fmt.Sprintf("m-%05d", i)
		far.cases[all[i].model] = all[i]
	}
	server := httptest.NewServer(far)
	defer server.Close()
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.NewReplacer("FAR", server.URL, "COMMON", twoTiersCommon).Replace(twoTiers)
		for _, word := range on {
			c.yaml = strings.ReplaceAll(c.yaml, "context_length]", "context_length, "+word+"]")
		}
	})
	var mu sync.Mutex
	tally, wrong := map[string]int{}, 0
	queue := make(chan cutCase)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for c := range queue {
				a := r.do(c.ask())
				far.mu.Lock()
				calls := far.calls[c.model]
				far.mu.Unlock()
				where, fault := c.judge(t, a, calls)
				if fault == "" {
					fault = judgeRecord(r.settled(a.header.Get("Holdfast-Intent")), where)
				}
				mu.Lock()
				tally[where]++
				if fault != "" {
					if wrong++; wrong <= 20 {
						t.Errorf("%s (%s): %s\nstatus %d %v, %d calls of the second tier, code %q, body … %q", c.name, where, fault, a.status, a.err, calls, a.code(), tail(a.body))
					}
				}
				mu.Unlock()
			}
		})
	}
	for _, c := range all {
		queue <- c
	}
	close(queue)
	workers.Wait()
	if wrong > 20 {
		t.Errorf("%d cases in all are wrong", wrong)
	}
	return tally
}

// judge says where a case's cut lies, and what is wrong with its answer, "" for nothing.
func (c cutCase) judge(t *testing.T, a *answered, second int) (where, fault string) {
	content, own := false, false
	for _, e := range framesOf(c.wire, c.stream) {
		content = content || !own && e.content(c.wire) // behind an error nothing is an answer
		own = own || e.fails()
	}
	ended, closed := c.ends(t)
	// All has been said, and then the connection tore before the API's own end: an answer and a cut can both be read in that.
	either := ended && !closed && !c.clean
	switch {
	case a.err != nil:
		return "any", "the answer does not read to its end: " + a.err.Error()
	case (either || c.denies) && !content && second > 0:
		return "before", c.judgeBefore(t, a, second)
	case c.denies || ended && !(either && content && errorsIn(c.wire, a.body) > 0):
		return "complete", c.judgeComplete(a, second)
	case !content:
		return "before", c.judgeBefore(t, a, second)
	case own:
		return "own error", c.judgeAfter(a, second)
	case c.own:
		return "after", c.judgeAfter(a, second)
	}
	if errorsIn(c.wire, a.body) != 1 {
		return "after", fmt.Sprintf("%d structured errors", errorsIn(c.wire, a.body))
	}
	return "after", c.judgeAfter(a, second)
}

// judgeRecord says what is wrong with what is on record of a case whose answer is right.
func judgeRecord(rec *ledger.Record, where string) string {
	after := where == "after" || where == "own error"
	switch {
	case (rec.Outcome == ledger.OutcomeSuccess) == after:
		return fmt.Sprintf("its outcome is %s on record", rec.Outcome)
	case after && !rec.Partial:
		return "partial_output_committed is not on record"
	case where == "before" && (rec.ServedModel != "good" || rec.Attempt != 2):
		return fmt.Sprintf("on record are %d attempts, and the model %s", rec.Attempt, rec.ServedModel)
	case after && (rec.Attempt != 1 || rec.Answer != nil):
		return fmt.Sprintf("on record are %d attempts, and an answer: %v", rec.Attempt, rec.Answer != nil)
	}
	return ""
}

// ends says whether the piece is a whole answer by its API's own grammar, and whether it has that grammar's own end.
func (c cutCase) ends(t *testing.T) (whole, closed bool) {
	call := provider.Call{Stream: true, Endpoint: map[string]string{"openai-chat": "chat.completions", "openai-responses": "responses",
		"anthropic": "messages", "gemini-sse": "streamGenerateContent", "gemini-array": "streamGenerateContent"}[c.wire]}
	format := provider.SSE
	if c.wire == "gemini-array" {
		format = provider.JSONArray
	}
	s := provider.NewStream(&call, format, provider.Limits{})
	if err := s.Feed(bytes.Clone(c.stream)); err != nil {
		t.Errorf("%s: %v", c.name, err)
	}
	whole = s.Close() == provider.Complete
	return whole, whole && s.Progress().Ended && c.wire != "gemini-sse" // where usage may follow the finish reason
}

// translated says that a body is a whole answer in the client's format, with the second tier's text, once.
func (c cutCase) translated(t *testing.T, body []byte) bool {
	text := ""
	for _, f := range framesOf(c.wire, body) {
		for _, path := range [][]string{{"choices", "delta", "content"}, {"delta", "text"}} {
			if s, ok := at(f.decoded(), path...).(string); ok {
				text += s
			}
		}
	}
	c.stream = body
	whole, closed := c.ends(t)
	return text == goodText && whole && closed && errorsIn(c.wire, body) == 0
}

// judgeComplete: the answer is the first tier's, whatever became of the connection behind it.
func (c cutCase) judgeComplete(a *answered, second int) string {
	switch {
	case second != 0 || bytes.Contains(a.body, []byte(goodText)):
		return "a second model answers what the first one has answered"
	case a.status != 200 || a.header.Get("Holdfast-Source") != "first":
		return "the first tier's whole answer is not delivered as that: source " + a.header.Get("Holdfast-Source")
	case errorsIn(c.wire, a.body) > 0:
		return "an error behind a whole answer"
	case c.wire == "gemini-array" && !json.Valid(a.body):
		return "the array is not closed"
	}
	return ""
}

// judgeBefore: one good answer, whole, from the second tier alone.
func (c cutCase) judgeBefore(t *testing.T, a *answered, second int) string {
	switch {
	case a.status != 200:
		return "no answer"
	case c.other == "" && string(a.body) != goodAnswer[c.wire]:
		return "the body is not the second tier's answer to the byte"
	case c.other != "" && !c.translated(t, a.body):
		return "the body is not the second tier's answer in the form that was asked for"
	case a.header.Get("Holdfast-Source") != "second":
		return "source " + a.header.Get("Holdfast-Source")
	case second != 1:
		return "the second tier was not called once"
	case a.header.Get("Holdfast-Attempts") != "2":
		return "attempts " + a.header.Get("Holdfast-Attempts")
	case a.header.Get("Holdfast-Requested-Model") != c.model || a.header.Get("Holdfast-Served-Model") != "good" || a.header.Get("Holdfast-Fallback-Reason") == "":
		return fmt.Sprintf("it does not say who answered, and why: %v", a.header)
	case a.code() != "":
		return "an error's header on a good answer"
	}
	return ""
}

// judgeAfter: whole events of the first tier, then one error in the form that raises, and no second model.
func (c cutCase) judgeAfter(a *answered, second int) string {
	shared := sharedPrefix(a.body, c.stream)
	switch {
	case second != 0:
		return "the second tier was called past the boundary"
	case bytes.Contains(a.body, []byte(goodText)):
		return "a second model's text"
	case a.status != 200 || a.header.Get("Holdfast-Source") != "first":
		return "it does not say that the first tier began: source " + a.header.Get("Holdfast-Source")
	case !hasContent(c.wire, a.body[:shared]):
		return "the first tier's content did not come before its error"
	case len(messagesIn(c.wire, a.body)) != 1: // the provider's own event may stand before the one that raises
		return fmt.Sprintf("it tells of %q", messagesIn(c.wire, a.body))
	}
	if c.own {
		return heard(c.wire, a.body)
	}
	return raises(c.wire, a.body)
}
