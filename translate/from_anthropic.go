package translate

import "fmt"

// fromAnthropic reads messages.
type fromAnthropic struct {
	origin
	blocks map[int64]*block // the blocks that have begun and not ended
}

// block is one of an answer under way.
type block struct {
	tool  bool
	n     int   // of the call
	input value // given at once, as some servers do
	begun bool  // a piece of the arguments came
}

// blocksAtOnce bounds the blocks that are open; the API opens one after the other.
const blocksAtOnce = 64

func (d *fromAnthropic) whole(v value) error {
	if v.get("type").text() != "message" {
		return d.mismatch("type", "this is no message")
	}
	d.message(v)
	for b := range v.get("content").items() {
		if err := d.block(b); err != nil {
			return err
		}
	}
	if err := d.reason(v); err != nil {
		return err
	}
	if d.last.finish == unfinished {
		return d.mismatch("stop_reason", "the answer has no end")
	}
	d.end()
	return nil
}

func (d *fromAnthropic) message(v value) {
	d.count(v.get("usage"))
	d.start(v.get("id").text(), v.get("model").text(), 0, d.last.usage)
}

// count takes what is said of the usage; what is not said again stays as it was.
func (d *fromAnthropic) count(u value) {
	if u == nil {
		return
	}
	c := &d.last.usage
	c.known = true
	fresh := c.in - c.cached - c.written
	for name, n := range map[string]*int64{"input_tokens": &fresh, "cache_read_input_tokens": &c.cached,
		"cache_creation_input_tokens": &c.written, "output_tokens": &c.out} {
		if v := u.get(name); v != nil {
			*n = v.int()
		}
	}
	if v := u.get("output_tokens_details", "thinking_tokens"); v != nil {
		c.thought = v.int()
	}
	c.in = fresh + c.cached + c.written
}

func (d *fromAnthropic) block(b value) error {
	switch kind := b.get("type").text(); kind {
	case "text":
		d.say(b.get("text"))
	case "thinking", "redacted_thinking": // chat completions do not show it
	case "tool_use":
		n, err := d.open(b.get("id").text(), b.get("name").text())
		if err != nil {
			return err
		}
		d.args(n, quote(string(inputOf(b).compact())))
	default:
		return d.mismatch("content", other(kind, anthropicKinds))
	}
	return nil
}

func inputOf(b value) value {
	if in := b.get("input"); in.is('{') {
		return in
	}
	return value("{}")
}

func (d *fromAnthropic) reason(v value) error {
	switch word := v.get("stop_reason").text(); word {
	case "":
		return nil
	case "end_turn", "stop_sequence", "tool_use":
		d.last.finish = stopped
	case "max_tokens", "model_context_window_exceeded":
		d.last.finish = limited
	case "refusal":
		d.last.finish = refused
		if why := v.get("stop_details", "explanation"); why.is('"') {
			d.last.why = append(value(nil), why...)
		}
	default:
		return d.mismatch("stop_reason", other(word, map[string]string{"pause_turn": "hosted tools run at one provider only"}))
	}
	return nil
}

func (d *fromAnthropic) event(v value) error {
	index := v.get("index").int()
	switch v.get("type").text() {
	case "message_start":
		d.message(v.get("message"))
	case "content_block_start":
		return d.begins(index, v.get("content_block"))
	case "content_block_delta":
		return d.delta(index, v.get("delta"))
	case "content_block_stop":
		d.ends(index)
	case "message_delta":
		d.count(v.get("usage"))
		return d.reason(v.get("delta"))
	case "message_stop":
		return d.stop()
	}
	return nil // pings, and kinds that the API says may be added
}

func (d *fromAnthropic) begins(index int64, b value) error {
	if !d.begun {
		return fmt.Errorf("%w: a block before message_start", ErrMalformed)
	}
	if len(d.blocks) >= blocksAtOnce {
		return fmt.Errorf("%w: more than %d open blocks", ErrMalformed, blocksAtOnce)
	}
	o := &block{}
	switch kind := b.get("type").text(); kind {
	case "text":
		d.say(b.get("text"))
	case "thinking", "redacted_thinking":
	case "tool_use":
		n, err := d.open(b.get("id").text(), b.get("name").text())
		if err != nil {
			return err
		}
		o.tool, o.n, o.input = true, n, append(value(nil), inputOf(b).compact()...)
	default:
		return d.mismatch("content", other(kind, anthropicKinds))
	}
	if d.blocks == nil {
		d.blocks = map[int64]*block{}
	}
	d.blocks[index] = o
	return nil
}

func (d *fromAnthropic) delta(index int64, v value) error {
	o := d.blocks[index]
	if o == nil {
		return fmt.Errorf("%w: a piece of a block that is not open", ErrMalformed)
	}
	switch kind := v.get("type").text(); kind {
	case "text_delta":
		d.say(v.get("text"))
	case "input_json_delta":
		piece := v.get("partial_json")
		if !o.tool || !piece.is('"') {
			return fmt.Errorf("%w: arguments of no call", ErrMalformed)
		}
		if len(piece) > len(`""`) {
			o.begun = true
			d.args(o.n, piece)
		}
	case "thinking_delta", "signature_delta":
	default:
		return d.mismatch("delta", other(kind, map[string]string{"citations_delta": "citations belong to one provider"}))
	}
	return nil
}

// ends closes a block. A call without a piece of arguments has those that it began with.
func (d *fromAnthropic) ends(index int64) {
	if o := d.blocks[index]; o != nil && o.tool && !o.begun {
		d.args(o.n, quote(string(o.input)))
	}
	delete(d.blocks, index)
}
