package provider

import (
	"bytes"
	"encoding/json"
)

// declining is where the answers of the APIs say that they are none, by the provider's policy on content; whole ones, and events of
// a stream.
type declining struct {
	Choices []struct { // chat completions
		FinishReason string `json:"finish_reason"`
		Message      struct {
			Refusal string `json:"refusal"`
			Content string `json:"content"`
		} `json:"message"`
	} `json:"choices"`
	IncompleteDetails struct { // responses
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Response   *declining `json:"response"`
	StopReason string     `json:"stop_reason"` // messages
	Delta      struct {
		StopReason string `json:"stop_reason"`
	} `json:"delta"`
	PromptFeedback struct { // generations
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	Candidates []struct {
		FinishReason string `json:"finishReason"`
	} `json:"candidates"`
}

// blocked are Gemini's words for it.
var blocked = map[string]bool{"SAFETY": true, "PROHIBITED_CONTENT": true, "BLOCKLIST": true, "SPII": true, "RECITATION": true, "IMAGE_SAFETY": true}

func (d *declining) says() bool {
	if d.IncompleteDetails.Reason == "content_filter" || d.StopReason == "refusal" || d.Delta.StopReason == "refusal" || d.PromptFeedback.BlockReason != "" {
		return true
	}
	for i := range d.Choices {
		if c := &d.Choices[i]; c.FinishReason == "content_filter" || c.Message.Refusal != "" && c.Message.Content == "" {
			return true
		}
	}
	for i := range d.Candidates {
		if blocked[d.Candidates[i].FinishReason] {
			return true
		}
	}
	return d.Response != nil && d.Response.says()
}

// Declined reports whether a 2xx answer is none by the provider's policy on content: finish_reason content_filter, a refusal,
// Gemini's SAFETY and blockReason.
func Declined(doc []byte) bool {
	var d declining
	_ = json.Unmarshal(doc, &d) // what has another type says nothing of it
	return d.says()
}

// DeclinedStream is Declined for a stream that ended without content.
func DeclinedStream(format Format, body []byte) bool {
	if format == JSONArray {
		var all []json.RawMessage
		if json.Unmarshal(body, &all) != nil {
			return false
		}
		for _, doc := range all {
			if Declined(doc) {
				return true
			}
		}
		return false
	}
	for line := range bytes.Lines(body) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && Declined(data) {
			return true
		}
	}
	return false
}

// HoldsRefusal says that an answer of any API is a refusal or holds one, whatever its finish reason: as a member refusal that is not
// empty, as the type or reason of something, or as an event of one. Inside a text its quotes are escaped, so that a text about
// refusals is none.
func HoldsRefusal(body []byte) bool {
	if bytes.Contains(body, []byte(`"response.refusal.`)) {
		return true
	}
	const word, blanks = `"refusal"`, " \t\r\n"
	for from := 0; ; {
		at := bytes.Index(body[from:], []byte(word))
		if at < 0 {
			return false
		}
		at += from
		from = at + len(word)
		if bytes.HasSuffix(bytes.TrimRight(body[:at], blanks), []byte(":")) {
			return true
		}
		value, isMember := bytes.CutPrefix(bytes.TrimLeft(body[from:], blanks), []byte(":"))
		value = bytes.TrimLeft(value, blanks)
		if isMember && len(value) > 1 && value[0] == '"' && value[1] != '"' {
			return true
		}
	}
}
