package gateway_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// frame is one event of a stream, or one element of an array, as a client reads it. This reader is written for the tests alone, so
// that what they know of streams is not the gateway's own knowledge.
type frame struct {
	from, to int // bytes of the stream
	name     string
	data     []byte
	stray    bool // a bare JSON document between events
}

// framesOf reads what is complete in b.
func framesOf(wire string, b []byte) []frame {
	if wire == "gemini-array" {
		return elementsOf(b)
	}
	return eventsOf(b)
}

// eventsOf reads server-sent events by the WHATWG's rules, and beside them bare JSON objects that begin a line.
func eventsOf(b []byte) (all []frame) {
	at, f, some := 0, frame{}, false
	if bytes.HasPrefix(b, []byte("\xef\xbb\xbf")) {
		at = 3
	}
	for at < len(b) {
		if n := bareObject(b[at:]); n > 0 {
			all = append(all, frame{from: at, to: at + n, data: b[at : at+n], stray: true})
			at += n
			continue
		}
		line, next := lineAt(b, at)
		if next < 0 {
			return all
		}
		at = next
		field, value, colon := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0 && some:
			f.to = at
			all = append(all, f)
			f, some = frame{from: at}, false
		case len(line) == 0:
			f = frame{from: f.from}
		case string(field) == "event" && colon:
			f.name = string(value)
		case string(field) == "data":
			if some {
				f.data = append(f.data, '\n')
			}
			f.data, some = append(f.data, value...), true
		}
	}
	return all
}

// lineAt reads the line that begins at at, and where the next one does: -1 for a line without an end.
func lineAt(b []byte, at int) (line []byte, next int) {
	n := bytes.IndexAny(b[at:], "\r\n")
	if n < 0 {
		return nil, -1
	}
	line, next = b[at:at+n], at+n+1
	if b[at+n] == '\r' && next < len(b) && b[next] == '\n' {
		next++
	}
	return line, next
}

// bareObject is the length of the JSON object that begins at b's first byte, 0 where none does.
func bareObject(b []byte) int {
	if len(b) == 0 || b[0] != '{' {
		return 0
	}
	var object json.RawMessage
	d := json.NewDecoder(bytes.NewReader(b))
	if d.Decode(&object) != nil {
		return 0
	}
	return int(d.InputOffset())
}

// elementsOf reads the elements of a JSON array, closed or not.
func elementsOf(b []byte) (all []frame) {
	d := json.NewDecoder(bytes.NewReader(b))
	if _, err := d.Token(); err != nil {
		return nil
	}
	from := int(d.InputOffset())
	for d.More() {
		var element json.RawMessage
		if d.Decode(&element) != nil {
			return all
		}
		all = append(all, frame{from: from, to: int(d.InputOffset()), data: element})
		from = int(d.InputOffset())
	}
	return all
}

// at walks into a decoded document by names; a list is entered at its first element.
func at(v any, path ...string) any {
	for _, name := range path {
		if list, ok := v.([]any); ok && len(list) > 0 {
			v = list[0]
		}
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// something says that a value is there and not empty.
func something(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return true
}

func (f frame) decoded() (v any) {
	if json.Unmarshal(f.data, &v) != nil {
		return nil
	}
	return v
}

// content says that an event brings content of any kind: text, reasoning, a refusal, a tool call.
func (f frame) content(wire string) bool {
	v := f.decoded()
	if f.stray {
		return false
	}
	switch wire {
	case "openai-chat":
		for _, name := range []string{"content", "refusal", "reasoning", "reasoning_content", "tool_calls", "function_call"} {
			if something(at(v, "choices", "delta", name)) {
				return true
			}
		}
	case "openai-responses":
		return responsesContent(v)
	case "anthropic":
		return anthropicContent(v)
	default:
		parts, _ := at(v, "candidates", "content", "parts").([]any)
		return slices.ContainsFunc(parts, func(p any) bool { return something(at(p, "text")) || something(at(p, "functionCall")) })
	}
	return false
}

func responsesContent(v any) bool {
	kind, _ := at(v, "type").(string)
	if kind == "response.output_item.added" {
		item, _ := at(v, "item", "type").(string)
		return strings.HasSuffix(item, "_call")
	}
	return strings.HasSuffix(kind, ".delta") && something(at(v, "delta"))
}

func anthropicContent(v any) bool {
	switch at(v, "type") {
	case "content_block_start":
		kind, _ := at(v, "content_block", "type").(string)
		return strings.HasSuffix(kind, "tool_use") || something(at(v, "content_block", "text")) || something(at(v, "content_block", "thinking"))
	case "content_block_delta":
		for _, name := range []string{"text", "thinking", "partial_json"} {
			if something(at(v, "delta", name)) {
				return true
			}
		}
	}
	return false
}

func hasContent(wire string, b []byte) bool {
	return slices.ContainsFunc(framesOf(wire, b), func(f frame) bool { return f.content(wire) })
}

// fails says that an event reports a failure, in whatever form.
func (f frame) fails() bool {
	v := f.decoded()
	kind, _ := at(v, "type").(string)
	_, list := v.([]any)
	return !list && something(at(v, "error")) || f.name == "error" || kind == "error" || kind == "response.failed" || at(v, "object") == "error"
}

// errorsIn counts the failures that a client is told of. Gemini's two forms of one error behind one another are one (semantics 24).
func errorsIn(wire string, b []byte) (n int) {
	said := ""
	for _, f := range framesOf(wire, b) {
		if !f.fails() {
			continue
		}
		if f.stray && said == string(bytes.TrimSpace(f.data)) {
			continue
		}
		said = string(bytes.TrimSpace(f.data))
		n++
	}
	return n
}

// messagesIn are the different failures that a client is told of, in their words.
func messagesIn(wire string, b []byte) (all []string) {
	for _, f := range framesOf(wire, b) {
		if !f.fails() {
			continue
		}
		v := f.decoded()
		said := "?"
		for _, path := range [][]string{{"error", "message"}, {"response", "error", "message"}, {"message"}, {"error"}} {
			if m, ok := at(v, path...).(string); ok {
				said = m
				break
			}
		}
		if !slices.Contains(all, said) {
			all = append(all, said)
		}
	}
	return all
}

// raises says what the last event lacks of the form that makes that API's official clients raise, "" for nothing.
func raises(wire string, b []byte) string {
	all := framesOf(wire, b)
	if len(all) == 0 {
		return "no event at all"
	}
	last := all[len(all)-1]
	v := last.decoded()
	switch wire {
	case "openai-chat":
		if last.stray || last.name != "" || !something(at(v, "error", "message")) {
			return `the last event is not data: {"error":…}`
		}
	case "openai-responses":
		if last.name != "error" || at(v, "type") != "error" || !something(at(v, "error", "message")) || !something(at(v, "message")) {
			return "the last event is not event: error in both forms"
		}
	case "anthropic":
		if last.name != "error" || at(v, "type") != "error" || !something(at(v, "error", "message")) {
			return "the last event is not event: error"
		}
	case "gemini-sse":
		if !last.stray || len(all) < 2 || all[len(all)-2].name != "" || !all[len(all)-2].fails() {
			return `the last events are not data: {"error":…} and the bare form`
		}
	case "gemini-array":
		if !json.Valid(b) || !something(at(v, "error", "message")) {
			return "the array does not end in an error"
		}
	}
	return ""
}

// goodText is the answer of the second tier, which no recorded stream has in it.
const goodText = "the second tier speaks"

// goodAnswer is a whole stream of each wire format.
var goodAnswer = map[string]string{
	"openai-chat": `data: {"id":"good-1","object":"chat.completion.chunk","created":1,"model":"good","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"good-1","object":"chat.completion.chunk","created":1,"model":"good","choices":[{"index":0,"delta":{"content":"` + goodText + `"},"finish_reason":null}]}

data: {"id":"good-1","object":"chat.completion.chunk","created":1,"model":"good","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

`,
	"openai-responses": `event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_good","object":"response","status":"in_progress","model":"good","output":[]}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":1,"item_id":"msg_good","output_index":0,"content_index":0,"delta":"` + goodText + `"}

event: response.completed
data: {"type":"response.completed","sequence_number":2,"response":{"id":"resp_good","object":"response","status":"completed","model":"good","output":[{"id":"msg_good","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"` + goodText + `","annotations":[]}]}],"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}}

`,
	"anthropic": `event: message_start
data: {"type":"message_start","message":{"id":"msg_good","type":"message","role":"assistant","model":"good","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + goodText + `"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":4}}

event: message_stop
data: {"type":"message_stop"}

`,
	"gemini-sse":   `data: {"candidates":[{"content":{"parts":[{"text":"` + goodText + `"}],"role":"model"},"finishReason":"STOP","index":0}],"modelVersion":"good"}` + "\r\n\r\n",
	"gemini-array": `[{"candidates":[{"content":{"parts":[{"text":"` + goodText + `"}],"role":"model"},"finishReason":"STOP","index":0}],"modelVersion":"good"}]`,
}
