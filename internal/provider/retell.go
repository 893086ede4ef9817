package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
	"github.com/holdfast-ai/holdfast/internal/sse"
)

// Retell says a whole answer anew in the form that a request asks for: a document as a stream, a stream as a document or as one of
// another framing, with its own id, model, usage and end. body is the request's. ok is false where the answer holds what the other form
// would not tell just so: another text or choice beside the one, a refusal, sources, probabilities, thoughts, members that are not
// known.
func Retell(call *Call, body []byte, contentType string, answer []byte) (s Said, ok bool) {
	s = unsaid(call)
	from := formatIn(contentType, answer)
	switch call.Endpoint {
	case wire.Chat:
		s.Body, ok = retellChat(call, body, from, answer)
	case wire.Responses:
		s.Body, ok = retellResponse(call, from, answer)
	case wire.Messages:
		s.Body, ok = retellMessage(call, from, answer)
	case wire.Generate, wire.StreamGenerate:
		s.Body, ok = retellGemini(call, from, answer)
	}
	return s, ok
}

// Says reports whether an answer holds any text at all. It reads no further than to the first.
func Says(call *Call, contentType string, answer []byte) bool {
	from := formatIn(contentType, answer)
	said := false
	visit := func(doc jsonview.Value) {
		said = said || strings.TrimSpace(textIn(call, from, doc)) != ""
	}
	switch from {
	case SSE:
		var p sse.Parser
		take := func(ev sse.Event) error {
			if visit(jsonview.Of(ev.Data)); said {
				return errEnough
			}
			return nil
		}
		_ = p.Feed(answer, take) // what it says behind a fault no client reads
	case JSONArray:
		each(jsonview.Of(answer), visit)
	default:
		visit(jsonview.Of(answer))
	}
	return said
}

var errEnough = errors.New("enough is read")

// textIn is what a document says, or an event.
func textIn(call *Call, from Format, doc jsonview.Value) string {
	if from == SSE {
		switch call.Endpoint {
		case wire.Chat:
			return chatText(first(doc.Get("choices")).Get("delta"))
		case wire.Responses:
			if doc.Get("type").Is("response.output_text.delta") {
				return doc.Get("delta").String()
			}
			doc = doc.Get("response")
		case wire.Messages:
			return doc.Get("content_block").Get("text").String() + doc.Get("delta").Get("text").String()
		}
	}
	return Text(call, doc)
}

// formatIn is the format of an answer as it stands.
func formatIn(contentType string, answer []byte) Format {
	text := bytes.TrimLeft(answer, " \t\r\n")
	switch {
	case FormatOf(&Call{}, contentType) == SSE:
		return SSE
	case len(text) > 0 && text[0] == '[':
		return JSONArray
	}
	return JSON
}

// documents are the JSON values of an answer: its events', its elements, or the one that it is. ok is false where one is none.
func documents(from Format, answer []byte) (docs []jsonview.Value, ok bool) {
	add := func(doc []byte) {
		doc = bytes.TrimSpace(doc)
		ok = ok && json.Valid(doc) && doc[0] == '{'
		docs = append(docs, bytes.Clone(doc))
	}
	ok = true
	switch from {
	case SSE:
		var p sse.Parser
		take := func(ev sse.Event) error {
			if len(ev.Data) > 0 && string(ev.Data) != "[DONE]" {
				add(ev.Data)
			}
			return nil
		}
		ok = p.Feed(answer, take) == nil && p.Close(take) == nil && ok
	case JSONArray:
		ok = json.Valid(answer)
		each(jsonview.Of(answer), func(doc jsonview.Value) { add(doc) })
	default:
		add(answer)
	}
	return docs, ok && len(docs) > 0
}

// only says that an object says nothing but in the members that are named.
func only(object jsonview.Value, names ...string) bool {
	if object != nil && !object.IsObject() {
		return false
	}
	for o := object.Object(); ; {
		key, val, ok := o.Next()
		if !ok {
			return true
		}
		if val.Filled() && !slices.Contains(names, string(key)) {
			return false
		}
	}
}

// one is the only element of a list.
func one(list jsonview.Value) (v jsonview.Value, ok bool) {
	n := 0
	each(list, func(element jsonview.Value) { v, n = element, n+1 })
	return v, n == 1
}

// line is a value on one line, as an event has to be; otherwise where there is none.
func line(v jsonview.Value, otherwise string) string {
	var b bytes.Buffer
	if len(v) == 0 || json.Compact(&b, v) != nil {
		return otherwise
	}
	return b.String()
}

// member is a member of an object and its value as JSON.
type member struct{ key, value string }

// with is an object on one line in which members have other values; those that it has not come last.
func with(object jsonview.Value, changed ...member) string {
	var out strings.Builder
	put := func(m member) {
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		out.WriteString(quote(m.key))
		out.WriteByte(':')
		out.WriteString(m.value)
	}
	left := slices.Clone(changed)
	for o := object.Object(); ; {
		key, val, ok := o.Next()
		if !ok {
			break
		}
		is := func(m member) bool { return m.key == string(key) }
		if at := slices.IndexFunc(changed, is); at < 0 {
			put(member{string(key), line(val, "null")})
		} else if slices.ContainsFunc(left, is) { // of two of a name the first tells the place
			put(changed[at])
			left = slices.DeleteFunc(left, is)
		}
	}
	for _, m := range left {
		put(m)
	}
	return "{" + out.String() + "}"
}

// chatMembers are those of a chat completion, and of a chunk of one, that the other one has as well, or that say nothing.
var chatMembers = []string{"id", "object", "created", "model", "choices", "usage", "service_tier", "system_fingerprint", "obfuscation"}

func retellChat(call *Call, body []byte, from Format, answer []byte) ([]byte, bool) {
	docs, ok := documents(from, answer)
	if !ok || from == JSONArray {
		return nil, false
	}
	v := voice{usage: chatNothing, tier: "null", print: "null", doc: jsonview.Of(body)}
	text, ended := []byte(nil), false
	for _, doc := range docs {
		if !only(doc, chatMembers...) {
			return nil, false
		}
		if v.chatID == "" {
			v.chatID, v.model, v.at = doc.Get("id").String(), doc.Get("model").String(), line(doc.Get("created"), "0")
		}
		for _, m := range [...]struct {
			key string
			to  *string
		}{{"usage", &v.usage}, {"service_tier", &v.tier}, {"system_fingerprint", &v.print}} {
			if val := doc.Get(m.key); val.Set() {
				*m.to = line(val, *m.to)
			}
		}
		choice, said := one(doc.Get("choices"))
		if !said {
			ok = ok && first(doc.Get("choices")) == nil // a chunk of usage
			continue
		}
		message := choice.Get("message")
		if from == SSE {
			message = choice.Get("delta")
		}
		content := message.Get("content")
		ok = ok && only(choice, "message", "delta", "finish_reason") && only(message, "role", "content") && (content.IsString() || from == SSE && !content.Set())
		text, ended = content.AppendTo(text), ended || choice.Get("finish_reason").Is("stop")
	}
	if !ok || !ended {
		return nil, false
	}
	v.text = string(text)
	return v.either(call, v.chat, v.chatStream), true
}
