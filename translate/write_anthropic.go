package translate

import (
	"slices"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// writeAnthropic is the request to https://platform.claude.com/docs/en/api/messages.
func (j *job) writeAnthropic(c *conversation) doc {
	version := claude(j.opts.publicName())
	d := doc{"model", j.opts.Model, "max_tokens", j.limit(c)}
	if len(c.system) > 0 {
		d = append(d, "system", j.anthropicTexts(c.system, "messages[0].content"))
	}
	d = append(d, "messages", j.anthropicTurns(c))
	d = append(d, j.anthropicToolset(c, version)...)
	d = append(d, j.anthropicConfig(c, version)...)
	d = append(d, j.anthropicNumbers(c, version)...)
	if len(c.stop) > 0 {
		for _, s := range c.stop {
			if strings.TrimSpace(s.text()) == "" {
				j.fail(c.stopAt, "Anthropic takes no stop sequence of white space") // .../docs/en/api/openai-sdk, stop
			}
		}
		d = append(d, "stop_sequences", values(c.stop))
	}
	if c.user.set() {
		d = append(d, "metadata", doc{"user_id", identifier(c.user.v, 256)})
	}
	if c.stream {
		d = append(d, "stream", true)
	}
	return d
}

// limit is the required max_tokens. It counts what the model thinks, as max_completion_tokens does.
func (j *job) limit(c *conversation) any {
	switch {
	case c.maxTokens.set():
		if c.maxTokens.v.int() < 1 {
			j.fail(c.maxTokens.at, "an answer has at least one token")
		}
		return c.maxTokens.v
	case j.opts.MaxTokens > 0:
		return j.opts.MaxTokens
	}
	return int64(DefaultMaxTokens)
}

func values(all []value) list {
	out := make(list, len(all))
	for i, v := range all {
		out[i] = v
	}
	return out
}

// anthropicNumbers writes the sampling. Claude refuses all of it since 4.7, in any version that the name does not tell, and
// temperature beside top_p since 4.1 (https://platform.claude.com/docs/en/about-claude/models/migration-guide).
func (j *job) anthropicNumbers(c *conversation, version int) (d doc) {
	for _, s := range []setting{c.seed, c.topK} {
		if s.set() {
			j.fail(s.at, "Anthropic has no such control")
		}
	}
	for _, s := range []setting{c.frequency, c.presence} {
		if s.set() && s.v.float() != 0 {
			j.fail(s.at, "Anthropic has no such control")
		}
	}
	temperature, topP := c.temperature.set() && c.temperature.v.float() != 1, c.topP.set() && c.topP.v.float() != 1 // 1 is the default of both sides
	switch {
	case temperature && c.temperature.v.float() > 1 && !mutant.On("temperature-beyond-range"):
		j.fail(c.temperature.at, "Anthropic's temperature ends at 1")
	case temperature && (version == 0 || version > 406):
		j.fail(c.temperature.at, "this model takes no sampling parameters")
	case topP && (version == 0 || version > 406):
		j.fail(c.topP.at, "this model takes no sampling parameters")
	case temperature && topP && version > 400:
		j.fail(c.topP.at, "this model takes temperature or top_p, not both")
	}
	if temperature {
		d = append(d, "temperature", c.temperature.v)
	}
	if topP {
		d = append(d, "top_p", c.topP.v)
	}
	return d
}

// anthropicConfig writes effort and format. Effort steers adaptive thinking, which excludes a forced tool and sampling
// (https://platform.claude.com/docs/en/build-with-claude/effort, .../adaptive-thinking).
func (j *job) anthropicConfig(c *conversation, version int) (d doc) {
	var config doc
	if c.effort.set() {
		levels := map[string]int{"low": 406, "medium": 406, "high": 406, "max": 406, "xhigh": 407}
		switch since, ok := levels[c.effort.v.text()]; {
		case !ok:
			j.fail(c.effort.at, "Anthropic has no such effort")
		case version < since:
			j.fail(c.effort.at, "this model takes no such effort")
		case c.forced():
			j.fail(c.effort.at, "Anthropic does not think where a tool is forced")
		case c.temperature.set() && c.temperature.v.float() != 1 || c.topP.set() && c.topP.v.float() != 1:
			j.fail(c.effort.at, "Anthropic does not think at another temperature")
		}
		config = append(config, "effort", c.effort.v)
		d = doc{"thinking", doc{"type", "adaptive"}}
	}
	if f := c.format; f != nil {
		config = append(config, "format", doc{"type", "json_schema", "schema", j.anthropicSchema(f, version)})
	}
	if config != nil {
		d = append(d, "output_config", config)
	}
	return d
}

func (j *job) anthropicSchema(f *format, version int) value {
	switch {
	case f.schema == nil:
		j.fail(f.at, "Anthropic gives JSON by a schema only; use json_schema")
		return nil
	case version < 405:
		j.fail(f.at, "this model holds answers to no schema")
		return nil
	}
	return described(j, f, j.schema(f.schema, f.at, claudeSchema))
}

// described is a schema with the description that stands beside it on OpenAI's side.
func described(j *job, f *format, schema value) value {
	if f.description == nil || j.err != nil {
		return schema
	}
	if schema.get("description") != nil {
		j.fail(f.at, "of a format's description and its schema's only one has a place elsewhere")
		return nil
	}
	d := doc{"description", f.description}
	for n, m := range schema.members() {
		d = append(d, n, m)
	}
	return d.bytes()
}

func (j *job) anthropicToolset(c *conversation, version int) (d doc) {
	if at, ok := c.hasCalls(); ok && len(c.tools) == 0 {
		j.fail(at, "Anthropic takes calls in the history only where their tools are declared")
	}
	if len(c.tools) == 0 {
		return nil
	}
	var tools list
	for _, t := range c.tools {
		if !isName(t.name, 128, "_-") {
			j.fail(t.at, "Anthropic's names of tools are letters, digits, _ and -, at most 128")
		}
		schema := j.parameters(t, t.at)
		for _, word := range []string{"oneOf", "anyOf", "allOf"} {
			if schema.get(word) != nil {
				j.fail(t.at, "Anthropic takes no "+word+" at the root of a tool's schema")
			}
		}
		o := doc{"name", t.name}.with("description", t.description)
		if t.strict {
			if version < 405 {
				j.fail(t.at, "this model holds arguments to no schema")
			}
			schema = j.schema(schema, t.at, claudeSchema)
			o = append(o, "strict", true)
		}
		tools = append(tools, append(o, "input_schema", schema))
	}
	return append(doc{"tools", tools}, anthropicPick(c)...)
}

func anthropicPick(c *conversation) doc {
	kinds := map[mode]string{auto: "auto", none: "none", anyTool: "any", one: "tool"}
	pick := doc{"type", kinds[c.choice.mode]}
	if c.choice.mode == one {
		pick = append(pick, "name", c.choice.name)
	}
	if c.choice.serial != "" && c.choice.mode != none {
		pick = append(pick, "disable_parallel_tool_use", true)
	} else if c.choice.mode == auto {
		return nil
	}
	return doc{"tool_choice", pick}
}

// isName reports whether s is 1 to limit letters, digits and further characters.
func isName(s string, limit int, further string) bool {
	ok := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(further, r)
	}
	return s != "" && len(s) <= limit && strings.IndexFunc(s, func(r rune) bool { return !ok(r) }) < 0
}

func (j *job) anthropicTexts(all []value, at string) (out list) {
	for _, t := range all {
		if strings.TrimSpace(t.text()) == "" {
			j.fail(at, "Anthropic takes no text of white space alone")
		}
		out = append(out, doc{"type", "text", "text", t})
	}
	return out
}

func (j *job) anthropicTurns(c *conversation) (out list) {
	ids := map[string]bool{}
	for i, t := range c.turns {
		name := "user"
		switch t.role {
		case fromModel:
			name = "assistant"
		case fromSystem:
			j.fail(t.at, "Anthropic takes instructions before the conversation only")
		}
		if i == 0 && t.role != fromUser {
			j.fail(t.at, "Anthropic's conversations begin with the user")
		}
		var blocks list
		for _, p := range t.parts {
			if p.kind == call && ids[p.id] {
				j.fail(p.at, "Anthropic takes each id of a call once")
			}
			ids[p.id] = ids[p.id] || p.kind == call
			blocks = append(blocks, j.anthropicPart(p))
		}
		out = append(out, doc{"role", name, "content", blocks})
	}
	return out
}

func (j *job) anthropicPart(p part) doc {
	switch p.kind {
	case text:
		return j.anthropicTexts([]value{p.text}, p.at)[0].(doc)
	case call:
		if !isName(p.id, 256, "_-") {
			j.fail(p.at+".id", "Anthropic's ids of calls are letters, digits, _ and -")
		}
		return doc{"type", "tool_use", "id", p.id, "name", p.name, "input", p.args.compact()}
	case result:
		d := doc{"type", "tool_result", "tool_use_id", p.id}
		if len(p.texts) > 0 {
			d = append(d, "content", j.anthropicTexts(p.texts, p.at))
		}
		return d
	}
	return j.anthropicMedia(p)
}

// anthropicMedia writes what is looked at (https://platform.claude.com/docs/en/build-with-claude/vision, .../pdf-support).
func (j *job) anthropicMedia(p part) doc {
	name, kinds := "image", []string{"image/jpeg", "image/png", "image/gif", "image/webp"}
	if p.kind == document {
		name, kinds = "document", []string{"application/pdf"}
	}
	d := doc{"type", name}
	if p.url != nil {
		d = append(d, "source", doc{"type", "url", "url", p.url})
	} else {
		if !slices.Contains(kinds, p.mime) {
			j.fail(p.at, "Anthropic takes "+strings.Join(kinds, ", ")+" here")
		}
		d = append(d, "source", doc{"type", "base64", "media_type", p.mime, "data", p.data})
	}
	return d.with("title", p.title)
}
