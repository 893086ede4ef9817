package translate

// fromGemini reads generateContent: a whole answer and an event of a stream have one form.
type fromGemini struct{ origin }

func (d *fromGemini) whole(v value) error {
	if err := d.chunk(v); err != nil {
		return err
	}
	if !d.begun || d.last.finish == unfinished {
		return d.mismatch("candidates", "the answer has no end")
	}
	d.end()
	return nil
}

func (d *fromGemini) event(v value) error { return d.chunk(v) }

func (d *fromGemini) chunk(v value) error {
	if u := v.get("usageMetadata"); u != nil {
		d.last.usage = geminiUsage(u)
	}
	blocked := v.get("promptFeedback", "blockReason")
	candidates := v.get("candidates")
	if !d.begun && (blocked != nil || candidates.is('[')) {
		d.start(v.get("responseId").text(), v.get("modelVersion").text(), 0, d.last.usage)
	}
	if blocked != nil && blocked.text() != "BLOCKED_REASON_UNSPECIFIED" {
		d.last.finish = refused
		if why := v.get("promptFeedback", "blockReasonMessage"); why.is('"') {
			d.last.why = append(value(nil), why...)
		}
	}
	for c := range candidates.items() {
		if c.get("index").int() != 0 {
			return d.mismatch("candidates", "the client asked for one answer")
		}
		if err := d.candidate(c); err != nil {
			return err
		}
	}
	return nil
}

// geminiUsage: candidates do not count thoughts, the prompt counts what was cached.
func geminiUsage(u value) usage {
	thought := u.get("thoughtsTokenCount").int()
	return usage{known: true, in: u.get("promptTokenCount").int() + u.get("toolUsePromptTokenCount").int(), cached: u.get("cachedContentTokenCount").int(),
		out: u.get("candidatesTokenCount").int() + thought, thought: thought}
}

func (d *fromGemini) candidate(c value) error {
	for p := range c.get("content", "parts").items() {
		if err := d.part(p); err != nil {
			return err
		}
	}
	switch word := c.get("finishReason").text(); word {
	case "", "FINISH_REASON_UNSPECIFIED":
	case "STOP":
		d.last.finish = stopped
	case "MAX_TOKENS":
		d.last.finish = limited
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY":
		d.last.finish = refused
		if why := c.get("finishMessage"); why.is('"') {
			d.last.why = append(value(nil), why...)
		}
	default: // MALFORMED_FUNCTION_CALL, OTHER and the like are failures of the model, not ends of an answer
		return &Fault{Status: 500, Kind: Server, Code: word, Message: "the model stopped without an answer: " + word}
	}
	return nil
}

// part reads a piece. A thought is no part of what is said, and its signature means nothing to another provider.
func (d *fromGemini) part(p value) error {
	if string(p.get("thought")) == "true" {
		return nil
	}
	for name := range p.members() {
		switch name {
		case "text", "functionCall", "thought", "thoughtSignature":
		default:
			return d.mismatch("parts."+name, "the client's API has no form for it")
		}
	}
	d.say(p.get("text"))
	fn := p.get("functionCall")
	if fn == nil {
		return nil
	}
	n, err := d.open(fn.get("id").text(), fn.get("name").text())
	if err != nil {
		return err
	}
	args := fn.get("args")
	if !args.is('{') {
		args = value("{}")
	}
	d.args(n, quote(string(args.compact())))
	return nil
}
