package signal

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
)

// readFault finds out what the body says.
func readFault(a *Answer, h headers, c clock) fault {
	text, x := readBody(a.Body, h.get("content-encoding"))
	f := fault{inBand: a.Status >= 200 && a.Status < 300, textCut: x != whole, exhausted: h.exhausted(c)}
	f.readHeaders(h)
	text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
	contentType := strings.ToLower(h.get("content-type"))
	switch {
	case len(text) == 0:
		if f.inBand && (x == whole || x == broken) { // what is not read did not fail
			f.fail("empty_2xx")
		}
	case strings.Contains(contentType, "amazon.eventstream"):
		f.readFrames(text)
	case looksLikeStream(contentType, text):
		f.readStream(text, x)
	case text[0] == '{' || text[0] == '[':
		f.readJSON(a, contentType, text, x)
	default:
		f.readText(a, contentType, text)
	}
	return f
}

// fail notes a failure that the answer shows without saying it; the word is ours.
func (f *fault) fail(word string) {
	f.present = true
	set(&f.typ, word)
}

// readHeaders reads the types that AWS ("ThrottlingException:http://…") and Azure put beside the body.
func (f *fault) readHeaders(h headers) {
	t, _, _ := strings.Cut(h.get("x-amzn-errortype"), ":")
	set(&f.typ, strings.TrimSpace(t))
	set(&f.code, h.get("x-ms-error-code"))
}

// readJSON reads one document, or several of them one after the other (NDJSON).
func (f *fault) readJSON(a *Answer, contentType string, text []byte, x extent) {
	v, err := decode(text)
	switch {
	case err != nil && f.inBand:
		f.unusable(text, x, err)
	case err != nil: // the words of a cut error are still words
		f.textCut = true
		f.say(string(clipTo(text, maxMatch)))
	case !f.inBand:
		f.readValue(v, true, 0)
	default:
		if f.readAnswer(v, true); f.present {
			return
		}
		if f.readLines(text); f.present {
			return
		}
		if strings.Contains(contentType, "ndjson") && x != clipped && !bytes.Contains(text, []byte(`"done":true`)) { // Ollama's end
			f.fail("stream_cut")
		}
		if isEmpty(v) && strings.HasPrefix(a.Endpoint, "POST ") {
			f.fail("empty_2xx")
		}
	}
}

// unusable: of a cut answer nothing can be used, not even for success.
func (f *fault) unusable(text []byte, x extent, err error) {
	if f.readLines(text); f.present || x == clipped {
		return
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || x == broken {
		f.fail("truncated_json")
		return
	}
	f.fail("invalid_json")
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// readText reads what is neither JSON nor a stream: pages of proxies, plain words.
func (f *fault) readText(a *Answer, contentType string, text []byte) {
	switch {
	case text[0] == '<':
		f.readPage(text)
		if f.inBand && !strings.Contains(contentType, "xml") {
			f.typ = ""
			f.fail("html_" + strconv.Itoa(a.Status))
		}
	case !f.inBand:
		f.say(string(clipTo(text, maxMatch)))
	case strings.Contains(contentType, "json"):
		f.fail("invalid_json")
	}
}

// readPage keeps a page's title and headings; the rest is decoration that could mislead. Only a wait is read
// from all of its text.
func (f *fault) readPage(page []byte) {
	page = clipTo(page, 32<<10)
	lower := bytes.ToLower(page)
	for _, tag := range []string{"<title>", "<h1>", "<h2>"} {
		i := bytes.Index(lower, []byte(tag))
		if i < 0 || len(lower) != len(page) {
			continue
		}
		rest := page[i+len(tag):]
		if end := bytes.IndexByte(rest, '<'); end >= 0 {
			f.say(strings.TrimSpace(string(clipTo(rest[:end], 200))))
		}
	}
	f.page = string(page)
}

// readLines looks for an error in one of several JSON lines.
func (f *fault) readLines(text []byte) {
	for len(text) > 0 && !f.present {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		if bytes.Contains(line, []byte(`"error"`)) {
			f.readEvent("", bytes.TrimSpace(line))
		}
	}
}

func looksLikeStream(contentType string, text []byte) bool {
	if text[0] == '{' || text[0] == '[' || text[0] == '<' {
		return false
	}
	if strings.Contains(contentType, "event-stream") {
		return true
	}
	for _, p := range []string{"data:", "event:", "id:", "retry:", ": "} {
		if bytes.HasPrefix(text, []byte(p)) {
			return true
		}
	}
	return false
}
