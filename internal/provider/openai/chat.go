// Package openai knows the wire formats of OpenAI and of the many servers that speak them.
package openai

import (
	"bytes"

	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// Chat is the grammar of chat completion chunks, OpenAI's and those of Azure, DeepSeek, Mistral, OpenRouter,
// Groq, vLLM and others, and of the older text completions.
type Chat struct{ quiet wire.Template }

const done = "[DONE]"

// Event implements wire.Grammar.
func (c *Chat) Event(s *wire.State, ev *wire.Event) {
	if s.Transcript == nil && len(ev.Name) == 0 {
		if usage, ok := c.quiet.Match(ev.Data); ok {
			if usage != nil { // vLLM's continuous usage
				s.Usage = chatUsage(usage)
			}
			return
		}
	}
	data := bytes.TrimSpace(ev.Data)
	if string(data) == done {
		s.Close(ev, done)
		return
	}
	chunk := readChunk(data)
	c.failure(s, ev, &chunk)
	s.Identify(chunk.id, chunk.model)
	for a := chunk.choices.Array(); ; {
		choice, ok := a.Next()
		if !ok {
			break
		}
		c.choice(s, ev, choice)
	}
	if u := chunk.usage; u.IsObject() {
		s.Usage = chatUsage(u)
	}
	if s.Transcript == nil {
		c.learn(ev.Data, &chunk)
	}
}

// learn remembers a chunk that the next ones will continue. With several choices it is not worth it.
func (c *Chat) learn(data []byte, k *chunk) {
	c.quiet.Forget()
	a := k.choices.Array()
	choice, ok := a.Next()
	if _, more := a.Next(); !ok || more {
		return
	}
	if text := fragment(choice.Get("delta")); text.IsString() {
		c.quiet.Learn(data, text, k.usage, k.padding)
	}
}

// fragment returns the string of a delta that the next chunk will continue: text, thought or arguments.
func fragment(d jsonview.Value) (text jsonview.Value) {
	for o := d.Object(); ; {
		key, val, ok := o.Next()
		if !ok {
			return text
		}
		switch string(key) {
		case "content", "reasoning_content", "reasoning":
			if val.IsString() && len(val) > max(2, len(text)) {
				text = val
			}
		case "tool_calls":
			a := val.Array()
			call, _ := a.Next()
			if args := call.Path("function", "arguments"); args.IsString() {
				text = args
			}
		}
	}
}

// chunk is the members of one chunk that mean something.
type chunk struct {
	id, model, choices, usage, err, object, kind, padding jsonview.Value
}

func readChunk(data []byte) (c chunk) {
	for o := jsonview.Value(data).Object(); ; {
		key, val, ok := o.Next()
		if !ok {
			return c
		}
		switch string(key) {
		case "id":
			c.id = val
		case "model":
			c.model = val
		case "choices":
			c.choices = val
		case "usage":
			if val.Set() {
				c.usage = val
			}
		case "x_groq":
			if u := val.Get("usage"); u.Set() && !c.usage.Set() {
				c.usage = u
			}
			if e := val.Get("error"); e.Filled() {
				c.err = e
			}
		case "error":
			c.err = val
		case "object":
			c.object = val
		case "obfuscation":
			c.padding = val
		case "type":
			c.kind = val
		}
	}
}

// failure looks for the forms in which a chunk says that the stream failed: an error member that is not null, a
// flat error object, or an error event whatever it carries.
func (c *Chat) failure(s *wire.State, ev *wire.Event, k *chunk) {
	switch {
	case k.err.IsObject(), k.err.Filled():
		s.Fail(ev, ErrorOf(k.err))
	case k.object.Is("error"), k.kind.Is("error"), string(ev.Name) == "error":
		s.Fail(ev, wire.ErrorCode(jsonview.Value(ev.Data)))
	}
}

// ErrorOf returns the code of the error member e.
func ErrorOf(e jsonview.Value) string {
	if e.IsObject() {
		return wire.ErrorCode(e)
	}
	return wire.UnnamedError
}

func (c *Chat) choice(s *wire.State, ev *wire.Event, choice jsonview.Value) {
	var message jsonview.Value
	for o := choice.Object(); ; {
		key, val, ok := o.Next()
		if !ok {
			break
		}
		switch string(key) {
		case "delta":
			delta(s, ev, val)
			message = nil
		case "message": // some servers send whole messages; beside a delta it only repeats
			message = val
		case "text":
			s.Visible(ev, val)
		case "finish_reason":
			finish(s, ev, val)
		case "error": // OpenRouter
			if val.Filled() {
				s.Fail(ev, ErrorOf(val))
			}
		}
	}
	if message.IsObject() && !choice.Get("delta").Set() {
		delta(s, ev, message)
	}
}

func finish(s *wire.State, ev *wire.Event, reason jsonview.Value) {
	if len(reason) < 3 || !reason.IsString() {
		return
	}
	s.Complete(ev, reason.String())
	if reason.Is("error") { // OpenRouter
		s.Fail(ev, "error")
	}
}

// delta reads one delta, or a message in the same form.
func delta(s *wire.State, ev *wire.Event, d jsonview.Value) {
	var thought, details jsonview.Value
	for o := d.Object(); ; {
		key, val, ok := o.Next()
		if !ok {
			break
		}
		switch string(key) {
		case "content":
			content(s, ev, val)
		case "refusal":
			s.Visible(ev, val)
		case "reasoning_content", "reasoning", "thinking":
			if len(val) > 2 && val.IsString() { // servers in transition send one text under two names
				thought = val
			}
		case "tool_calls":
			toolCalls(s, ev, val)
		case "function_call":
			if val.IsObject() {
				toolCall(s, ev, val)
			}
		case "reasoning_details": // OpenRouter, mostly beside the plain form
			details = val
		case "audio", "images", "annotations":
			if val.Filled() {
				s.Content(ev)
			}
		}
	}
	s.Reasoning(ev, thought)
	if thought == nil {
		reasoningDetails(s, ev, details)
	}
}

func reasoningDetails(s *wire.State, ev *wire.Event, details jsonview.Value) {
	for a := details.Array(); ; {
		d, ok := a.Next()
		if !ok {
			return
		}
		s.Content(ev) // an encrypted one has no text
		s.Reasoning(ev, d.Get("text"))
		s.Reasoning(ev, d.Get("summary"))
	}
}

// content reads a text, or Mistral's array of parts.
func content(s *wire.State, ev *wire.Event, val jsonview.Value) {
	if !val.IsArray() {
		s.Visible(ev, val)
		return
	}
	for a := val.Array(); ; {
		part, ok := a.Next()
		if !ok {
			return
		}
		switch kind := part.Get("type"); {
		case kind.Is("thinking"):
			thinking(s, ev, part.Get("thinking"))
		case kind.Is("refusal"):
			s.Visible(ev, part.Get("refusal"))
		case part.Get("text").IsString():
			s.Visible(ev, part.Get("text"))
		default: // references, images
			s.Content(ev)
		}
	}
}

func thinking(s *wire.State, ev *wire.Event, val jsonview.Value) {
	s.Reasoning(ev, val)
	for a := val.Array(); ; {
		part, ok := a.Next()
		if !ok {
			return
		}
		s.Reasoning(ev, part.Get("text"))
	}
}

func toolCalls(s *wire.State, ev *wire.Event, calls jsonview.Value) {
	for a := calls.Array(); ; {
		call, ok := a.Next()
		if !ok {
			return
		}
		s.Content(ev)
		if s.ToolStarted {
			return
		}
		toolCall(s, ev, call)
		toolCall(s, ev, call.Get("function"))
		toolCall(s, ev, call.Get("custom"))
	}
}

func toolCall(s *wire.State, ev *wire.Event, call jsonview.Value) {
	if !call.IsObject() {
		return
	}
	s.Content(ev)
	if len(call.Get("name")) > 2 {
		s.Tool(ev, false)
	}
}

// chatUsage reads a usage member. Details of zero are left out as unknown: servers that count none send zeros.
func chatUsage(u jsonview.Value) wire.Usage {
	n := wire.NoUsage()
	var cached, cacheHits int64
	for o := u.Object(); ; {
		key, val, ok := o.Next()
		if !ok {
			break
		}
		switch string(key) {
		case "prompt_tokens":
			n.Input = val.Int()
		case "completion_tokens":
			n.Output = val.Int()
		case "prompt_tokens_details":
			cached = val.Get("cached_tokens").Int()
		case "prompt_cache_hit_tokens": // DeepSeek
			cacheHits = val.Int()
		case "completion_tokens_details":
			n.Reasoning = wire.Positive(val.Get("reasoning_tokens").Int())
		}
	}
	if n.Cached = wire.Positive(cached); n.Cached < 0 {
		n.Cached = wire.Positive(cacheHits)
	}
	return n
}

// End implements wire.Grammar. A finish reason completes an answer without [DONE], and [DONE] one without a
// finish reason: servers leave out either. The caller who must not take a half answer looks at Finish.
func (c *Chat) End(p *wire.Progress) wire.End {
	if p.Ended || p.Finish != "" {
		return wire.Complete
	}
	return wire.Cut
}

// Error implements wire.Grammar.
func (c *Chat) Error(doc jsonview.Value) (string, bool) { return Error(doc) }

// Error returns the code of a document that is an error: nested, flat (Mistral, older vLLM), FastAPI's detail.
func Error(doc jsonview.Value) (string, bool) {
	var e, object, kind, detail, choices, id jsonview.Value
	for o := doc.Object(); ; {
		key, val, ok := o.Next()
		if !ok {
			break
		}
		switch string(key) {
		case "error":
			e = val
		case "object":
			object = val
		case "type":
			kind = val
		case "detail":
			detail = val
		case "choices":
			choices = val
		case "id":
			id = val
		}
	}
	switch {
	case e.IsObject(), e.Filled():
		return ErrorOf(e), true
	case object.Is("error"), kind.Is("error"):
		return wire.ErrorCode(doc), true
	case detail.Filled() && !choices.Set() && !id.Set():
		return wire.UnnamedError, true
	}
	return "", false
}
