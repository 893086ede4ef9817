package translate

var openAIFinish = map[finish]string{stopped: "stop", limited: "length", called: "tool_calls", refused: "content_filter"}

func openAIUsageDoc(u usage) doc {
	return doc{"prompt_tokens", u.in, "completion_tokens", u.out, "total_tokens", u.in + u.out,
		"prompt_tokens_details", doc{"cached_tokens", u.cached, "cache_write_tokens", u.written, "audio_tokens", 0},
		"completion_tokens_details", doc{"reasoning_tokens", u.thought, "audio_tokens", 0, "accepted_prediction_tokens", 0,
			"rejected_prediction_tokens", 0}}
}

// openAIAnswer collects a chat.completion.
type openAIAnswer struct {
	head
	said  joined
	calls []doc
	input []joined
	ending
}

func (a *openAIAnswer) begin(h head) { a.head = h }
func (a *openAIAnswer) text(t value) { a.said.add(t) }
func (a *openAIAnswer) call(_ int, id, name string) {
	a.calls, a.input = append(a.calls, doc{"id", id, "type", "function", "function", doc{"name", name}}), append(a.input, nil)
}
func (a *openAIAnswer) args(n int, fragment value) { a.input[n].add(fragment) }
func (a *openAIAnswer) done(e ending)              { a.ending = e }

func (a *openAIAnswer) bytes() ([]byte, error) {
	content := any(nil)
	if said := a.said.value(); said != nil {
		content = said
	} else if len(a.calls) == 0 {
		content = ""
	}
	refusal := any(nil)
	if a.why != nil {
		refusal = a.why
	}
	m := doc{"role", "assistant", "content", content, "refusal", refusal, "annotations", list{}}
	if len(a.calls) > 0 {
		var calls list
		for i, c := range a.calls {
			arguments := a.input[i].value()
			if arguments == nil {
				arguments = value(`"{}"`)
			}
			c[5] = append(c[5].(doc), "arguments", arguments)
			calls = append(calls, c)
		}
		m = append(m, "tool_calls", calls)
	}
	choice := doc{"index", 0, "message", m, "logprobs", nil, "finish_reason", openAIFinish[a.finish]}
	d := doc{"id", a.id, "object", "chat.completion", "created", a.created, "model", a.model, "choices", list{choice}}
	if a.ending.usage.known {
		d = append(d, "usage", openAIUsageDoc(a.ending.usage))
	}
	return d.bytes(), nil
}

// openAIStream writes chat.completion.chunk events.
type openAIStream struct {
	head
	out  *[]byte
	want bool // the usage, by stream_options.include_usage
	said frame
}

func (s *openAIStream) chunk(choices list, total any) {
	d := doc{"id", s.id, "object", "chat.completion.chunk", "created", s.created, "model", s.model, "choices", choices}
	if s.want { // every chunk then has the field, null but for the last
		d = append(d, "usage", total)
	}
	*s.out = append(appendJSON(append(*s.out, "data: "...), d), "\n\n"...)
}

func (s *openAIStream) delta(d doc, finish any) {
	s.chunk(list{doc{"index", 0, "delta", d, "logprobs", nil, "finish_reason", finish}}, nil)
}

func (s *openAIStream) begin(h head) {
	s.head = h
	s.delta(doc{"role", "assistant", "content", "", "refusal", nil}, nil)
}

func (s *openAIStream) text(t value) {
	s.said.write(s.out, t, func(t value) { s.delta(doc{"content", t}, nil) })
}

func (s *openAIStream) call(n int, id, name string) {
	s.delta(doc{"tool_calls", list{doc{"index", n, "id", id, "type", "function", "function", doc{"name", name, "arguments", ""}}}}, nil)
}

func (s *openAIStream) args(n int, fragment value) {
	s.delta(doc{"tool_calls", list{doc{"index", n, "function", doc{"arguments", fragment}}}}, nil)
}

func (s *openAIStream) done(e ending) {
	if e.why != nil {
		s.delta(doc{"refusal", e.why}, nil)
	}
	s.delta(doc{}, openAIFinish[e.finish])
	if s.want && e.usage.known {
		s.chunk(list{}, openAIUsageDoc(e.usage))
	}
	*s.out = append(*s.out, "data: [DONE]\n\n"...)
}
