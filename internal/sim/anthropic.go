package sim

import "net/http"

// anthropic answers the endpoints of Anthropic's API.
func (s *Server) anthropic(x *exchange, n int64) *reply {
	rep := s.anthropicReply(x, n)
	x.q.commonHeaders(rep.header, s.cfg.Now())
	return rep
}

func (s *Server) anthropicReply(x *exchange, n int64) *reply {
	switch q := x.q; q.endpoint {
	case "models":
		return q.models()
	case "count_tokens":
		return plain(http.StatusOK, doc{"input_tokens", tokens(q.all)}.bytes())
	}
	a := newAnswer(x.q, &x.st, n, s.cfg.Now())
	if !x.q.stream {
		return plain(http.StatusOK, a.message().bytes())
	}
	return streamed("text/event-stream; charset=utf-8", 3, a.messageEvents()...)
}

func (a *answer) stopReason() string {
	switch {
	case a.finish != "":
		return a.finish
	case a.call != nil:
		return "tool_use"
	}
	return "end_turn"
}

func (a *answer) messageHead(content list, stop any, out int) doc {
	return doc{"id", a.ident("msg_", 24), "type", "message", "role", "assistant", "model", a.model, "content", content,
		"stop_reason", stop, "stop_sequence", nil, "usage", doc{"input_tokens", a.in, "cache_creation_input_tokens", 0,
			"cache_read_input_tokens", 0, "output_tokens", out, "service_tier", "standard"}}
}

// message is a whole answer.
func (a *answer) message() doc {
	block := doc{"type", "text", "text", a.text}
	if a.call != nil {
		block = a.toolUse(raw(a.call.args))
	}
	return a.messageHead(list{block}, a.stopReason(), a.out)
}

func (a *answer) toolUse(input raw) doc {
	return doc{"type", "tool_use", "id", a.ident("toolu_", 24), "name", a.call.name, "input", input}
}

// messageEvents is the stream.
func (a *answer) messageEvents() [][]byte {
	start, kind, field := doc{"type", "text", "text", ""}, "text_delta", "text"
	if a.call != nil {
		start, kind, field = a.toolUse(raw("{}")), "input_json_delta", "partial_json"
	}
	out := [][]byte{
		event("message_start", doc{"type", "message_start", "message", a.messageHead(list{}, nil, 1)}),
		event("content_block_start", doc{"type", "content_block_start", "index", 0, "content_block", start}),
		event("ping", doc{"type", "ping"}),
	}
	for _, piece := range a.chunks {
		out = append(out, event("content_block_delta", doc{"type", "content_block_delta", "index", 0,
			"delta", doc{"type", kind, field, piece}}))
	}
	return append(out,
		event("content_block_stop", doc{"type", "content_block_stop", "index", 0}),
		event("message_delta", doc{"type", "message_delta", "delta", doc{"stop_reason", a.stopReason(), "stop_sequence", nil},
			"usage", doc{"output_tokens", a.out}}),
		event("message_stop", doc{"type", "message_stop"}))
}
