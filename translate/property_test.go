package translate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// said draws a text, in an escape of JSON's or another.
func said(t *rapid.T, label string) value {
	s := rapid.StringMatching(`[a-z<&"\\é€😀\n ]{0,12}[a-z]`).Draw(t, label)
	if rapid.Bool().Draw(t, "escaped") {
		return value(strings.ReplaceAll(string(quote(s)), "é", `\u00e9`))
	}
	return quote(s)
}

var schemas = []value{nil, value(`{"type":"object","properties":{}}`),
	value(`{"type":"object","properties":{"a":{"type":"string","description":"<b>"}},"required":["a"],"additionalProperties":false}`)}

// dialogue draws a conversation that every API can hold.
func dialogue(t *rapid.T) *conversation {
	c := &conversation{stopAt: "stop", choice: choice{at: "tool_choice"}, usage: true}
	for range rapid.IntRange(0, 2).Draw(t, "system") {
		c.system = append(c.system, said(t, "instruction"))
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "tools") {
		c.tools = append(c.tools, tool{name: fmt.Sprintf("f%d", i), schema: rapid.SampledFrom(schemas[1:]).Draw(t, "schema")})
	}
	c.choice.mode = mode(rapid.IntRange(int(auto), int(one)).Draw(t, "choice"))
	if c.choice.mode == one {
		c.choice.name = "f0"
	}
	c.turns = []turn{userTurn(t)}
	for n := range rapid.IntRange(0, 3).Draw(t, "turns") {
		model, results := modelTurn(t, n, len(c.tools))
		c.turns = append(c.turns, model)
		if len(results.parts) > 0 {
			c.turns = append(c.turns, results)
		}
		if len(results.parts) == 0 || rapid.Bool().Draw(t, "goes on") {
			c.turns = append(c.turns, userTurn(t))
		}
	}
	c.maxTokens.v = value(fmt.Sprint(rapid.IntRange(1, 9999).Draw(t, "limit")))
	if rapid.Bool().Draw(t, "cool") {
		c.temperature.v = value("0.25")
	}
	for range rapid.IntRange(0, 4).Draw(t, "stops") {
		c.stop = append(c.stop, said(t, "stop"))
	}
	c.stream = rapid.Bool().Draw(t, "stream")
	return c
}

func userTurn(t *rapid.T) turn {
	u := turn{role: fromUser}
	for range rapid.IntRange(1, 3).Draw(t, "parts") {
		switch rapid.IntRange(0, 3).Draw(t, "part") {
		case 0:
			u.parts = append(u.parts, part{kind: image, mime: "image/png", data: "AAAA"})
		case 1:
			u.parts = append(u.parts, part{kind: document, mime: "application/pdf", data: "AAAA", title: value(`"a.pdf"`)})
		default:
			u.parts = append(u.parts, part{kind: text, text: said(t, "user")})
		}
	}
	return u
}

func modelTurn(t *rapid.T, n, tools int) (m, results turn) {
	m, results = turn{role: fromModel}, turn{role: fromTools}
	if rapid.Bool().Draw(t, "talks") {
		m.parts = append(m.parts, part{kind: text, text: said(t, "model")})
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "calls") {
		id, name := fmt.Sprintf("call_%d_%d", n, i), fmt.Sprintf("f%d", rapid.IntRange(0, tools-1).Draw(t, "which"))
		m.parts = append(m.parts, part{kind: call, id: id, name: name, args: doc{"a", said(t, "argument"), "n", value("9007199254740993")}.bytes()})
		r := part{kind: result, id: id, name: name}
		for range rapid.IntRange(0, 2).Draw(t, "texts") {
			r.texts = append(r.texts, said(t, "result"))
		}
		results.parts = append(results.parts, r)
	}
	if len(m.parts) == 0 {
		m.parts = append(m.parts, part{kind: text, text: said(t, "model")})
	}
	return m, results
}

// meaning is what a conversation says, without where and in which escapes it is written.
func meaning(c *conversation) string {
	var b strings.Builder
	for _, s := range c.system {
		fmt.Fprintf(&b, "system %q\n", s.text())
	}
	for _, t := range c.turns {
		fmt.Fprintf(&b, "%d:\n", t.role)
		for _, p := range t.parts {
			fmt.Fprintf(&b, "  %d %q %s %s %q %q %s %s %s %v", p.kind, p.text.text(), p.mime, p.data, p.url.text(), p.title.text(), p.id, p.name, p.args, p.failed)
			for _, s := range p.texts {
				fmt.Fprintf(&b, " %q", s.text())
			}
			b.WriteByte('\n')
		}
	}
	for _, t := range c.tools {
		fmt.Fprintf(&b, "tool %s %s %s %v\n", t.name, t.description, t.schema, t.strict)
	}
	fmt.Fprintf(&b, "choice %d %s, limit %s, temperature %s, stop %s, stream %v", c.choice.mode, c.choice.name, c.maxTokens.v, c.temperature.v, values(c.stop).bytes(), c.stream)
	return b.String()
}

// A request that goes to the other side and back means what it meant.
func TestRequestThereAndBack(t *testing.T) {
	for _, from := range []API{OpenAIChat, AnthropicMessages} {
		to := OpenAIChat
		if from == to {
			to = AnthropicMessages
		}
		t.Run(string(from), rapid.MakeCheck(func(t *rapid.T) {
			w := &job{from: to, to: from, opts: options(from)}
			first := w.write(dialogue(t)).bytes()
			there, err := Request(from, to, first, options(to))
			if w.err != nil || err != nil {
				t.Fatalf("%v, %v: %s", w.err, err, first)
			}
			back, err := Request(to, from, there.Body, options(from))
			if err != nil {
				t.Fatalf("%v: %s", err, there.Body)
			}
			if diff := cmp.Diff(understood(t, from, first), understood(t, from, back.Body)); diff != "" {
				t.Fatalf("%s\nthere:\n%s\nback:\n%s\n%s", first, there.Body, back.Body, diff)
			}
			if _, err := Request(from, GeminiGenerate, first, options(GeminiGenerate)); err != nil && !strings.Contains(err.Error(), "names of documents") {
				t.Fatalf("%v: %s", err, first)
			}
		}))
	}
}

func understood(t *rapid.T, api API, body []byte) string {
	j := &job{from: api}
	c := j.read(parse(body))
	j.check(c)
	if j.err != nil {
		t.Fatalf("%v: %s", j.err, body)
	}
	return meaning(c)
}

// reply is an answer in the order in which a model gives it.
type reply struct {
	texts []value
	calls []part
	ending
}

func drawReply(t *rapid.T) (r reply) {
	for range rapid.IntRange(0, 3).Draw(t, "texts") {
		r.texts = append(r.texts, said(t, "text"))
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "calls") {
		r.calls = append(r.calls, part{id: fmt.Sprintf("id_%d", i), name: fmt.Sprintf("f%d", i), args: doc{"a", said(t, "argument")}.bytes()})
	}
	r.finish = finish(rapid.IntRange(int(stopped), int(limited)).Draw(t, "finish"))
	if len(r.calls) > 0 && r.finish == stopped {
		r.finish = called
	}
	r.usage = usage{known: true, in: 100, cached: 30, written: 20, out: 50, thought: 10}
	return r
}

// tell gives the reply to a sink, its arguments in two pieces.
func (r reply) tell(s sink, cut int) {
	s.begin(head{id: "id", model: "m", created: 1764446400})
	for _, t := range r.texts {
		s.text(t)
	}
	for i, c := range r.calls {
		s.call(i, c.id, c.name)
		arguments := string(c.args)
		at := min(cut, len(arguments))
		for at < len(arguments) && arguments[at]&0xC0 == 0x80 {
			at++
		}
		s.args(i, quote(arguments[:at]))
		s.args(i, quote(arguments[at:]))
	}
	s.done(r.ending)
}

// far is the reply in a far side's words, whole and as a stream.
func (r reply) far(t *rapid.T, api API) (whole, stream []byte) {
	cut := rapid.IntRange(0, 9).Draw(t, "cut")
	switch api {
	case OpenAIChat:
		a := &openAIAnswer{}
		r.tell(a, 0)
		whole, _ = a.bytes()
		r.tell(&openAIStream{out: &stream, want: true}, cut)
	case AnthropicMessages:
		a := &anthropicAnswer{}
		r.tell(a, 0)
		whole, _ = a.bytes()
		r.tell(&anthropicStream{out: &stream}, cut)
	default:
		return r.gemini()
	}
	return whole, stream
}

func (r reply) gemini() (whole, stream []byte) {
	var parts list
	for _, s := range r.texts {
		parts = append(parts, doc{"text", s})
	}
	for _, c := range r.calls {
		parts = append(parts, doc{"functionCall", doc{"id", c.id, "name", c.name, "args", c.args}})
	}
	usage := doc{"promptTokenCount", 100, "cachedContentTokenCount", 30, "candidatesTokenCount", 40, "thoughtsTokenCount", 10}
	reason := "STOP"
	if r.finish == limited {
		reason = "MAX_TOKENS"
	}
	answer := func(parts list, reason any) doc {
		return doc{"candidates", list{doc{"content", doc{"parts", parts}, "finishReason", reason}}, "usageMetadata", usage, "modelVersion", "m", "responseId", "id"}
	}
	for _, p := range parts {
		stream = append(append(append(stream, "data: "...), answer(list{p}, nil).bytes()...), "\r\n\r\n"...)
	}
	stream = append(append(append(stream, "data: "...), answer(list{}, reason).bytes()...), "\r\n\r\n"...)
	return answer(parts, reason).bytes(), stream
}

// hear is what a whole answer says to its client.
func hear(client API, body []byte) (a told) {
	v := parse(body)
	a.Ended = true
	if client == OpenAIChat {
		c := value(nil)
		for first := range v.get("choices").items() {
			c = first
		}
		a.Text, a.Finish = c.get("message", "content").text(), c.get("finish_reason").text()
		for call := range c.get("message", "tool_calls").items() {
			a.Calls = append(a.Calls, call.get("function", "name").text()+" "+call.get("function", "arguments").text())
		}
		a.In, a.Out = v.get("usage", "prompt_tokens").int(), v.get("usage", "completion_tokens").int()
		return a
	}
	for b := range v.get("content").items() {
		a.Text += b.get("text").text()
		if b.get("type").text() == "tool_use" {
			a.Calls = append(a.Calls, b.get("name").text()+" "+string(b.get("input")))
		}
	}
	u := v.get("usage")
	a.Finish = v.get("stop_reason").text()
	a.In, a.Out = u.get("input_tokens").int()+u.get("cache_read_input_tokens").int()+u.get("cache_creation_input_tokens").int(), u.get("output_tokens").int()
	return a
}

// The events of a translated stream, put together, are the translated answer, however the far side's bytes were cut.
func TestStreamIsAnswer(t *testing.T) {
	for _, d := range []struct{ from, to API }{{OpenAIChat, AnthropicMessages}, {OpenAIChat, GeminiGenerate}, {AnthropicMessages, OpenAIChat}, {AnthropicMessages, GeminiGenerate}} {
		c := newCall(t, d.from, d.to)
		t.Run(string(d.from)+" "+string(d.to), func(outer *testing.T) {
			rapid.Check(outer, func(t *rapid.T) {
				whole, stream := drawReply(t).far(t, d.to)
				answer, err := c.Answer(whole)
				if err != nil {
					t.Fatalf("%v: %s", err, whole)
				}
				events, err := feed(c, stream, rapid.IntRange(1, 200).Draw(t, "piece"))
				if err != nil {
					t.Fatalf("%v: %s", err, stream)
				}
				if diff := cmp.Diff(hear(d.from, answer), listen(outer, d.from, events)); diff != "" {
					t.Fatalf("%s\n%s\n%s", whole, events, diff)
				}
			})
		})
	}
}

// An answer that goes to the other side's client and back is the answer.
func TestAnswerThereAndBack(t *testing.T) {
	calls := map[API]*Call{OpenAIChat: newCall(t, AnthropicMessages, OpenAIChat), AnthropicMessages: newCall(t, OpenAIChat, AnthropicMessages)}
	for far, c := range calls {
		t.Run(string(far), func(outer *testing.T) {
			rapid.Check(outer, func(t *rapid.T) {
				whole, stream := drawReply(t).far(t, far)
				there, err := c.Answer(whole)
				if err != nil {
					t.Fatal(err)
				}
				back, err := calls[c.From].Answer(there)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(hear(far, whole), hear(far, back)); diff != "" {
					t.Fatalf("%s\n%s", there, diff)
				}
				events, err := feed(c, stream, 33)
				if err != nil {
					t.Fatal(err)
				}
				again, err := feed(calls[c.From], []byte(events), 33)
				if diff := cmp.Diff(listen(outer, far, string(stream)), listen(outer, far, again)); diff != "" || err != nil {
					t.Fatalf("%v\n%s\n%s", err, events, diff)
				}
			})
		})
	}
}
