package translate

// openAIRules are the reasons why fields of a chat completion have no counterpart. The list of fields is that of
// https://platform.openai.com/docs/api-reference/chat/create.
var openAIRules = map[string]string{
	"n":                    "other providers give one answer",
	"logprobs":             "other providers' log probabilities are of other tokens",
	"top_logprobs":         "other providers' log probabilities are of other tokens",
	"logit_bias":           "token ids belong to one model's tokenizer",
	"audio":                "only this provider speaks",
	"modalities":           "only text is translated",
	"prediction":           "other providers take no predicted output",
	"web_search_options":   "hosted tools run at one provider only",
	"moderation":           "other providers do not report this moderation",
	"verbosity":            "other providers have no such control",
	"store":                "an answer kept by this provider can be read there only",
	"service_tier":         "a paid way to be served is bought from one provider",
	"functions":            "the older form of tools is not translated; use tools",
	"function_call":        "the older form of tool_choice is not translated; use tool_choice",
	"previous_response_id": "state held by a provider is at no other",
	"conversation":         "state held by a provider is at no other",
}

func (j *job) readOpenAI(v value) *conversation {
	f, c := j.object(v, ""), &conversation{}
	f.take("model") // the caller says which model the far side is asked for
	j.openAIMessages(f.list("messages"), c)
	j.openAITools(f, c)
	c.format = j.openAIFormat(f.take("response_format"))
	j.openAISampling(f, c)
	j.openAIStream(f, c)
	j.openAIIdentity(f, c)
	for name, usual := range openAIDefaults {
		f.usual(name, usual...)
	}
	for _, name := range []string{"prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"} {
		f.drop(name)
	}
	f.end(openAIRules)
	return c
}

// openAIDefaults are values that ask for nothing: the API's own when the field is absent.
var openAIDefaults = map[string][]string{
	"n": {"1"}, "logprobs": {"false"}, "top_logprobs": {"0"}, "logit_bias": {"{}"}, "modalities": {`["text"]`}, "verbosity": {`"medium"`},
	"store": {"false"}, "service_tier": {`"auto"`, `"default"`}, "functions": {"[]"},
}

func (j *job) openAISampling(f fields, c *conversation) {
	c.temperature, c.topP, c.seed = f.num("temperature"), f.num("top_p"), f.num("seed")
	c.frequency, c.presence = f.num("frequency_penalty"), f.num("presence_penalty")
	c.maxTokens = f.num("max_completion_tokens")
	if old := f.num("max_tokens"); old.set() {
		if c.maxTokens.set() {
			j.fail(old.at, "it and max_completion_tokens cannot both be meant")
		}
		c.maxTokens = old
	}
	c.effort = setting{"reasoning_effort", f.raw("reasoning_effort")}
	c.stopAt = "stop"
	if v := f.take("stop"); v.is('"') {
		c.stop = []value{v}
	} else if v != nil {
		c.stop = j.strings(v, "stop")
	}
}

func (j *job) strings(v value, at string) []value {
	if !v.is('[') {
		j.wrong(at, "an array of strings")
	}
	var out []value
	for s := range v.items() {
		if !s.is('"') {
			j.wrong(at, "an array of strings")
		}
		out = append(out, s)
	}
	return out
}

func (j *job) openAIStream(f fields, c *conversation) {
	c.stream = f.flag("stream")
	if v := f.take("stream_options"); v != nil {
		o := j.object(v, "stream_options")
		c.usage = o.flag("include_usage")
		o.drop("include_obfuscation")
		o.end(nil)
	}
}

// openAIIdentity reads who asks. safety_identifier is the newer name; user then only guided the cache.
func (j *job) openAIIdentity(f fields, c *conversation) {
	c.user = setting{"user", f.raw("user")}
	if id := f.raw("safety_identifier"); id != nil {
		c.user = setting{"safety_identifier", id}
	}
	if string(f.m["store"]) != "true" {
		f.drop("metadata")
	}
}

func (j *job) openAITools(f fields, c *conversation) {
	for i, v := range f.list("tools") {
		t := j.object(v, index("tools", i))
		if kind := t.need("type"); kind != "function" {
			j.fail(t.path("type"), other(kind, map[string]string{"custom": "only functions take JSON, and only those are translated"}))
			return
		}
		fn := j.object(t.take("function"), t.path("function"))
		c.tools = append(c.tools, tool{at: t.at, name: fn.need("name"), description: fn.raw("description"),
			schema: fn.take("parameters"), strict: fn.flag("strict")})
		fn.end(nil)
		t.end(nil)
	}
	c.choice.at = "tool_choice"
	switch v := f.take("tool_choice"); {
	case v == nil:
	case v.is('{'):
		j.openAIChoice(v, c)
	default:
		modes := map[string]mode{"auto": auto, "none": none, "required": anyTool}
		m, ok := modes[v.text()]
		if !ok {
			j.wrong(c.choice.at, "auto, none, required or a function")
		}
		c.choice.mode = m
	}
	if v := f.take("parallel_tool_calls"); v.is('f') && len(c.tools) > 0 {
		c.choice.serial = "parallel_tool_calls"
	}
}

func (j *job) openAIChoice(v value, c *conversation) {
	t := j.object(v, c.choice.at)
	if kind := t.need("type"); kind != "function" {
		j.fail(t.path("type"), other(kind, map[string]string{
			"custom":        "only functions take JSON, and only those are translated",
			"allowed_tools": "other providers have no list of tools that may but need not be called"}))
		return
	}
	fn := j.object(t.take("function"), t.path("function"))
	c.choice.mode, c.choice.name = one, fn.need("name")
	fn.end(nil)
	t.end(nil)
}

func (j *job) openAIFormat(v value) *format {
	if v == nil {
		return nil
	}
	f := j.object(v, "response_format")
	defer f.end(nil)
	switch kind := f.need("type"); kind {
	case "text":
		return nil
	case "json_object":
		return &format{at: f.path("type")}
	case "json_schema":
		s := j.object(f.take("json_schema"), f.path("json_schema"))
		defer s.end(nil)
		s.drop("name")
		return &format{at: s.path("schema"), schema: s.schema("schema"), description: s.raw("description"), strict: s.flag("strict")}
	default:
		j.fail(f.path("type"), other(kind, map[string]string{"grammar": "other providers take no grammar"}))
		return nil
	}
}

// schema reads a JSON schema that must be there.
func (f fields) schema(name string) value {
	v := f.take(name)
	if !v.is('{') {
		f.j.wrong(f.path(name), "a JSON schema")
		return nil
	}
	return v
}
