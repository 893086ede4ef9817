package sim

import (
	"fmt"
	"net/http"

	"github.com/tidwall/gjson"
)

// openAI answers the endpoints of OpenAI's API.
func (s *Server) openAI(x *exchange, n int64) *reply {
	rep := s.openAIReply(x, n)
	x.q.commonHeaders(rep.header, s.cfg.Now())
	return rep
}

func (s *Server) openAIReply(x *exchange, n int64) *reply {
	q := x.q
	switch q.endpoint {
	case "chat.completions":
		return s.chat(x, n)
	case "chat.completions.get":
		var body []byte
		if s.stored.with(q.id, func(k *kept) { body = k.answer.storedChat().bytes() }) {
			return plain(http.StatusOK, body)
		}
		return q.notFound("Chat completion with id '" + q.id + "' not found.")
	case "chat.completions.list":
		return s.listChats(q)
	case "responses":
		return s.responses(x, n)
	case "responses.get", "responses.cancel", "responses.delete":
		return s.storedResponse(x)
	case "embeddings":
		return plain(http.StatusOK, embeddings(q, x.st.Vector))
	case "models":
		return q.models()
	}
	return q.notFound("Unknown request URL: " + q.method + " " + q.path)
}

func (q *request) notFound(message string) *reply {
	return plain(http.StatusNotFound, q.errorBody(http.StatusNotFound, "", message))
}

func (s *Server) chat(x *exchange, n int64) *reply {
	a := s.answerOf(x, n)
	if !x.q.stream {
		return plain(http.StatusOK, a.chatBody())
	}
	return streamed("text/event-stream; charset=utf-8", 1, a.chatEvents()...)
}

func (a *answer) chatID() string { return a.ident("chatcmpl-", 29) }

// choices is the request's n, within reason.
func (a *answer) choices() int {
	return int(min(max(1, gjson.GetBytes(a.q.body, "n").Int()), 8))
}

func (a *answer) chatFinish() string {
	switch {
	case a.finish != "":
		return a.finish
	case a.call != nil:
		return "tool_calls"
	}
	return "stop"
}

// chatBody is a chat.completion object.
func (a *answer) chatBody() []byte { return a.chatDoc().bytes() }

func (a *answer) chatDoc() doc {
	choices := make(list, a.choices())
	for i := range choices {
		message := doc{"role", "assistant", "content", a.text, "refusal", nil, "annotations", list{}}
		if a.call != nil {
			message = doc{"role", "assistant", "content", nil, "tool_calls", list{
				doc{"id", a.ident("call_", 24), "type", "function", "function", doc{"name", a.call.name, "arguments", a.call.args}},
			}, "refusal", nil, "annotations", list{}}
		}
		choices[i] = doc{"index", i, "message", message, "logprobs", nil, "finish_reason", a.chatFinish()}
	}
	return doc{"id", a.chatID(), "object", "chat.completion", "created", a.created.Unix(), "model", a.model,
		"choices", choices, "usage", a.chatUsage(), "service_tier", "default", "system_fingerprint", "fp_sim"}
}

func (a *answer) chatUsage() doc {
	out := a.out * a.choices()
	return doc{"prompt_tokens", a.in, "completion_tokens", out, "total_tokens", a.in + out,
		"prompt_tokens_details", doc{"cached_tokens", 0, "audio_tokens", 0},
		"completion_tokens_details", doc{"reasoning_tokens", 0, "audio_tokens", 0,
			"accepted_prediction_tokens", 0, "rejected_prediction_tokens", 0}}
}

// chatEvents is the stream: role, content, finish, usage if asked for, [DONE].
func (a *answer) chatEvents() [][]byte {
	usage := gjson.GetBytes(a.q.body, "stream_options.include_usage").Bool()
	chunk := func(choices list, total any) []byte {
		d := doc{"id", a.chatID(), "object", "chat.completion.chunk", "created", a.created.Unix(), "model", a.model,
			"service_tier", "default", "system_fingerprint", "fp_sim", "choices", choices}
		if usage { // every chunk then has the field, null but for the last
			d = append(d, "usage", total)
		}
		return data(d)
	}
	delta := func(i int, d doc, finish any) []byte {
		return chunk(list{doc{"index", i, "delta", d, "logprobs", nil, "finish_reason", finish}}, nil)
	}
	var out [][]byte
	for i := range a.choices() {
		first := doc{"role", "assistant", "content", "", "refusal", nil}
		if a.call != nil {
			first = doc{"role", "assistant", "content", nil, "tool_calls", list{doc{"index", 0, "id", a.ident("call_", 24),
				"type", "function", "function", doc{"name", a.call.name, "arguments", ""}}}, "refusal", nil}
		}
		out = append(out, delta(i, first, nil))
		for _, piece := range a.chunks {
			d := doc{"content", piece}
			if a.call != nil {
				d = doc{"tool_calls", list{doc{"index", 0, "function", doc{"arguments", piece}}}}
			}
			out = append(out, delta(i, d, nil))
		}
		out = append(out, delta(i, doc{}, a.chatFinish()))
	}
	if usage {
		out = append(out, chunk(list{}, a.chatUsage()))
	}
	return append(out, []byte("data: [DONE]\n\n"))
}

// embeddings gives each input the step's vector, or one that follows from its place alone.
func embeddings(q *request, chosen []float32) []byte {
	dims := int(gjson.GetBytes(q.body, "dimensions").Int())
	if dims <= 0 || dims > 4096 {
		dims = 8
	}
	vectors := make(list, min(max(q.inputs, 1), 2048))
	for i := range vectors {
		at := chosen
		if at == nil {
			at = vector(i, dims)
		}
		var v any = at
		if gjson.GetBytes(q.body, "encoding_format").String() == "base64" {
			v = vectorBase64(at)
		}
		vectors[i] = doc{"object", "embedding", "index", i, "embedding", v}
	}
	in := tokens(q.all)
	return doc{"object", "list", "data", vectors, "model", q.model,
		"usage", doc{"prompt_tokens", in, "total_tokens", in}}.bytes()
}

// modelNames are the models that each wire lists.
func (q *request) modelNames() []string {
	switch q.wire {
	case wireAnthropic:
		return []string{"claude-opus-5", "claude-sonnet-5", "claude-haiku-4-5"}
	case wireGemini:
		return []string{"gemini-3.5-flash", "gemini-2.5-pro", "gemini-2.5-flash"}
	}
	return []string{"gpt-5", "gpt-5-mini", "gpt-4o", "text-embedding-3-small"}
}

// models lists the models, or gives the one of the path whatever its name.
func (q *request) models() *reply {
	if q.id != "" {
		return plain(http.StatusOK, q.modelBody(q.id).bytes())
	}
	names := q.modelNames()
	all := make(list, len(names))
	for i, name := range names {
		all[i] = q.modelBody(name)
	}
	switch q.wire {
	case wireAnthropic:
		return plain(http.StatusOK, doc{"data", all, "has_more", false, "first_id", names[0], "last_id", names[len(names)-1]}.bytes())
	case wireGemini:
		return plain(http.StatusOK, doc{"models", all}.bytes())
	}
	return plain(http.StatusOK, doc{"object", "list", "data", all}.bytes())
}

func (q *request) modelBody(name string) doc {
	switch q.wire {
	case wireAnthropic:
		return doc{"type", "model", "id", name, "display_name", name, "created_at", "2026-01-01T00:00:00Z"}
	case wireGemini:
		return doc{"name", "models/" + name, "version", "001", "displayName", name, "description", "A simulated model.",
			"inputTokenLimit", 1_048_576, "outputTokenLimit", 65_536,
			"supportedGenerationMethods", list{"generateContent", "countTokens", "embedContent"}}
	}
	return doc{"id", name, "object", "model", "created", 1_767_225_600, "owned_by", fmt.Sprintf("%s-sim", q.wire)}
}
