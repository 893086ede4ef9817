package translate

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"
)

// value is one JSON value within a document that was checked as a whole, without space around it. Strings travel from
// one side to the other as they were written: what is never decoded is never damaged.
type value []byte

// parse checks a document and returns its value; nil says that it is not JSON in UTF-8.
func parse(doc []byte) value {
	if !utf8.Valid(doc) || !json.Valid(doc) {
		return nil
	}
	return bytes.TrimSpace(doc)
}

func (v value) is(first byte) bool { return len(v) > 0 && v[0] == first }

// set is false for what is absent, also if it is written as null.
func (v value) set() bool { return len(v) > 0 && v[0] != 'n' }

func (v value) number() bool { return len(v) > 0 && (v[0] == '-' || v[0] >= '0' && v[0] <= '9') }

// pairs yields the members of an object, their names as JSON strings; of anything else, nothing.
func (v value) pairs() iter.Seq2[value, value] {
	return func(yield func(value, value) bool) {
		if !v.is('{') {
			return
		}
		for i := space(v, 1); v[i] != '}'; {
			colon := skip(v, i)
			name := v[i:colon]
			i = space(v, space(v, colon)+1)
			end := skip(v, i)
			if !yield(name, v[i:end]) {
				return
			}
			i = next(v, end)
		}
	}
}

// members yields the members of an object, with their names decoded.
func (v value) members() iter.Seq2[string, value] {
	return func(yield func(string, value) bool) {
		for name, m := range v.pairs() {
			if !yield(name.text(), m) {
				return
			}
		}
	}
}

// items yields the elements of an array; of anything else, nothing.
func (v value) items() iter.Seq[value] {
	return func(yield func(value) bool) {
		if !v.is('[') {
			return
		}
		for i := space(v, 1); v[i] != ']'; {
			end := skip(v, i)
			if !yield(v[i:end]) {
				return
			}
			i = next(v, end)
		}
	}
}

// get is the member of that name, nil if there is none or it is null.
func (v value) get(path ...string) value {
	for _, name := range path {
		var found value
		if v.is('{') {
			found = v.member(name)
		}
		v = found
	}
	if !v.set() {
		return nil
	}
	return v
}

// member is the last member of that name of an object: pairs without its function, since all of reading an event goes through here.
func (v value) member(name string) (found value) {
	for i := space(v, 1); v[i] != '}'; {
		colon := skip(v, i)
		at := space(v, space(v, colon)+1)
		end := skip(v, at)
		if v[i:colon].reads(name) {
			found = v[at:end]
		}
		i = next(v, end)
	}
	return found
}

// reads reports whether a string says s.
func (v value) reads(s string) bool {
	inner := v[1 : len(v)-1]
	return string(inner) == s || bytes.IndexByte(inner, '\\') >= 0 && v.text() == s
}

// text decodes a string; of anything else it is "".
func (v value) text() string {
	if !v.is('"') {
		return ""
	}
	if inner := v[1 : len(v)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var s string
	_ = json.Unmarshal(v, &s)
	return s
}

// whole is false for a string with half a surrogate pair, which decoding would turn into another character.
func (v value) whole() bool {
	return !strings.ContainsRune(v.text(), utf8.RuneError) || bytes.ContainsRune(v, utf8.RuneError) ||
		bytes.Contains(bytes.ToLower(v), []byte(`\ufffd`))
}

// int is the value of a whole number, 0 of anything else. Counts above the range are cut to it.
func (v value) int() int64 {
	if n := len(v); n > 0 && n < 16 && bytes.IndexFunc(v, func(r rune) bool { return r < '0' || r > '9' }) < 0 {
		sum := int64(0)
		for _, digit := range v {
			sum = 10*sum + int64(digit-'0')
		}
		return sum
	}
	if f, err := strconv.ParseFloat(string(v), 64); err == nil && v.number() {
		return int64(max(min(f, 1<<53), -1<<53))
	}
	return 0
}

func (v value) float() float64 {
	f, _ := strconv.ParseFloat(string(v), 64)
	return f
}

// compact is the value without the space between its tokens.
func (v value) compact() value {
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return v
	}
	return b.Bytes()
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// next goes from the end of an element to the beginning of the next, or to the closing bracket.
func next(b []byte, i int) int {
	if i = space(b, i); b[i] == ',' {
		i = space(b, i+1)
	}
	return i
}

// skip is the end of the value that begins at i of a valid document.
func skip(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		for depth := 0; ; i++ {
			switch b[i] {
			case '"':
				i = skipString(b, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	for i < len(b) && (b[i] >= '0' && b[i] <= '9' || b[i] >= 'a' && b[i] <= 'z' || b[i] == '-' || b[i] == '+' || b[i] == '.' || b[i] == 'E') {
		i++
	}
	return i
}

// skipString is the end of the string that begins at i. A quote ends it unless an odd number of backslashes stands before it.
func skipString(b []byte, i int) int {
	for from := i + 1; ; {
		end := from + bytes.IndexByte(b[from:], '"')
		slashes := 0
		for b[end-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return end + 1
		}
		from = end + 1
	}
}

// doc is an object to write: names and values in turn. list is an array.
type (
	doc  []any
	list []any
)

func (d doc) bytes() []byte  { return appendJSON(nil, d) }
func (l list) bytes() []byte { return appendJSON(nil, l) }

// with adds a member unless the value is absent.
func (d doc) with(name string, v value) doc {
	if v == nil {
		return d
	}
	return append(d, name, v)
}

// quote is s as a JSON string.
func quote(s string) value { return appendString(nil, s) }

func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case doc:
		b = append(b, '{')
		for i := 0; i < len(v); i += 2 {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, v[i].(string))
			b = appendJSON(append(b, ':'), v[i+1])
		}
		return append(b, '}')
	case list:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, item)
		}
		return append(b, ']')
	case value:
		return append(b, v...)
	case string:
		return appendString(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case bool:
		return strconv.AppendBool(b, v)
	}
	return append(b, "null"...)
}

// appendString leaves < > & as they are: the text is JSON, not a page.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, '\\', 'n')
		case r < ' ':
			b = append(b, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

const hexDigits = "0123456789abcdef"
