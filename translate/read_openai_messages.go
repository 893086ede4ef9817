package translate

import "strings"

func (j *job) openAIMessages(all []value, c *conversation) {
	for i, v := range all {
		if j.err != nil {
			return
		}
		m := j.object(v, index("messages", i))
		switch kind := m.need("role"); kind {
		case "system", "developer":
			j.openAISystem(m, c)
		case "user":
			c.turns = append(c.turns, turn{role: fromUser, at: m.at, parts: j.openAIContent(m, true)})
		case "assistant":
			c.turns = append(c.turns, j.openAIAssistant(m))
		case "tool":
			j.openAIResult(m, c)
		default:
			j.fail(m.path("role"), other(kind, map[string]string{"function": "the older form of tool results is not translated; use tool"}))
		}
		m.end(openAIMessageRules)
	}
}

var openAIMessageRules = map[string]string{
	"name":          "other providers know no names of participants",
	"audio":         "state held by a provider is at no other",
	"function_call": "the older form of tool_calls is not translated; use tool_calls",
	"annotations":   "citations of hosted tools belong to one provider",
}

// openAISystem keeps instructions before the first turn apart: everywhere else they have a place of their own.
func (j *job) openAISystem(m fields, c *conversation) {
	parts := j.openAIContent(m, false)
	if len(c.turns) > 0 {
		c.turns = append(c.turns, turn{role: fromSystem, at: m.at, parts: parts})
		return
	}
	for _, p := range parts {
		c.system = append(c.system, p.text)
	}
}

// openAIContent reads the content of a message: a string or parts. Empty texts say nothing, and Anthropic refuses them.
func (j *job) openAIContent(m fields, media bool) []part {
	v, at := m.take("content"), m.path("content")
	switch {
	case v == nil:
		return nil
	case v.is('"'):
		return textPart(v, at)
	case !v.is('['):
		j.wrong(at, "a string or an array of parts")
	}
	var out []part
	i := 0
	for item := range v.items() {
		out = append(out, j.openAIPart(j.object(item, index(at, i)), media)...)
		i++
	}
	return out
}

func textPart(v value, at string) []part {
	if v == nil || string(v) == `""` {
		return nil
	}
	return []part{{kind: text, at: at, text: v}}
}

func (j *job) openAIPart(f fields, media bool) []part {
	defer f.end(nil)
	f.drop("prompt_cache_breakpoint")
	kind := f.need("type")
	switch {
	case kind == "text":
		return textPart(f.want("text"), f.at)
	case kind == "refusal": // what the assistant said, in words
		return textPart(f.want("refusal"), f.at)
	case kind == "image_url" && media:
		return []part{j.openAIImage(f)}
	case kind == "file" && media:
		return []part{j.openAIFile(f)}
	}
	j.fail(f.path("type"), other(kind, map[string]string{"input_audio": "audio is not translated", "image_url": "no image has a place here",
		"file": "no file has a place here"}))
	f.forget()
	return nil
}

// forget ends the reading of an object whose fault is known.
func (f fields) forget() { clear(f.m) }

func (j *job) openAIImage(f fields) part {
	u := j.object(f.take("image_url"), f.path("image_url"))
	defer u.end(map[string]string{"detail": "other providers choose the resolution themselves"})
	u.usual("detail", `"auto"`, `"high"`) // the others look at an image as closely as they can
	p := part{kind: image, at: u.path("url"), url: u.want("url")}
	if mime, data, ok := dataURL(p.url.text()); ok {
		p.mime, p.data, p.url = mime, data, nil
	} else if !isWeb(p.url) {
		j.wrong(p.at, "an http or data URL with base64")
	}
	return p
}

func isWeb(url value) bool {
	s := url.text()
	return strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://")
}

// openAIFile reads a document that travels with the request. A file id names one at this provider only.
func (j *job) openAIFile(f fields) part {
	d := j.object(f.take("file"), f.path("file"))
	defer d.end(map[string]string{"file_id": "a file kept by a provider is at no other"})
	p := part{kind: document, at: d.path("file_data"), title: d.raw("filename")}
	if _, kept := d.m["file_id"]; kept {
		return p // end says why not
	}
	mime, data, ok := dataURL(d.want("file_data").text())
	if !ok {
		j.wrong(p.at, "a data URL with base64")
	}
	p.mime, p.data = mime, data
	return p
}

// dataURL takes a data URL with base64 apart (RFC 2397).
func dataURL(s string) (mime, data string, ok bool) {
	rest, ok := strings.CutPrefix(s, "data:")
	if !ok {
		return "", "", false
	}
	head, data, ok := strings.Cut(rest, ",")
	if !ok {
		return "", "", false
	}
	mime, ok = strings.CutSuffix(head, ";base64")
	mime, _, _ = strings.Cut(mime, ";")
	return strings.ToLower(mime), data, ok && isBase64(data)
}

func isBase64(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '=') {
			return false
		}
	}
	return s != ""
}

func (j *job) openAIAssistant(m fields) turn {
	t := turn{role: fromModel, at: m.at, parts: j.openAIContent(m, false)}
	t.parts = append(t.parts, textPart(m.raw("refusal"), m.path("refusal"))...)
	m.usual("annotations", "[]")
	for i, v := range m.list("tool_calls") {
		t.parts = append(t.parts, j.openAICall(j.object(v, index(m.path("tool_calls"), i))))
	}
	return t
}

func (j *job) openAICall(f fields) part {
	defer f.end(nil)
	if kind := f.need("type"); kind != "function" {
		j.fail(f.path("type"), other(kind, map[string]string{"custom": "only functions take JSON, and only those are translated"}))
		f.forget()
		return part{}
	}
	fn := j.object(f.take("function"), f.path("function"))
	defer fn.end(nil)
	p := part{kind: call, at: f.at, id: f.need("id"), name: fn.need("name")}
	arguments := fn.str("arguments")
	if strings.TrimSpace(arguments) == "" {
		arguments = "{}" // how a call without parameters is written by some
	}
	if p.args = parse([]byte(arguments)); !p.args.is('{') {
		j.fail(fn.path("arguments"), "arguments that are not a JSON object have no form elsewhere")
	}
	return p
}

// openAIResult adds a tool's message to the turn of results: elsewhere the results of one turn stand together.
func (j *job) openAIResult(m fields, c *conversation) {
	p := part{kind: result, at: m.at, id: m.need("tool_call_id"), texts: []value{}}
	for _, t := range j.openAIContent(m, false) {
		p.texts = append(p.texts, t.text)
	}
	if n := len(c.turns); n > 0 && c.turns[n-1].role == fromTools {
		c.turns[n-1].parts = append(c.turns[n-1].parts, p)
		return
	}
	c.turns = append(c.turns, turn{role: fromTools, at: m.at, parts: []part{p}})
}
