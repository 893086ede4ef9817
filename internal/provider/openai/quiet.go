package openai

import (
	"bytes"

	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
)

// quiet recognises chunks that differ from the one before only inside one string: the text, thought or tool
// arguments of their delta. Such a chunk has the same finish reason, usage, error and tool name as the one that
// was read in full, so it says nothing new; and comparing bytes costs a tenth of reading fields.
type quiet struct {
	head []byte // up to and with the string's opening quote
	tail []byte // from its closing quote on, without the padding member that OpenAI adds
}

// learnMax bounds what is remembered per stream.
const learnMax = 4 << 10

var paddingKey = []byte(`,"obfuscation":"`)

// same reports whether data is the learned chunk with another string.
func (q *quiet) same(data []byte) bool {
	if len(q.head) == 0 || !bytes.HasPrefix(data, q.head) {
		return false
	}
	rest := data[len(q.head):]
	end := closingQuote(rest)
	return end >= 0 && bytes.Equal(cutPadding(rest[end:]), q.tail)
}

// learn remembers data, a chunk that was read in full. A chunk with several choices is not worth it.
func (q *quiet) learn(data []byte, choices jsonview.Value) {
	q.head = q.head[:0]
	a := choices.Array()
	choice, ok := a.Next()
	if _, more := a.Next(); !ok || more {
		return
	}
	text := fragment(choice.Get("delta"))
	if len(text) < 2 || len(data)-len(text) > learnMax {
		return
	}
	at := text.Offset(data)
	q.head = append(q.head, data[:at+1]...)
	q.tail = append(q.tail[:0], cutPadding(data[at+len(text)-1:])...)
}

// fragment returns the string of a delta that the next chunk will continue.
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

// closingQuote returns the index of the quote that ends the string whose inside b starts with, or -1.
func closingQuote(b []byte) int {
	for i := 0; ; i++ {
		q := bytes.IndexByte(b[i:], '"')
		if q < 0 {
			return -1
		}
		i += q
		k := i
		for k > 0 && b[k-1] == '\\' {
			k--
		}
		if (i-k)%2 == 0 {
			return i
		}
	}
}

// cutPadding drops a last member "obfuscation" with a plain text value.
func cutPadding(tail []byte) []byte {
	if len(tail) < 2 || tail[len(tail)-1] != '}' || tail[len(tail)-2] != '"' {
		return tail
	}
	open := bytes.LastIndexByte(tail[:len(tail)-2], '"')
	if open < 0 || !bytes.HasSuffix(tail[:open+1], paddingKey) || bytes.IndexByte(tail[open:], '\\') >= 0 {
		return tail
	}
	return tail[:open+1-len(paddingKey)]
}
