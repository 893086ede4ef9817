package signal

import "bytes"

// readStream reads server-sent events for the one that says the stream failed. Unlike internal/sse it also
// takes an event whose blank line never came: a provider that dies right after its last word has still said it.
func (f *fault) readStream(text []byte, x extent) {
	var seen seen
	var name string
	var data []byte
	flush := func() {
		if len(data) > 0 {
			seen.note(data)
			f.readEvent(name, data)
		}
		name, data = "", data[:0]
	}
	bare := 4 // tries at documents between events: each may read far
	for len(text) > 0 && !f.present {
		rest := text
		var line []byte
		line, text = nextLine(text)
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0:
			flush()
		case string(field) == "event":
			name = string(clipTo(value, 64))
		case string(field) == "data":
			if len(data) > 0 {
				data = append(data, '\n')
			}
			data = append(data, value...)
			f.toolStarted = f.toolStarted || startsTool(value)
		case line[0] == '{' && bare > 0: // a bare error between events, on one line or many (Gemini, vLLM)
			bare--
			f.readEvent("", rest)
		}
	}
	if !f.present {
		flush()
	}
	if f.inBand && !f.present && !seen.ended && x != clipped {
		f.fail(seen.word())
	}
}

// seen notes whether the grammar's own end came.
type seen struct{ any, ended bool }

func (s *seen) word() string {
	if s.any {
		return "stream_cut"
	}
	return "empty_stream"
}

func (s *seen) note(data []byte) {
	s.any = true
	for _, e := range []string{"[DONE]", `"message_stop"`, `"response.completed"`, `"response.incomplete"`} {
		s.ended = s.ended || bytes.Contains(data, []byte(e))
	}
	s.ended = s.ended || hasValue(data, `"finishReason"`) || hasValue(data, `"finish_reason"`)
}

// nextLine ends at CRLF, LF or a lone CR, as the WHATWG grammar says.
func nextLine(text []byte) (line, rest []byte) {
	i := bytes.IndexAny(text, "\r\n")
	if i < 0 {
		return text, nil
	}
	if text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n' {
		return text[:i], text[i+2:]
	}
	return text[:i], text[i+1:]
}

// startsTool: an agent that reads this event may have begun to act.
func startsTool(data []byte) bool {
	for _, w := range []string{`"tool_use"`, `"server_tool_use"`, `"mcp_tool_use"`, `"mcp_call"`} {
		if bytes.Contains(data, []byte(w)) {
			return true
		}
	}
	for _, k := range []string{`"tool_calls"`, `"function_call"`, `"functionCall"`, `"toolUse"`} {
		if hasValue(data, k) {
			return true
		}
	}
	return false
}

// hasValue: the JSON text has this word followed by a value that holds something, or as a value itself.
func hasValue(data []byte, word string) bool {
	i := bytes.Index(data, []byte(word))
	if i < 0 {
		return false
	}
	rest := bytes.TrimLeft(data[i+len(word):], " \t\r\n")
	if len(rest) == 0 || rest[0] != ':' {
		return true
	}
	rest = bytes.TrimLeft(rest[1:], " \t\r\n")
	return !bytes.HasPrefix(rest, []byte("null")) && !bytes.HasPrefix(rest, []byte("[]")) && !bytes.HasPrefix(rest, []byte(`""`))
}

// tellingWords are in every event that says how a stream ended; a long stream has few such events.
var tellingWords = []string{"error", "stop_reason", "Reason", "detail", "base_resp", "__type", "fault"}

func telling(name string, data []byte) bool {
	if name == "error" || hasValue(data, `"finish_reason"`) {
		return true
	}
	for _, w := range tellingWords {
		if bytes.Contains(data, []byte(w)) {
			return true
		}
	}
	return false
}

// readEvent reads one event's data for an error.
func (f *fault) readEvent(name string, data []byte) {
	if !telling(name, data) {
		return
	}
	v, err := decode(data)
	if err != nil {
		if name == "error" { // cut, or plain words
			f.textCut = true
			f.say(string(clipTo(data, maxMatch)))
			f.fail("stream_error")
		}
		return
	}
	f.readAnswer(v, false)
	if name == "error" && !f.present {
		f.readValue(v, true, 0)
	}
	if f.present && f.name(0) == "http_0" {
		f.typ = "stream_error"
	}
}
