package translate

var anthropicFinish = map[finish]string{stopped: "end_turn", limited: "max_tokens", called: "tool_use", refused: "refusal"}

// anthropicUsage: input_tokens there are those that the cache had nothing to do with.
func anthropicUsage(u usage) doc {
	return doc{"input_tokens", max(0, u.in-u.cached-u.written), "cache_creation_input_tokens", u.written,
		"cache_read_input_tokens", u.cached, "output_tokens", u.out, "output_tokens_details", doc{"thinking_tokens", u.thought}}
}

func anthropicMessage(h head, content list, stop, details any, u usage) doc {
	return doc{"id", h.id, "type", "message", "role", "assistant", "model", h.model, "content", content, "stop_reason", stop,
		"stop_sequence", nil, "stop_details", details, "usage", anthropicUsage(u)}
}

func stopDetails(e ending) any {
	if e.finish != refused {
		return nil
	}
	explanation := any(nil)
	if e.why != nil {
		explanation = e.why
	}
	return doc{"type", "refusal", "category", nil, "explanation", explanation}
}

// anthropicAnswer collects a message.
type anthropicAnswer struct {
	head
	from   *Call
	blocks []anthropicBlockDoc
	at     []int // of the calls' blocks
	ending
}

type anthropicBlockDoc struct {
	id, name string // of a call
	tool     bool
	body     joined // what is said, or the arguments
}

func (a *anthropicAnswer) begin(h head) { a.head = h }

func (a *anthropicAnswer) text(t value) {
	if n := len(a.blocks); n == 0 || a.blocks[n-1].tool {
		a.blocks = append(a.blocks, anthropicBlockDoc{})
	}
	a.blocks[len(a.blocks)-1].body.add(t)
}

func (a *anthropicAnswer) call(_ int, id, name string) {
	a.at = append(a.at, len(a.blocks))
	a.blocks = append(a.blocks, anthropicBlockDoc{id: id, name: name, tool: true})
}

func (a *anthropicAnswer) args(n int, fragment value) { a.blocks[a.at[n]].body.add(fragment) }
func (a *anthropicAnswer) done(e ending)              { a.ending = e }

func (a *anthropicAnswer) bytes() ([]byte, error) {
	content := list{}
	for _, b := range a.blocks {
		if !b.tool {
			content = append(content, doc{"type", "text", "text", b.body.value(), "citations", nil})
			continue
		}
		input := value("{}")
		if s := b.body.value().text(); s != "" {
			if input = parse([]byte(s)); !input.is('{') {
				return nil, &Mismatch{From: a.from.To, To: a.from.From, Field: "tool_calls", Rule: "arguments that are not a JSON object have no form elsewhere"}
			}
		}
		content = append(content, doc{"type", "tool_use", "id", b.id, "name", b.name, "input", input})
	}
	return anthropicMessage(a.head, content, anthropicFinish[a.finish], stopDetails(a.ending), a.ending.usage).bytes(), nil
}

// anthropicStream writes the events of a message: one block after the other.
type anthropicStream struct {
	out  *[]byte
	next int // index of the next block
	open openBlock
	said frame // of the open block
}

type openBlock int

const (
	noBlock openBlock = iota
	textBlock
	toolBlock
)

func (s *anthropicStream) emit(name string, d doc) {
	*s.out = append(append(append(*s.out, "event: "...), name...), "\ndata: "...)
	*s.out = append(appendJSON(*s.out, append(doc{"type", name}, d...)), "\n\n"...)
}

func (s *anthropicStream) begin(h head) {
	s.emit("message_start", doc{"message", anthropicMessage(h, list{}, nil, nil, h.usage)})
}

func (s *anthropicStream) start(kind openBlock, b doc) {
	s.stop()
	s.emit("content_block_start", doc{"index", s.next, "content_block", b})
	s.open, s.said = kind, frame{}
	s.next++
}

func (s *anthropicStream) stop() {
	if s.open != noBlock {
		s.emit("content_block_stop", doc{"index", s.next - 1})
	}
	s.open = noBlock
}

func (s *anthropicStream) delta(d doc) {
	s.emit("content_block_delta", doc{"index", s.next - 1, "delta", d})
}

func (s *anthropicStream) text(t value) {
	if s.open != textBlock {
		s.start(textBlock, doc{"type", "text", "text", "", "citations", nil})
	}
	s.said.write(s.out, t, func(t value) { s.delta(doc{"type", "text_delta", "text", t}) })
}

func (s *anthropicStream) call(_ int, id, name string) {
	s.start(toolBlock, doc{"type", "tool_use", "id", id, "name", name, "input", doc{}})
}

// args comes for the call that is open: the decoders of this direction see to it.
func (s *anthropicStream) args(_ int, fragment value) {
	s.delta(doc{"type", "input_json_delta", "partial_json", fragment})
}

func (s *anthropicStream) done(e ending) {
	s.stop()
	s.emit("message_delta", doc{"delta", doc{"stop_reason", anthropicFinish[e.finish], "stop_sequence", nil, "stop_details", stopDetails(e)},
		"usage", anthropicUsage(e.usage)})
	s.emit("message_stop", nil)
}
