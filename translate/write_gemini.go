package translate

import (
	"math"
	"slices"
	"strings"
)

// writeGemini is the request to https://ai.google.dev/api/generate-content. The model stands in the path.
func (j *job) writeGemini(c *conversation) doc {
	version := gemini(j.opts.publicName())
	var d doc
	if len(c.system) > 0 {
		parts := list{}
		for _, t := range c.system {
			parts = append(parts, doc{"text", t})
		}
		d = append(d, "systemInstruction", doc{"parts", parts})
	}
	d = append(d, "contents", j.geminiTurns(c, version))
	d = append(d, j.geminiToolset(c)...)
	config := append(j.geminiNumbers(c), j.geminiFormat(c, version)...)
	if config = append(config, j.geminiThinking(c, version)...); len(config) > 0 {
		d = append(d, "generationConfig", config)
	}
	if c.user.set() {
		j.drop(c.user.at)
	}
	return d
}

func (j *job) geminiNumbers(c *conversation) (d doc) {
	limit := c.maxTokens.v
	if limit == nil && j.opts.MaxTokens > 0 {
		d = append(d, "maxOutputTokens", j.opts.MaxTokens)
	}
	d = d.with("maxOutputTokens", limit).with("temperature", c.temperature.v).with("topP", c.topP.v).with("topK", c.topK.v)
	if c.seed.set() {
		if s := c.seed.v.float(); s != math.Trunc(s) || s < math.MinInt32 || s > math.MaxInt32 {
			j.fail(c.seed.at, "Gemini's seed has 32 bits")
		}
		d = append(d, "seed", c.seed.v)
	}
	for _, s := range []struct {
		name string
		setting
	}{{"presencePenalty", c.presence}, {"frequencyPenalty", c.frequency}} {
		if s.set() && s.v.float() >= 2 {
			j.fail(s.at, "Gemini's penalties stay below 2")
		}
		d = d.with(s.name, s.v)
	}
	switch {
	case len(c.stop) > 5:
		j.fail(c.stopAt, "Gemini takes at most 5 stop sequences")
	case len(c.stop) > 0:
		d = append(d, "stopSequences", values(c.stop))
	}
	return d
}

// geminiFormat: models before 3 refuse tools beside JSON ("Function calling with a response mime type: 'application/json' is
// unsupported").
func (j *job) geminiFormat(c *conversation, version int) doc {
	f := c.format
	if f == nil {
		return nil
	}
	if len(c.tools) > 0 && version < 300 {
		j.fail(f.at, "this model gives no JSON where it has tools")
	}
	d := doc{"responseMimeType", "application/json"}
	if f.schema != nil {
		d = append(d, "responseJsonSchema", described(j, f, j.schema(f.schema, f.at, geminiSchema)))
	}
	return d
}

// geminiThinking goes by Google's own table for clients of OpenAI (https://ai.google.dev/gemini-api/docs/openai#thinking).
// A budget is the same thing on both sides, where it lies in the model's range (.../docs/thinking#set-budget).
func (j *job) geminiThinking(c *conversation, version int) doc {
	name := j.opts.publicName()
	if c.budget.set() {
		if n := c.budget.v.int(); version != 205 || n > 24576 || n < 1024 {
			j.fail(c.budget.at, "this model does not take that number of tokens to think with")
		}
		return doc{"thinkingConfig", doc{"thinkingBudget", c.budget.v}}
	}
	if !c.effort.set() {
		return nil
	}
	level := c.effort.v.text()
	budget, ok := map[string]int{"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}[level]
	switch {
	case version == 205 && level == "none" && strings.Contains(name, "flash"):
		return doc{"thinkingConfig", doc{"thinkingBudget", 0}}
	case version == 205 && ok:
		return doc{"thinkingConfig", doc{"thinkingBudget", budget}}
	case version >= 300 && ok:
		if level == "minimal" && strings.Contains(name, "pro") {
			level = "low"
		}
		return doc{"thinkingConfig", doc{"thinkingLevel", strings.ToUpper(level)}}
	}
	j.fail(c.effort.at, "this model takes no such effort")
	return nil
}

// geminiToolset writes tools (https://ai.google.dev/gemini-api/docs/function-calling). Modes ANY and VALIDATED hold the
// arguments to their schema.
func (j *job) geminiToolset(c *conversation) doc {
	if len(c.tools) == 0 {
		return nil
	}
	if c.choice.serial != "" && c.choice.mode != none {
		j.fail(c.choice.serial, "Gemini may always make several calls at once")
	}
	var declared list
	for _, t := range c.tools {
		if !isName(t.name, 64, "_-.:") || strings.ContainsRune("0123456789-.:", rune(t.name[0])) {
			j.fail(t.at, "Gemini's names of tools begin with a letter or _, and have at most 64 characters")
		}
		fn := doc{"name", t.name}.with("description", t.description)
		if !bare(t.schema) { // "For function with no parameters, this can be left unset", and some models refuse it set
			schema := j.parameters(t, t.at)
			if t.strict {
				schema = j.schema(schema, t.at, geminiSchema)
			}
			fn = append(fn, "parametersJsonSchema", schema)
		}
		declared = append(declared, fn)
	}
	d := doc{"tools", list{doc{"functionDeclarations", declared}}}
	var config doc
	switch {
	case c.choice.mode == none:
		config = doc{"mode", "NONE"}
	case c.choice.mode == anyTool:
		config = doc{"mode", "ANY"}
	case c.choice.mode == one:
		config = doc{"mode", "ANY", "allowedFunctionNames", list{c.choice.name}}
	case c.strict() != "":
		config = doc{"mode", "VALIDATED"}
	default:
		return d
	}
	return append(d, "toolConfig", doc{"functionCallingConfig", config})
}

// foreign stands where a call in the history would have the signature of Gemini's thinking: since version 3 a call without one
// is refused, and this is Google's own word for a call that another model made
// (https://ai.google.dev/gemini-api/docs/thought-signatures, FAQs).
const foreign = "skip_thought_signature_validator"

func (j *job) geminiTurns(c *conversation, version int) (out list) {
	j.geminiTitles(c)
	for i, t := range c.turns {
		name, signed := "user", version > 0 && version < 300
		switch {
		case t.role == fromModel:
			name = "model"
		case t.role == fromSystem:
			j.fail(t.at, "Gemini takes instructions before the conversation only")
		}
		if i == 0 && t.role != fromUser {
			j.fail(t.at, "Gemini's conversations begin with the user")
		}
		parts := list{}
		for _, p := range t.parts {
			d := j.geminiPart(p)
			if p.kind == call && !signed { // the first call of a turn carries it for all
				d, signed = append(d, "thoughtSignature", foreign), true
			}
			parts = append(parts, d)
		}
		out = append(out, doc{"role", name, "parts", parts})
	}
	return out
}

// geminiTitles: a document has no name there. One document needs none.
func (j *job) geminiTitles(c *conversation) {
	n := 0
	for _, t := range c.turns {
		for _, p := range t.parts {
			if p.kind != document {
				continue
			}
			if n++; p.title != nil {
				j.drop(p.at + " (its name)")
			}
			if n > 1 && p.title != nil {
				j.fail(p.at, "Gemini knows no names of documents, by which several are told apart")
			}
		}
	}
}

func (j *job) geminiPart(p part) doc {
	switch p.kind {
	case text:
		return doc{"text", p.text}
	case call:
		return doc{"functionCall", doc{"id", p.id, "name", p.name, "args", p.args.compact()}}
	case result:
		// FunctionResponse of go-genai: output and error are the keys that mean what they say, of any other form.
		key := "output"
		if p.failed {
			key = "error"
		}
		return doc{"functionResponse", doc{"id", p.id, "name", p.name, "response", doc{key, oneOrMore(p.texts)}}}
	}
	// https://ai.google.dev/gemini-api/docs/image-understanding#supported-formats, .../document-processing
	kinds := []string{"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}
	if p.kind == document {
		kinds = []string{"application/pdf"}
	}
	switch {
	case p.url != nil:
		j.fail(p.at, "Gemini must be told the media type of a URL, which the request does not say")
	case !slices.Contains(kinds, p.mime):
		j.fail(p.at, "Gemini takes "+strings.Join(kinds, ", ")+" here")
	}
	return doc{"inlineData", doc{"mimeType", p.mime, "data", p.data}}
}
