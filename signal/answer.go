package signal

import "strings"

// readAnswer reads a document under a 2xx: an error in it, or an answer that holds nothing to use. entire is
// false for one event of a stream, which may well hold nothing.
func (f *fault) readAnswer(v any, entire bool) {
	if f.readValue(v, false, 0); f.present {
		return
	}
	if list, ok := v.([]any); ok { // Gemini's array of chunks: the last one tells how it ended
		if len(list) > 0 {
			f.readAnswer(list[len(list)-1], false)
		}
		return
	}
	o, ok := v.(map[string]any)
	if !ok {
		return
	}
	for _, wrap := range []string{"response", "delta"} { // Responses' events; Anthropic's message_delta
		if inner, ok := o[wrap].(map[string]any); ok && !entire {
			f.readValue(inner, false, 1)
			f.readEnd(inner, false)
		}
	}
	if !f.present {
		f.readEnd(o, entire)
	}
}

// readEnd reads the word with which an answer ended.
func (f *fault) readEnd(o map[string]any, entire bool) {
	if p, ok := o["promptFeedback"].(map[string]any); ok && str(p["blockReason"]) != "" {
		f.end(str(p["blockReason"]), false)
		return
	}
	if d, ok := o["incomplete_details"].(map[string]any); ok {
		f.end(str(d["reason"]), hasItems(o["output"], "message") || !entire)
	}
	f.end(str(o["stop_reason"]), holds(o["content"]) || !entire)                           // Anthropic
	f.end(str(o["stopReason"]), holds(o["output"]) || !entire)                             // Bedrock Converse
	f.readChoices(o["candidates"], "finishReason", "empty_candidates", entire)             // Gemini
	f.readChoices(o["choices"], "finish_reason", "empty_choices", entire)                  // OpenAI
	if _, ok := o["usageMetadata"]; ok && entire && o["candidates"] == nil && !f.present { // Gemini, without any
		f.fail("empty_candidates")
	}
}

// needsContent are ends that are failures only if nothing was said before.
var needsContent = map[string]bool{
	"maxtokens": true, "maxoutputtokens": true, "length": true, "other": true, "modelcontextwindowexceeded": true,
}

// end: the answer's own word for its end is the failure's type, if rules know it as a failure.
func (f *fault) end(word string, content bool) {
	n := normal(word)
	if c, ok := codes[n]; f.present || !ok && word != "error" || ok && c.class == "" || needsContent[n] && content {
		return
	}
	f.present, f.code = true, word
}

func (f *fault) readChoices(list any, reason, empty string, entire bool) {
	cs, ok := list.([]any)
	if !ok || f.present {
		return
	}
	if len(cs) == 0 && entire {
		f.fail(empty)
		return
	}
	for _, c := range cs {
		c, ok := c.(map[string]any)
		if !ok || f.present {
			continue
		}
		if f.readValue(c, false, 1); f.present { // OpenRouter: an error within the choice
			return
		}
		content := !entire || choiceHolds(c)
		f.end(str(c[reason]), content)
		if !content && reason == "finishReason" && strings.EqualFold(str(c[reason]), "stop") && !f.present {
			f.fail(empty) // Gemini: STOP without a part is a known fault, not an answer
		}
	}
}

func choiceHolds(c map[string]any) bool {
	for _, k := range []string{"content", "message", "text", "delta"} {
		if holds(c[k]) {
			return true
		}
	}
	return false
}

// frame are members that say nothing to a user.
var frame = map[string]bool{"role": true, "thought": true, "thoughtSignature": true, "type": true, "annotations": true}

// holds: somewhere in it is a text or a number that is more than frame.
func holds(v any) bool {
	switch v := v.(type) {
	case nil, bool:
		return false
	case string:
		return v != ""
	case []any:
		for _, e := range v {
			if holds(e) {
				return true
			}
		}
		return false
	case map[string]any:
		for k, e := range v {
			if !frame[k] && holds(e) {
				return true
			}
		}
		return false
	}
	return true
}

// hasItems: a list with an object of this type.
func hasItems(list any, typ string) bool {
	items, _ := list.([]any)
	for _, it := range items {
		if o, ok := it.(map[string]any); ok && str(o["type"]) == typ && holds(o["content"]) {
			return true
		}
	}
	return false
}
