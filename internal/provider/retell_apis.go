package provider

import "github.com/holdfast-ai/holdfast/internal/provider/jsonview"

// retellResponse tells a response: its stream ends with all of it.
func retellResponse(call *Call, from Format, answer []byte) ([]byte, bool) {
	docs, ok := documents(from, answer)
	if !ok {
		return nil, false
	}
	if from == JSON {
		if call.Format != SSE {
			return nil, false
		}
		return streamResponse(docs[0])
	}
	last := docs[len(docs)-1]
	if call.Format != JSON || !last.Get("type").Is("response.completed") || !last.Get("response").IsObject() {
		return nil, false
	}
	return []byte(line(last.Get("response"), "")), true
}

func streamResponse(doc jsonview.Value) ([]byte, bool) {
	var output []responseOutput
	ok, messages := doc.Get("status").Is("completed"), 0
	each(doc.Get("output"), func(item jsonview.Value) {
		o := responseOutput{begun: line(item, ""), done: line(item, "")}
		switch kind := item.Get("type"); {
		case kind.Is("reasoning") && only(item, "id", "type", "status", "encrypted_content"): // it says nothing
		case kind.Is("message"):
			part, single := one(item.Get("content"))
			text := part.Get("text")
			ok = ok && single && only(item, "id", "type", "status", "role", "content", "phase") && part.Get("type").Is("output_text") &&
				only(part, "type", "text") && text.IsString()
			o.begun, o.id = with(item, member{"status", `"in_progress"`}, member{"content", "[]"}), line(item.Get("id"), `""`)
			o.part, o.empty, o.text = line(part, ""), with(part, member{"text", `""`}), line(text, `""`)
			messages++
		default:
			ok = false
		}
		output = append(output, o)
	})
	if !ok || messages != 1 {
		return nil, false
	}
	begun := with(doc, member{"status", `"in_progress"`}, member{"output", "[]"}, member{"usage", "null"}, member{"completed_at", "null"})
	return []byte(responseEvents(begun, line(doc, ""), output)), true
}

// messageMembers are those of a message that its stream has as well.
var messageMembers = []string{"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}

func retellMessage(call *Call, from Format, answer []byte) ([]byte, bool) {
	docs, ok := documents(from, answer)
	if !ok {
		return nil, false
	}
	if from == JSON && call.Format == SSE {
		return streamMessage(docs[0])
	}
	if from == SSE && call.Format == JSON {
		return foldMessage(docs)
	}
	return nil, false
}

func streamMessage(doc jsonview.Value) ([]byte, bool) {
	block, single := one(doc.Get("content"))
	text, usage := block.Get("text"), doc.Get("usage")
	if !single || !only(doc, messageMembers...) || !only(block, "type", "text") || !block.Get("type").Is("text") || !text.IsString() || !usage.IsObject() {
		return nil, false
	}
	begun := with(doc, member{"content", "[]"}, member{"stop_reason", "null"}, member{"stop_sequence", "null"},
		member{"usage", with(usage, member{"output_tokens", "0"})}) // none of it has come yet
	delta := with(nil, member{"stop_reason", line(doc.Get("stop_reason"), "null")}, member{"stop_sequence", line(doc.Get("stop_sequence"), "null")})
	var counts []member
	for _, key := range [...]string{"input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"} {
		counts = append(counts, member{key, line(usage.Get(key), "0")})
	}
	return messageEvents(begun, line(text, ""), delta, with(nil, counts...)), true
}

// foldMessage makes a message of its events.
func foldMessage(docs []jsonview.Value) ([]byte, bool) {
	var message, end, usage jsonview.Value
	var text []byte
	ok, blocks := true, 0
	for _, ev := range docs {
		switch ev.Get("type").String() {
		case "message_start":
			message = ev.Get("message")
			ok = ok && only(message, messageMembers...) && !message.Get("content").Filled()
		case "content_block_start":
			block := ev.Get("content_block")
			blocks++
			ok = ok && block.Get("type").Is("text") && only(block, "type", "text")
			text = block.Get("text").AppendTo(text)
		case "content_block_delta":
			delta := ev.Get("delta")
			ok = ok && delta.Get("type").Is("text_delta") && only(delta, "type", "text")
			text = delta.Get("text").AppendTo(text)
		case "message_delta":
			end, usage = ev.Get("delta"), ev.Get("usage")
			ok = ok && only(ev, "type", "delta", "usage") && only(end, "stop_reason", "stop_sequence")
		case "content_block_stop", "message_stop", "ping":
		default:
			ok = false
		}
	}
	if !ok || blocks != 1 || !message.IsObject() || !end.Get("stop_reason").IsString() {
		return nil, false
	}
	var counts []member
	for o := usage.Object(); ; {
		key, val, more := o.Next()
		if !more {
			break
		}
		if val.Set() {
			counts = append(counts, member{string(key), line(val, "null")})
		}
	}
	return []byte(with(message, member{"content", `[{"type":"text","text":` + quote(string(text)) + `}]`},
		member{"stop_reason", line(end.Get("stop_reason"), "null")}, member{"stop_sequence", line(end.Get("stop_sequence"), "null")},
		member{"usage", with(message.Get("usage"), counts...)})), true
}

// retellGemini puts the documents of an answer into another frame, each as it is; one document is made of several where they are
// nothing but one text.
func retellGemini(call *Call, from Format, answer []byte) ([]byte, bool) {
	docs, ok := documents(from, answer)
	if !ok {
		return nil, false
	}
	lines := make([][]byte, len(docs))
	for i, doc := range docs {
		lines[i] = []byte(line(doc, ""))
	}
	if call.Format == JSON && len(docs) > 1 {
		if lines[0], ok = foldGemini(docs); !ok {
			return nil, false
		}
	}
	return geminiFramed(call.Format, lines...), true
}

func foldGemini(docs []jsonview.Value) ([]byte, bool) {
	var last, candidate, usage jsonview.Value
	var text []byte
	finish := ""
	for _, doc := range docs {
		if !only(doc, "candidates", "usageMetadata", "modelVersion", "responseId", "createTime") {
			return nil, false
		}
		if u := doc.Get("usageMetadata"); u.Set() {
			usage = u
		}
		c, single := one(doc.Get("candidates"))
		if !single {
			if first(doc.Get("candidates")) != nil {
				return nil, false
			}
			continue
		}
		last, candidate = doc, c
		content, ok := c.Get("content"), only(c, "content", "finishReason", "index") && only(c.Get("content"), "parts", "role")
		each(content.Get("parts"), func(part jsonview.Value) {
			t := part.Get("text")
			ok = ok && only(part, "text") && t.IsString()
			text = t.AppendTo(text)
		})
		if !ok {
			return nil, false
		}
		if f := c.Get("finishReason"); f.Set() {
			finish = f.String()
		}
	}
	if finish != "STOP" {
		return nil, false
	}
	changed := []member{{"candidates", "[" + with(candidate, member{"content", `{"parts":[{"text":` + quote(string(text)) + `}],"role":"model"}`}, member{"finishReason", `"STOP"`}) + "]"}}
	if usage != nil {
		changed = append(changed, member{"usageMetadata", line(usage, "null")})
	}
	return []byte(with(last, changed...)), true
}
