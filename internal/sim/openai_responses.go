package sim

import (
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"
)

func (a *answer) responseID() string { return a.ident("resp_", 48) }

// responses answers POST /responses. The answer can be read again by its id unless store is false.
func (s *Server) responses(x *exchange, n int64) *reply {
	a := s.answerOf(x, n)
	switch {
	case x.q.stream:
		return streamed("text/event-stream; charset=utf-8", a.responseContent(), a.responseEvents(0)...)
	case a.background():
		return plain(http.StatusOK, a.response("queued", list{}, nil).bytes())
	}
	return plain(http.StatusOK, a.finalResponse().bytes())
}

// storedResponse answers the calls on one response. A background response is complete at the second look, so that
// a caller that polls sees both states.
func (s *Server) storedResponse(x *exchange) *reply {
	q := x.q
	if q.endpoint == "responses.delete" {
		if s.stored.delete(q.id) {
			return plain(http.StatusOK, doc{"id", q.id, "object", "response", "deleted", true}.bytes())
		}
		return q.noResponse()
	}
	var rep *reply
	found := s.stored.with(q.id, func(k *kept) {
		a := k.answer
		k.cancelled = k.cancelled || q.endpoint == "responses.cancel" && a.background()
		k.polls++
		switch {
		case k.cancelled:
			rep = plain(http.StatusOK, a.response("cancelled", list{}, nil).bytes())
		case a.background() && k.polls == 1:
			rep = plain(http.StatusOK, a.response("in_progress", list{}, nil).bytes())
		case q.query.Get("stream") == "true":
			from := 0
			if after, err := strconv.Atoi(q.query.Get("starting_after")); err == nil {
				from = after + 1
			}
			rep = streamed("text/event-stream; charset=utf-8", 0, a.responseEvents(from)...)
		default:
			rep = plain(http.StatusOK, a.finalResponse().bytes())
		}
	})
	if !found {
		return q.noResponse()
	}
	return rep
}

func (q *request) noResponse() *reply {
	return plain(http.StatusNotFound, doc{"error", doc{"message", "Response with id '" + q.id + "' not found.",
		"type", "invalid_request_error", "param", nil, "code", nil}}.bytes())
}

func (a *answer) background() bool { return gjson.GetBytes(a.q.body, "background").Bool() }

// response is a response object in some state.
func (a *answer) response(status string, output list, usage any) doc {
	get := func(path string, other raw) any {
		if v := gjson.GetBytes(a.q.body, path); v.Exists() {
			return raw(v.Raw)
		}
		return other
	}
	var incomplete any
	if status == "incomplete" {
		incomplete = doc{"reason", a.finish}
	}
	null := raw("null")
	return doc{"id", a.responseID(), "object", "response", "created_at", a.created.Unix(), "status", status,
		"background", a.background(), "error", nil, "incomplete_details", incomplete,
		"instructions", get("instructions", null), "max_output_tokens", get("max_output_tokens", null), "model", a.model,
		"output", output, "parallel_tool_calls", get("parallel_tool_calls", raw("true")),
		"previous_response_id", get("previous_response_id", null), "reasoning", doc{"effort", nil, "summary", nil},
		"service_tier", "default", "store", get("store", raw("true")), "temperature", get("temperature", raw("1")),
		"text", get("text", raw(`{"format":{"type":"text"}}`)), "tool_choice", get("tool_choice", raw(`"auto"`)),
		"tools", get("tools", raw("[]")), "top_p", get("top_p", raw("1")), "truncation", get("truncation", raw(`"disabled"`)),
		"usage", usage, "user", get("user", null), "metadata", get("metadata", raw("{}"))}
}

// finalStatus is completed, or incomplete where the step's finish names the reason (max_output_tokens, …).
func (a *answer) finalStatus() string {
	if a.finish != "" {
		return "incomplete"
	}
	return "completed"
}

func (a *answer) finalResponse() doc {
	return a.response(a.finalStatus(), list{a.item("completed", a.text, "")}, doc{
		"input_tokens", a.in, "input_tokens_details", doc{"cached_tokens", 0},
		"output_tokens", a.out, "output_tokens_details", doc{"reasoning_tokens", 0}, "total_tokens", a.in + a.out})
}

// item is the one output: a message or a function call. While it is in progress it is empty.
func (a *answer) item(status, text, args string) doc {
	if a.call != nil {
		if status == "completed" {
			args = a.call.args
		}
		return doc{"id", a.ident("fc_", 48), "type", "function_call", "status", status, "arguments", args,
			"call_id", a.ident("call_", 24), "name", a.call.name}
	}
	content := list{}
	if status == "completed" {
		content = list{part(text)}
	}
	return doc{"id", a.ident("msg_", 48), "type", "message", "status", status, "content", content, "role", "assistant"}
}

func part(text string) doc {
	return doc{"type", "output_text", "annotations", list{}, "logprobs", list{}, "text", text}
}

// responseContent is the index of the first delta.
func (a *answer) responseContent() int {
	if a.call != nil {
		return 3
	}
	return 4
}

// responseEvents is the stream from the event with that sequence number on.
func (a *answer) responseEvents(from int) [][]byte {
	var out [][]byte
	n := 0
	add := func(name string, fields ...any) {
		if n >= from {
			out = append(out, event(name, append(doc{"type", name, "sequence_number", n}, fields...)))
		}
		n++
	}
	begun := a.response("in_progress", list{}, nil)
	add("response.created", "response", begun)
	add("response.in_progress", "response", begun)
	add("response.output_item.added", "output_index", 0, "item", a.item("in_progress", "", ""))
	if a.call != nil {
		id := a.ident("fc_", 48)
		for _, piece := range a.chunks {
			add("response.function_call_arguments.delta", "item_id", id, "output_index", 0, "delta", piece)
		}
		add("response.function_call_arguments.done", "item_id", id, "output_index", 0, "arguments", a.call.args, "name", a.call.name)
	} else {
		where := doc{"item_id", a.ident("msg_", 48), "output_index", 0, "content_index", 0}
		at := func(more ...any) []any { return append(where[:len(where):len(where)], more...) }
		add("response.content_part.added", at("part", part(""))...)
		for _, piece := range a.chunks {
			add("response.output_text.delta", at("delta", piece, "logprobs", list{})...)
		}
		add("response.output_text.done", at("text", a.text, "logprobs", list{})...)
		add("response.content_part.done", at("part", part(a.text))...)
	}
	add("response.output_item.done", "output_index", 0, "item", a.item("completed", a.text, ""))
	add("response."+a.finalStatus(), "response", a.finalResponse())
	return out
}
