package upstream

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// head is the status line and the fields of one answer.
type head struct {
	status int
	minor  int // of HTTP/1
	header http.Header
}

func malformed(reason string) error { return fmt.Errorf("%w: %s", ErrMalformed, reason) }

// sectionEnd looks for the empty line that ends a head or a trailer section of b, from the start of a line on. Without
// one, end is 0 and resume is where to look on when more has come. A line feed alone ends no line here: RFC 9112 section
// 2.2 allows a recipient to take it for one, and two recipients who differ in that see two different answers.
func sectionEnd(b []byte, from int) (end, resume int, err error) {
	for {
		i := bytes.IndexByte(b[from:], '\n')
		if i < 0 {
			return 0, from, nil
		}
		if i == 0 || b[from+i-1] != '\r' {
			return 0, 0, malformed("a line does not end in CR LF")
		}
		from += i + 1
		if i == 1 {
			return from, from, nil
		}
	}
}

const versionPrefix = "HTTP/1."

// couldBeHead lets an answer in another protocol fail at its first bytes, not when the buffer is full.
func couldBeHead(b []byte) bool {
	n := min(len(b), len(versionPrefix))
	return string(b[:n]) == versionPrefix[:n]
}

// parseHead reads a head whose end sectionEnd has found (RFC 9112 section 4).
func parseHead(b []byte) (head, error) {
	text := string(b) // one copy: all values are parts of it
	line, fields, _ := strings.Cut(text, "\r\n")
	version, rest, _ := strings.Cut(line, " ")
	code, reason, _ := strings.Cut(rest, " ")
	if version != "HTTP/1.1" && version != "HTTP/1.0" {
		return head{}, malformed("the status line does not begin with HTTP/1.1")
	}
	status, ok := digits(code)
	if !ok || len(code) != 3 || status < 100 {
		return head{}, malformed("the status is not three digits")
	}
	if !isFieldValue(reason) {
		return head{}, malformed("the reason phrase holds control characters")
	}
	header, err := parseFields(fields)
	return head{int(status), int(version[len(version)-1] - '0'), header}, err
}

// parseFields reads the lines of a head or of a trailer section, the empty one that ends it included.
func parseFields(text string) (http.Header, error) {
	count := min(strings.Count(text, "\r\n")-1, 64) // a hint, which hostile heads cannot blow up
	header, values := make(http.Header, count), make([]string, 0, count)
	for text != "\r\n" {
		line, rest, _ := strings.Cut(text, "\r\n")
		text = rest
		name, value, found := strings.Cut(line, ":")
		// A folded line begins with white space, which is no token: RFC 9112 section 5.2 lets us refuse it.
		if !found || !isToken(name) {
			return nil, malformed("a header line has no proper name")
		}
		value = strings.Trim(value, " \t")
		if !isFieldValue(value) {
			return nil, malformed("a header value holds control characters")
		}
		name = http.CanonicalHeaderKey(name)
		if before, ok := header[name]; ok {
			header[name] = append(before, value)
			continue
		}
		values = append(values, value)
		header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	return header, nil
}

// framing says how long the body is and whether the connection can carry another request after it (RFC 9112 section 6.3).
// It refuses whatever two readers could measure differently.
func (h *head) framing(method string) (dec decoder, reuse bool, err error) {
	encodings, encoded := h.header["Transfer-Encoding"]
	length, err := contentLength(h.header["Content-Length"])
	switch {
	case err != nil:
		return decoder{}, false, err
	case encoded && length >= 0:
		return decoder{}, false, malformed("it has both Content-Length and Transfer-Encoding")
	case encoded && (h.minor == 0 || len(encodings) != 1 || !strings.EqualFold(encodings[0], "chunked")):
		return decoder{}, false, malformed("its transfer encoding is not chunked")
	}
	delete(h.header, "Transfer-Encoding")
	reuse = h.minor == 1 && !hasToken(h.header["Connection"], "close")
	switch {
	case method == http.MethodHead || h.status == http.StatusNotModified:
		return decoder{kind: sized}, reuse, nil
	case h.status == http.StatusNoContent:
		// A server that announces a body here may also send it.
		return decoder{kind: sized}, reuse && !encoded && length <= 0, nil
	case encoded:
		delete(h.header, "Trailer")
		return decoder{kind: chunked, stage: atSize}, reuse, nil
	case length >= 0:
		return decoder{kind: sized, left: length}, reuse, nil
	}
	return decoder{kind: untilClose, left: math.MaxInt64}, false, nil
}

// contentLength is -1 without the field. The same length twice is one length; a list in one field is refused.
func contentLength(values []string) (int64, error) {
	if len(values) == 0 {
		return -1, nil
	}
	for _, other := range values[1:] {
		if other != values[0] {
			return 0, malformed("it has two lengths")
		}
	}
	n, ok := digits(values[0])
	if !ok {
		return 0, malformed("its Content-Length is no number")
	}
	return n, nil
}

// digits reads a number of decimal digits alone: no sign, no space.
func digits(s string) (int64, bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

func hasToken(values []string, token string) bool {
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.Trim(part, " \t"), token) {
				return true
			}
		}
	}
	return false
}
