package provider

import (
	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// Text is what a whole answer to call says to the end user: of several choices the first, thoughts and calls of tools left out.
func Text(call *Call, body []byte) string {
	doc := jsonview.Of(body)
	var out []byte
	switch call.Endpoint {
	case wire.Chat:
		return chatText(first(doc.Get("choices")).Get("message"))
	case wire.Responses, wire.ResponsesGet:
		each(doc.Get("output"), func(item jsonview.Value) {
			each(item.Get("content"), func(part jsonview.Value) {
				if out = textOf(out, part, "output_text"); part.Get("type").Is("refusal") && part.Get("refusal").IsString() {
					out = part.Get("refusal").AppendTo(out)
				}
			})
		})
	case wire.Messages:
		each(doc.Get("content"), func(block jsonview.Value) { out = textOf(out, block, "text") })
	case wire.Generate, wire.StreamGenerate:
		each(first(doc.Get("candidates")).Path("content", "parts"), func(part jsonview.Value) {
			if !part.Get("thought").True() {
				out = textOf(out, part, "")
			}
		})
	}
	return string(out)
}

// chatText reads a message whose content is a text, or a list of parts; or a refusal.
func chatText(message jsonview.Value) string {
	content := message.Get("content")
	if content.IsString() {
		return content.String()
	}
	var out []byte
	each(content, func(part jsonview.Value) { out = textOf(out, part, "text") })
	if refusal := message.Get("refusal"); len(out) == 0 && refusal.IsString() {
		return refusal.String()
	}
	return string(out)
}

// textOf appends a part's text, if it is of this type; "" is any.
func textOf(out []byte, part jsonview.Value, kind string) []byte {
	if text := part.Get("text"); text.IsString() && (kind == "" || part.Get("type").Is(kind)) {
		return text.AppendTo(out)
	}
	return out
}

func first(list jsonview.Value) (v jsonview.Value) {
	a := list.Array()
	v, _ = a.Next()
	return v
}

func each(list jsonview.Value, visit func(jsonview.Value)) {
	for a := list.Array(); ; {
		v, ok := a.Next()
		if !ok {
			return
		}
		visit(v)
	}
}
