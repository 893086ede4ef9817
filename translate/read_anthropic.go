package translate

// anthropicRules are the reasons why fields of a message have no counterpart. The list of fields is that of
// https://platform.claude.com/docs/en/api/messages.
var anthropicRules = map[string]string{
	"container":          "state held by a provider is at no other",
	"diagnostics":        "state held by a provider is at no other",
	"context_management": "other providers do not edit the conversation",
	"mcp_servers":        "hosted tools run at one provider only",
	"inference_geo":      "where another provider computes is not said by the request",
	"service_tier":       "a paid way to be served is bought from one provider",
	"speed":              "a paid way to be served is bought from one provider",
}

func (j *job) readAnthropic(v value) *conversation {
	f, c := j.object(v, ""), &conversation{}
	f.take("model") // the caller says which model the far side is asked for
	j.anthropicSystem(f, c)
	j.anthropicMessages(f.list("messages"), c)
	j.anthropicTools(f, c)
	j.anthropicSampling(f, c)
	j.anthropicOutput(f, c)
	j.anthropicThinking(f, c)
	c.stream, c.usage = f.flag("stream"), true // its streams always end with the usage
	if m := f.take("metadata"); m != nil {
		o := j.object(m, "metadata")
		c.user = setting{o.path("user_id"), o.raw("user_id")}
		o.end(nil)
	}
	f.usual("service_tier", `"auto"`)
	f.usual("speed", `"standard"`)
	if string(f.m["service_tier"]) == `"standard_only"` {
		f.drop("service_tier")
	}
	f.drop("cache_control")
	f.end(anthropicRules)
	return c
}

func (j *job) anthropicSampling(f fields, c *conversation) {
	c.maxTokens = f.num("max_tokens")
	switch {
	case !c.maxTokens.set():
		j.wrong("max_tokens", "set")
	case c.maxTokens.v.int() == 0:
		j.fail("max_tokens", "only this provider warms its cache without an answer")
	}
	c.temperature, c.topP, c.topK = f.num("temperature"), f.num("top_p"), f.num("top_k")
	c.stopAt = "stop_sequences"
	if v := f.take("stop_sequences"); v != nil {
		c.stop = j.strings(v, c.stopAt)
	}
}

// anthropicOutput reads output_config, and output_format, its name while it was a beta.
func (j *job) anthropicOutput(f fields, c *conversation) {
	c.format = j.anthropicFormat(f.take("output_format"), "output_format")
	v := f.take("output_config")
	if v == nil {
		return
	}
	o := j.object(v, "output_config")
	defer o.end(nil)
	c.effort = setting{o.path("effort"), o.raw("effort")}
	if newer := j.anthropicFormat(o.take("format"), o.path("format")); newer != nil {
		if c.format != nil {
			j.fail("output_format", "it and output_config.format cannot both be meant")
		}
		c.format = newer
	}
}

func (j *job) anthropicFormat(v value, at string) *format {
	if v == nil {
		return nil
	}
	f := j.object(v, at)
	defer f.end(nil)
	if kind := f.need("type"); kind != "json_schema" {
		j.fail(f.path("type"), other(kind, nil))
		f.forget()
		return nil
	}
	return &format{at: f.path("schema"), schema: f.schema("schema"), strict: true} // always constrained
}

// anthropicThinking reads how the model may think. Adaptive thinking promises no thinking block, so that an answer without one
// keeps it; a budget is a number that the far side must take.
func (j *job) anthropicThinking(f fields, c *conversation) {
	v := f.take("thinking")
	if v == nil {
		return
	}
	t := j.object(v, "thinking")
	defer t.end(nil)
	switch kind := t.need("type"); kind {
	case "disabled":
	case "adaptive":
		t.take("display") // of blocks that the answer will not have
	case "enabled":
		t.take("display")
		if c.budget = t.num("budget_tokens"); !c.budget.set() {
			j.wrong(t.path("budget_tokens"), "set")
		}
	default:
		j.fail(t.path("type"), other(kind, nil))
	}
}

func (j *job) anthropicSystem(f fields, c *conversation) {
	v := f.take("system")
	if v.is('"') || v == nil {
		for _, p := range textPart(v, "system") {
			c.system = append(c.system, p.text)
		}
		return
	}
	if !v.is('[') {
		j.wrong("system", "a string or an array of blocks")
	}
	i := 0
	for item := range v.items() {
		b := j.object(item, index("system", i))
		i++
		b.usual("type", `"text"`)
		b.drop("cache_control")
		b.usual("citations", "[]")
		for _, p := range textPart(b.want("text"), b.at) {
			c.system = append(c.system, p.text)
		}
		b.end(anthropicBlockRules)
	}
}

func (j *job) anthropicTools(f fields, c *conversation) {
	for i, v := range f.list("tools") {
		t := j.object(v, index("tools", i))
		if kind := t.str("type"); kind != "" && kind != "custom" {
			j.fail(t.path("type"), "hosted tools, and tools that a model was trained for, are at one provider only")
			return
		}
		c.tools = append(c.tools, tool{at: t.at, name: t.need("name"), description: t.raw("description"), schema: t.schema("input_schema"),
			strict: t.flag("strict")})
		t.usual("allowed_callers", `["direct"]`)
		t.usual("defer_loading", "false")
		t.usual("input_examples", "[]")
		t.drop("cache_control")
		t.drop("eager_input_streaming")
		t.end(map[string]string{
			"allowed_callers": "hosted tools run at one provider only",
			"defer_loading":   "hosted tools run at one provider only",
			"input_examples":  "other providers take no examples with a tool",
		})
	}
	j.anthropicChoice(f.take("tool_choice"), c)
}

func (j *job) anthropicChoice(v value, c *conversation) {
	c.choice.at = "tool_choice"
	if v == nil {
		return
	}
	t := j.object(v, c.choice.at)
	defer t.end(nil)
	modes := map[string]mode{"auto": auto, "none": none, "any": anyTool, "tool": one}
	m, ok := modes[t.need("type")]
	if !ok {
		j.wrong(t.path("type"), "auto, any, tool or none")
	}
	if c.choice.mode = m; m == one {
		c.choice.name = t.need("name")
	}
	if t.flag("disable_parallel_tool_use") && len(c.tools) > 0 {
		c.choice.serial = t.path("disable_parallel_tool_use")
	}
}
