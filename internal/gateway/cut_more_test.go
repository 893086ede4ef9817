package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

// begunAs is the beginning of a stream of each wire format, to its first content, with how its next event is framed.
var begunAs = map[string]struct{ lead, content, before, behind string }{
	"openai-chat": {lead: `data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n",
		content: `data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"begun"}}]}` + "\n\n", before: "data: ", behind: "\n\n"},
	"openai-responses": {lead: "event: response.created\n" + `data: {"type":"response.created","response":{"id":"x","status":"in_progress"}}` + "\n\n",
		content: "event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","delta":"begun"}` + "\n\n", before: "data: ", behind: "\n\n"},
	"anthropic": {lead: "event: message_start\n" + `data: {"type":"message_start","message":{"id":"x","content":[]}}` + "\n\n" +
		"event: content_block_start\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n",
		content: "event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"begun"}}` + "\n\n", before: "data: ", behind: "\n\n"},
	"gemini-sse":   {content: `data: {"candidates":[{"content":{"parts":[{"text":"begun"}]}}]}` + "\r\n\r\n", before: "data: ", behind: "\r\n\r\n"},
	"gemini-array": {lead: "[", content: `{"candidates":[{"content":{"parts":[{"text":"begun"}]}}]}`, before: ",", behind: ""},
}

// failing are the forms in which servers report an error inside a stream, by wire format: the API's own, those of proxies before it, and
// those of servers that speak its format.
var failing = map[string][]string{
	"openai-chat":      {`{"error":{"message":"m","code":"overloaded"}}`, `{"error":"m"}`, `{"object":"error","message":"m","code":50300}`, `{"choices":[],"error":{"message":"m"}}`},
	"openai-responses": {`{"type":"error","code":"server_error","message":"m"}`, `{"type":"error","error":{"message":"m"}}`, `{"error":{"message":"m"}}`, `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"m"}}}`},
	"anthropic":        {`{"type":"error","error":{"type":"overloaded_error","message":"m"}}`, `{"error":{"message":"m"}}`},
	"gemini-sse":       {`{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}`},
	"gemini-array":     {`{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}`},
}

// erring are the streams of one wire format that report an error, before or behind content, in each form and with each end.
func erring(wire string, content bool) (all []cutCase) {
	b := begunAs[wire]
	begin := b.lead
	if content {
		begin += b.content
	}
	add := func(what, s string) {
		for _, clean := range []bool{true, false} {
			for _, pieces := range []bool{true, false} {
				all = append(all, cutCase{name: fmt.Sprintf("%s: %s, clean %v: %q", wire, what, clean, s), wire: wire, stream: []byte(begin + s), clean: clean, pieces: pieces, own: true})
			}
		}
	}
	sse := wire != "gemini-array"
	if !content && !sse {
		b.before = ""
	}
	for _, e := range failing[wire] {
		event := b.before + e
		add("alone", event+b.behind)
		add("followed by half an event", event+b.behind+b.before+`{"half`)
		if !sse {
			add("closed", event+"]")
			add("followed by more", event+b.before+"{}]")
			continue
		}
		eol := b.behind[:len(b.behind)/2]
		add("followed by more", event+b.behind+b.content)
		add("named", "event: error"+eol+event+b.behind)
		add("without its blank line", event+eol)
		add("without a line end", event)
		add("named, without its blank line", "event: error"+eol+event+eol)
		add("named, without its blank line, followed by half a line", "event: error"+eol+event+eol+"event: err")
		add("named, half", "event: error"+eol+event[:len(event)-3])
		add("named, less than half", "event: error"+eol+event[:len(b.before)+1])
		add("bare", e+eol)
		add("bare and set off", e+b.behind)
		add("bare, followed by half an event", e+b.behind+b.before+`{"half`)
		add("bare, half", e[:len(e)-3])
	}
	return all
}

// heard says what a body lacks for all official clients to raise at an error in it, wherever it stands; "" for nothing.
func heard(wire string, b []byte) string {
	var event, bare bool
	for _, f := range framesOf(wire, b) {
		e := at(f.decoded(), "error")
		_, object := e.(map[string]any)
		switch {
		case f.stray:
			bare = bare || something(e)
		case wire == "openai-chat":
			event = event || something(e) && !something(at(f.decoded(), "choices"))
		case wire == "anthropic":
			event = event || f.name == "error"
		default:
			event = event || object
		}
	}
	switch {
	case bytes.Contains(b, []byte(`{"half`)):
		return "half an event"
	case wire == "gemini-array" && !json.Valid(b):
		return "the array is none"
	case !event || wire == "gemini-sse" && !bare:
		return "some client takes the error for no error"
	}
	return ""
}

// An error that a stream brings, in whatever form and however the stream ends behind it: behind the boundary the client has it in the
// form that its official clients raise, before it the second tier's answer (semantics 22, 24).
func TestErrorsInStreams(t *testing.T) {
	var all []cutCase
	for _, wire := range wires {
		all = append(append(all, erring(wire, true)...), erring(wire, false)...)
	}
	tally := playCuts(t, all)
	t.Logf("%d streams: %v", len(all), tally)
	if tally["complete"] > 0 || tally["before"] == 0 || tally["own error"] == 0 {
		t.Errorf("%v", tally)
	}
}

// The same before the boundary, where the second tier speaks another format.
func TestErrorsInStreamsAnsweredInAnotherFormat(t *testing.T) {
	var all []cutCase
	for _, other := range []string{"openai-anthropic", "openai-gemini", "anthropic-openai", "anthropic-gemini"} {
		wire, _, _ := strings.Cut(other, "-")
		for _, c := range erring(map[string]string{"openai": "openai-chat", "anthropic": "anthropic"}[wire], false) {
			c.other = other
			all = append(all, c)
		}
	}
	if tally := playCuts(t, all); tally["before"] != len(all) {
		t.Errorf("%v of %d", tally, len(all))
	}
}

// refusing are the events by which each API declines to answer, for a stream without content.
var refusing = map[string]string{
	"openai-chat": `data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"content_filter"}]}` + "\n\n",
	"anthropic":   "event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"refusal","stop_sequence":null},"usage":{"output_tokens":1}}` + "\n\n",
	"openai-responses": "event: response.incomplete\n" +
		`data: {"type":"response.incomplete","response":{"id":"x","status":"incomplete","output":[],"incomplete_details":{"reason":"content_filter"}}}` + "\n\n",
	"gemini-sse":   `data: {"candidates":[{"finishReason":"SAFETY","index":0}]}` + "\r\n\r\n",
	"gemini-array": `{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}`,
}

// refusals are streams without content that decline to answer, and end behind that in each way.
func refusals() (all []cutCase) {
	for _, wire := range wires {
		for _, half := range []string{"", begunAs[wire].before + `{"half`} {
			for _, pieces := range []bool{true, false} {
				stream := begunAs[wire].lead + refusing[wire] + half
				all = append(all, cutCase{name: wire + ", torn behind a refusal: " + half, wire: wire, stream: []byte(stream), pieces: pieces, denies: true})
			}
		}
	}
	return all
}

// A connection that breaks behind a refusal takes nothing back of it: it is the answer, and another tier's only where fallback.on has
// content_filter.
func TestTornRefusals(t *testing.T) {
	all := refusals()
	if tally := playCuts(t, all); tally["complete"] != len(all) {
		t.Errorf("%v of %d: another model answers what one has declined", tally, len(all))
	}
	all = refusals()
	if tally := playCuts(t, all, "content_filter"); tally["before"] != len(all) {
		t.Errorf("%v of %d: the tier that may answer is not asked", tally, len(all))
	}
}

// A document in the place of an array leaves whole or not at all: nothing could be said behind a part of it.
func TestDocumentForAnArray(t *testing.T) {
	whole := goodDocument["gemini-array"]
	far := &cutFar{cases: map[string]cutCase{}, calls: map[string]int{}}
	server := httptest.NewServer(far)
	defer server.Close()
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.NewReplacer("FAR", server.URL, "COMMON", twoTiersCommon).Replace(twoTiers)
	})
	for i := range len(whole) + 1 {
		for _, clean := range []bool{true, false} {
			c := cutCase{wire: "gemini-array", model: fmt.Sprint("d-", i, clean), stream: []byte("\n" + whole[:i]), clean: clean}
			far.mu.Lock()
			far.cases[c.model] = c
			far.mu.Unlock()
			want := goodAnswer[c.wire]
			if clean && i == len(whole) {
				want = string(c.stream)
			}
			if a := r.must(c.ask(), 200); string(a.body) != want {
				t.Errorf("%d of %d bytes, clean %v: %q", i, len(whole), clean, a.body)
			}
		}
	}
}
