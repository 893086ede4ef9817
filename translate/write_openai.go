package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// writeOpenAI is the request to https://platform.openai.com/docs/api-reference/chat/create.
func (j *job) writeOpenAI(c *conversation) doc {
	d := doc{"model", j.opts.Model, "messages", j.openAITurns(c)}
	if limit := j.openAILimit(c); limit != nil {
		name := "max_completion_tokens"
		if j.opts.OldMaxTokens && !reasons(j.opts.publicName()) {
			name = "max_tokens"
		}
		d = append(d, name, limit)
	}
	d = append(d, j.openAINumbers(c)...)
	d = append(d, j.openAIToolset(c)...)
	if f := c.format; f != nil {
		schema := j.schema(f.schema, f.at, openAISchema)
		d = append(d, "response_format", doc{"type", "json_schema", "json_schema", doc{"name", "output", "strict", true, "schema", schema}})
	}
	if c.user.set() {
		d = append(d, "user", identifier(c.user.v, 64))
	}
	if c.stream {
		d = append(d, "stream", true, "stream_options", doc{"include_usage", true})
	}
	return d
}

func (j *job) openAILimit(c *conversation) any {
	switch {
	case c.maxTokens.set():
		return c.maxTokens.v
	case j.opts.MaxTokens > 0:
		return j.opts.MaxTokens
	}
	return nil
}

// openAINumbers writes sampling, effort and stop.
func (j *job) openAINumbers(c *conversation) (d doc) {
	thinks := reasons(j.opts.publicName())
	if c.topK.set() {
		j.fail(c.topK.at, "OpenAI has no such control")
	}
	if c.budget.set() {
		j.fail(c.budget.at, "OpenAI takes an effort, not a number of tokens to think with")
	}
	for _, s := range []struct {
		name string
		setting
	}{{"temperature", c.temperature}, {"top_p", c.topP}} {
		if !s.set() || s.v.float() == 1 { // the default of both sides
			continue
		}
		if thinks {
			j.fail(s.at, "this model takes no sampling parameters")
		}
		d = append(d, s.name, s.v)
	}
	d = append(d, j.openAIEffort(c, thinks)...)
	switch {
	case len(c.stop) > 4:
		j.fail(c.stopAt, "OpenAI takes at most 4 stop sequences")
	case len(c.stop) > 0 && thinks:
		j.fail(c.stopAt, "this model takes no stop sequences")
	case len(c.stop) > 0:
		d = append(d, "stop", values(c.stop))
	}
	return d
}

// openAIEffort: high is what Anthropic does without the field, so that a model without effort has it anyway.
func (j *job) openAIEffort(c *conversation, thinks bool) doc {
	if !c.effort.set() {
		return nil
	}
	level := c.effort.v.text()
	switch {
	case !slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, level):
		j.fail(c.effort.at, "OpenAI has no such effort")
	case thinks:
		return doc{"reasoning_effort", level}
	case level != "high":
		j.fail(c.effort.at, "this model takes no effort")
	}
	return nil
}

func (j *job) openAIToolset(c *conversation) doc {
	if len(c.tools) == 0 {
		return nil
	}
	var tools list
	for _, t := range c.tools {
		if !isName(t.name, 64, "_-") {
			j.fail(t.at, "OpenAI's names of tools are letters, digits, _ and -, at most 64")
		}
		fn := doc{"name", t.name}.with("description", t.description)
		schema := j.parameters(t, t.at)
		if t.strict {
			schema = j.schema(schema, t.at, openAISchema)
			fn = append(fn, "strict", true)
		}
		tools = append(tools, doc{"type", "function", "function", append(fn, "parameters", schema)})
	}
	d := doc{"tools", tools}
	switch c.choice.mode {
	case none:
		d = append(d, "tool_choice", "none")
	case anyTool:
		d = append(d, "tool_choice", "required")
	case one:
		d = append(d, "tool_choice", doc{"type", "function", "function", doc{"name", c.choice.name}})
	}
	if c.choice.serial != "" {
		d = append(d, "parallel_tool_calls", false)
	}
	return d
}

func (j *job) openAITurns(c *conversation) (out list) {
	if len(c.system) > 0 {
		out = append(out, doc{"role", "system", "content", openAITexts(c.system)})
	}
	for _, t := range c.turns {
		switch t.role {
		case fromSystem:
			out = append(out, doc{"role", "system", "content", openAITexts(texts(t.parts))})
		case fromUser:
			out = append(out, doc{"role", "user", "content", j.openAIParts(t.parts)})
		case fromModel:
			out = append(out, j.openAIAnswered(t))
		case fromTools:
			for _, p := range t.parts {
				out = append(out, doc{"role", "tool", "tool_call_id", p.id, "content", openAIResultText(p)})
			}
		}
	}
	return out
}

func texts(parts []part) (out []value) {
	for _, p := range parts {
		out = append(out, p.text)
	}
	return out
}

// openAITexts is a string where there is one text: every server understands that.
func openAITexts(all []value) any {
	if len(all) == 1 {
		return all[0]
	}
	out := list{}
	for _, t := range all {
		out = append(out, doc{"type", "text", "text", t})
	}
	return out
}

// openAIResultText is a tool's result. OpenAI leaves it to the text to say that a call failed
// (https://platform.openai.com/docs/guides/function-calling, "Formatting results"): the word for it is Gemini's, error.
func openAIResultText(p part) any {
	if p.failed {
		return string(doc{"error", oneOrMore(p.texts)}.bytes())
	}
	if len(p.texts) == 0 {
		return ""
	}
	return openAITexts(p.texts)
}

// oneOrMore is a text, or an array of those that must not be glued together.
func oneOrMore(all []value) any {
	switch len(all) {
	case 0:
		return ""
	case 1:
		return all[0]
	}
	return values(all)
}

func (j *job) openAIParts(parts []part) any {
	if !slices.ContainsFunc(parts, func(p part) bool { return p.kind != text }) {
		return openAITexts(texts(parts))
	}
	out := list{}
	for _, p := range parts {
		out = append(out, j.openAIMedia(p))
	}
	return out
}

func (j *job) openAIMedia(p part) doc {
	switch {
	case p.kind == text:
		return doc{"type", "text", "text", p.text}
	case p.kind == image && p.url != nil:
		return doc{"type", "image_url", "image_url", doc{"url", p.url}}
	case p.kind == image:
		if !slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, p.mime) {
			j.fail(p.at, "OpenAI takes JPEG, PNG, GIF and WebP")
		}
		return doc{"type", "image_url", "image_url", doc{"url", "data:" + p.mime + ";base64," + p.data}}
	case p.kind != document || p.url != nil || p.mime != "application/pdf":
		j.fail(p.at, "OpenAI takes PDF that travels with the request here")
		return nil
	}
	title := p.title
	if title == nil {
		title = value(`"document.pdf"`) // a name is required
	}
	return doc{"type", "file", "file", doc{"filename", title, "file_data", "data:" + p.mime + ";base64," + p.data}}
}

// openAIID is how long the id of a call may be: "string too long. Expected a string with maximum length 40".
const openAIID = 40

// openAIAnswered is a turn of the model: text and calls stand apart, so that text behind a call would lose its place.
func (j *job) openAIAnswered(t turn) doc {
	var said []value
	var calls list
	for _, p := range t.parts {
		switch {
		case p.kind == call:
			if len(p.id) > openAIID {
				j.fail(p.at+".id", "OpenAI's ids of calls have at most 40 characters")
			}
			calls = append(calls, doc{"id", p.id, "type", "function",
				"function", doc{"name", p.name, "arguments", string(p.args.compact())}})
		case p.kind != text:
			j.fail(p.at, "OpenAI's models answer in text and calls")
		case len(calls) > 0:
			j.fail(p.at, "OpenAI has no place for text behind a tool call")
		default:
			said = append(said, p.text)
		}
	}
	d := doc{"role", "assistant", "content", nil}
	if len(said) > 0 {
		d[3] = openAITexts(said)
	}
	if len(calls) > 0 {
		d = append(d, "tool_calls", calls)
	}
	return d
}

// identifier is an end user's id within the far side's limit: a longer one is hashed, as OpenAI advises for every id
// (https://platform.openai.com/docs/guides/safety-best-practices#implement-safety-identifiers).
func identifier(v value, limit int) any {
	s := v.text()
	if len(s) <= limit {
		return v
	}
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
