package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// tierFault is how a tier ends a call that it does not answer.
type tierFault struct {
	name    string
	status  int
	kind    string // content type, for what is no stream
	stream  func(wire string) string
	clean   bool
	visible bool // behind its boundary
	whole   bool // it is an answer, in a form that does not fit behind a bridge
}

func lead(wire string) string { return begunAs[wire].lead }

// tierFaults are told in different forms: by a status, by the end of a stream, by an event of it, by a page of somebody else's.
var tierFaults = []tierFault{
	{name: "status", status: 503, kind: "application/json", stream: func(string) string { return `{"error":{"message":"busy"}}` }, clean: true},
	{name: "torn", stream: lead},
	{name: "closed", stream: lead, clean: true},
	{name: "event", stream: func(wire string) string {
		b := begunAs[wire]
		if wire == "gemini-array" {
			return b.lead + failing[wire][0] + "]"
		}
		return b.lead + "event: error" + b.behind[:len(b.behind)/2] + b.before + failing[wire][0] + b.behind
	}, clean: true},
	{name: "error under 200", kind: "application/json", stream: func(wire string) string { return failing[wire][0] }, clean: true},
	{name: "page", kind: "text/html", stream: func(string) string { return "<html>captive portal</html>" }, clean: true},
	{name: "content", stream: func(wire string) string { return lead(wire) + begunAs[wire].content }, visible: true},
	{name: "document", kind: "application/json", stream: func(wire string) string { return goodDocument[wire] }, clean: true, whole: true},
}

// goodDocument is a whole answer of each wire format that is no stream.
var goodDocument = map[string]string{
	"openai-chat":      `{"id":"g","object":"chat.completion","model":"good","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}`,
	"openai-responses": `{"id":"g","object":"response","status":"completed","model":"good","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]}]}`,
	"anthropic":        `{"id":"g","type":"message","role":"assistant","model":"good","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`,
	"gemini-sse":       `{"candidates":[{"content":{"parts":[{"text":"x"}],"role":"model"},"finishReason":"STOP"}],"modelVersion":"good"}`,
	"gemini-array":     `{"candidates":[{"content":{"parts":[{"text":"x"}],"role":"model"},"finishReason":"STOP"}],"modelVersion":"good"}`,
}

func (f *tierFault) play(w http.ResponseWriter, wire string) {
	kind := f.kind
	if kind == "" {
		kind = kindOf(wire)
	}
	w.Header().Set("Content-Type", kind)
	if f.status > 0 {
		w.WriteHeader(f.status)
	}
	_, _ = io.WriteString(w, f.stream(wire))
	if !f.clean {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func kindOf(wire string) string {
	if wire == "gemini-array" {
		return "application/json"
	}
	return "text/event-stream"
}

// bridgedCase is a call whose first tier is silent until its client has a sign of life, and then fails.
type bridgedCase struct {
	cutCase
	first, second *tierFault // second is nil where it answers
	gate          chan struct{}
}

// signOfLife is what each client may be sent any number of times before an answer (semantics 23).
var signOfLife = map[string]string{"openai-chat": ": keep-alive\n\n", "openai-responses": ": keep-alive\n\n",
	"anthropic": "event: ping\ndata: {\"type\": \"ping\"}\n\n", "gemini-sse": "\n\n", "gemini-array": "\r\n"}

func bridgedCases() (all []*bridgedCase) {
	others := map[string][]string{"openai-chat": {"", "openai-anthropic", "openai-gemini"}, "anthropic": {"", "anthropic-openai", "anthropic-gemini"}}
	for _, wire := range wires {
		for _, other := range append(others[wire], "")[:max(1, len(others[wire]))] {
			for i := range tierFaults[:len(tierFaults)-2] { // the last two are no failures before the boundary
				for j := range len(tierFaults) + 1 {
					c := &bridgedCase{first: &tierFaults[i], gate: make(chan struct{})}
					name := "answers"
					if j < len(tierFaults) {
						c.second = &tierFaults[j]
						name = c.second.name
					}
					c.cutCase = cutCase{name: fmt.Sprintf("%s %s: %s, %s", wire, other, c.first.name, name), wire: wire, other: other, model: fmt.Sprintf("b-%04d", len(all))}
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// bridgedFar is the far side of both tiers.
type bridgedFar map[string]*bridgedCase

func (f bridgedFar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c := f[request{body: string(body)}.op()]
	if strings.HasPrefix(r.URL.Path, "/first/") {
		select {
		case <-c.gate:
			c.first.play(w, c.wire)
		case <-r.Context().Done():
		}
		return
	}
	wire := speaks(r.URL.Path, c.wire)
	if c.second != nil {
		c.second.play(w, wire)
		return
	}
	w.Header().Set("Content-Type", kindOf(wire))
	_, _ = io.WriteString(w, goodAnswer[wire])
}

// A wait that is bridged ends like any other: in the next tier's answer, whole and in the form that was asked for, in one error in the
// form that raises where no tier has one, or behind the second tier's content in one error. The facts are in the trailers (semantics 23).
func TestBridgedTiers(t *testing.T) {
	all, far := bridgedCases(), bridgedFar{}
	for _, c := range all {
		far[c.model] = c
	}
	server := httptest.NewServer(far)
	defer server.Close()
	r := newRig(t, func(c *rigConfig) {
		common := twoTiersCommon + ", bridge_after: 20ms, breaker: {failure_threshold: 1000000}"
		c.yaml = strings.NewReplacer("FAR", server.URL, "COMMON", common).Replace(twoTiers)
	})
	queue := make(chan *bridgedCase)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for c := range queue {
				if a, fault := c.play(r); fault == "" {
					fault = c.judge(t, a)
					if fault != "" {
						t.Errorf("%s: %s\n%q\n%v", c.name, fault, a.body, a.trailer)
					}
				} else {
					t.Errorf("%s: %s", c.name, fault)
				}
			}
		})
	}
	for _, c := range all {
		queue <- c
	}
	close(queue)
	workers.Wait()
	r.atRest()
}

// play makes the call and lets the first tier fail once its client has a sign of life.
func (c *bridgedCase) play(r *rig) (*answered, string) {
	resp, err := r.open(c.ask())
	if err != nil {
		close(c.gate)
		return nil, err.Error()
	}
	defer resp.Body.Close()
	first := make([]byte, len(signOfLife[c.wire]))
	_, err = io.ReadFull(resp.Body, first)
	close(c.gate)
	if err != nil || string(first) != signOfLife[c.wire] {
		return nil, fmt.Sprintf("no sign of life, but %q %v", first, err)
	}
	a := &answered{status: resp.StatusCode, header: resp.Header}
	a.body, a.err = io.ReadAll(resp.Body)
	for bytes.HasPrefix(a.body, first) {
		a.body = a.body[len(first):]
	}
	a.trailer = resp.Trailer
	return a, ""
}

func (c *bridgedCase) judge(t *testing.T, a *answered) string {
	said := func(name string) string { return a.trailer.Get("Holdfast-" + name) }
	switch {
	case a.status != 200 || a.err != nil:
		return fmt.Sprintf("%d %v", a.status, a.err)
	case !slices.Contains(strings.Split(said("Trail"), "; "), "first") || said("Intent") == "" || said("Attempts") != "2":
		return "it does not say which tiers did not answer"
	}
	switch {
	case c.second == nil:
		return c.judgeGood(t, a)
	case c.second.whole && c.wire == "gemini-array": // its head promises JSON, and this is
		if string(a.body) != goodDocument[c.wire] {
			return "not the document"
		}
		return ""
	case errorsIn(c.wire, a.body) != 1 && c.wire != "openai-responses":
		return fmt.Sprintf("%d errors", errorsIn(c.wire, a.body))
	case hasContent(c.wire, a.body) != c.second.visible:
		return "content"
	case c.second.whole && (said("Error") != "upstream_incomplete" || said("Source") != "second"):
		return "the trailers do not say what became of the answer"
	case !c.second.visible && !c.second.whole && (said("Error") != "all_tiers_failed" || !strings.Contains(said("Trail"), "second; ")):
		return "the trailers do not say that no tier has answered"
	case strings.Contains(string(a.body), "answered 502") || strings.Contains(string(a.body), ": the provider answered 200;"):
		return "the error does not say what the provider did"
	case c.second.visible && said("Source") != "second":
		return "the trailers do not say who began to answer"
	}
	return raises(c.wire, a.body)
}

func (c *bridgedCase) judgeGood(t *testing.T, a *answered) string {
	switch {
	case c.other == "" && string(a.body) != goodAnswer[c.wire]:
		return "the body is not the second tier's answer to the byte"
	case c.other != "" && !c.translated(t, a.body):
		return "the body is not the second tier's answer in the form that was asked for"
	case a.trailer.Get("Holdfast-Source") != "second" || a.trailer.Get("Holdfast-Served-Model") != "good" || a.trailer.Get("Holdfast-Fallback-Reason") == "" ||
		a.trailer.Get("Holdfast-Error") != "":
		return "the trailers do not say who answered, and why"
	}
	return ""
}
