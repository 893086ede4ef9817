package translate

// fromOpenAI reads chat completions, also those of servers that speak the shape with an accent.
type fromOpenAI struct {
	origin
	index   int64 // of the open call
	id      string
	refusal bool
}

func (d *fromOpenAI) whole(v value) error {
	if !v.get("choices").is('[') {
		return d.mismatch("choices", "this is no chat completion")
	}
	if err := d.chunk(v, "message"); err != nil {
		return err
	}
	if !d.begun || d.last.finish == unfinished {
		return d.mismatch("choices", "the answer has no end")
	}
	d.end()
	return nil
}

func (d *fromOpenAI) event(v value) error { return d.chunk(v, "delta") }

func (d *fromOpenAI) stop() error {
	if d.begun && d.last.finish == unfinished {
		d.last.finish = stopped // some servers never say why
	}
	return d.origin.stop()
}

// chunk reads a whole answer or a piece of one. field is where its message stands.
func (d *fromOpenAI) chunk(v value, field string) error {
	if u := v.get("usage"); u != nil {
		d.last.usage = openAIUsage(u)
	}
	for choice := range v.get("choices").items() {
		if choice.get("index").int() != 0 {
			return d.mismatch("choices", "the client asked for one answer")
		}
		if !d.begun {
			d.start(v.get("id").text(), v.get("model").text(), v.get("created").int(), d.last.usage)
		}
		if err := d.message(choice.get(field)); err != nil {
			return err
		}
		if reason := choice.get("finish_reason"); reason != nil {
			if err := d.reason(reason.text()); err != nil {
				return err
			}
		}
	}
	return nil
}

func openAIUsage(u value) usage {
	return usage{known: true, in: u.get("prompt_tokens").int(), out: u.get("completion_tokens").int(),
		cached:  u.get("prompt_tokens_details", "cached_tokens").int(),
		written: u.get("prompt_tokens_details", "cache_write_tokens").int(),
		thought: u.get("completion_tokens_details", "reasoning_tokens").int()}
}

func (d *fromOpenAI) message(m value) error {
	for _, name := range []string{"audio", "function_call"} {
		if m.get(name) != nil {
			return d.mismatch(name, "the client's API has no form for it")
		}
	}
	if err := d.content(m.get("content")); err != nil {
		return err
	}
	if r := m.get("refusal"); r.is('"') && len(r) > len(`""`) {
		d.refusal = true
		d.say(r)
	}
	i := int64(0)
	for c := range m.get("tool_calls").items() {
		if err := d.tool(c, i); err != nil {
			return err
		}
		i++
	}
	return nil
}

// content is a string or, from Mistral, parts, among them what the model thinks.
func (d *fromOpenAI) content(v value) error {
	d.say(v)
	for p := range v.items() {
		switch kind := p.get("type").text(); kind {
		case "text":
			d.say(p.get("text"))
		case "thinking", "reasoning":
		default:
			return d.mismatch("content", other(kind, nil))
		}
	}
	return nil
}

// tool reads a call or a piece of one. It is the i-th of its message; that counts where the server gives no index.
func (d *fromOpenAI) tool(c value, i int64) error {
	if kind := c.get("type"); kind != nil && kind.text() != "function" {
		return d.mismatch("tool_calls", other(kind.text(), nil))
	}
	id, fn := c.get("id").text(), c.get("function")
	at := i
	if n := c.get("index"); n != nil {
		at = n.int()
	} else if id == "" && fn.get("name") == nil {
		at = d.index
	} else {
		at = max(i, int64(d.calls))
	}
	if d.calls == 0 || at > d.index || id != "" && id != d.id {
		d.index, d.id = at, id
		if _, err := d.open(id, fn.get("name").text()); err != nil {
			return err
		}
	} else if at < d.index || d.aside {
		return d.mismatch("tool_calls", "calls that are told by turns cannot be told one after the other")
	}
	arguments := fn.get("arguments")
	if arguments.is('{') { // Ollama's own form
		arguments = quote(string(arguments.compact()))
	}
	if arguments.is('"') && len(arguments) > len(`""`) {
		d.args(d.calls-1, arguments)
	}
	return nil
}

func (d *fromOpenAI) reason(word string) error {
	switch word {
	case "stop", "tool_calls":
		d.last.finish = stopped
		if d.refusal {
			d.last.finish = refused
		}
	case "length", "model_length":
		d.last.finish = limited
	case "content_filter":
		d.last.finish = refused
	default:
		return d.mismatch("finish_reason", other(word, nil))
	}
	return nil
}
