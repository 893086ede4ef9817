package sim

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// doc is a JSON object as name, value, name, value, …: the providers' members keep their order.
type doc []any

// list is a JSON array.
type list []any

// raw is JSON that is ready.
type raw []byte

func (d doc) bytes() []byte { return appendJSON(nil, d) }

func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case doc:
		b = append(b, '{')
		for i := 0; i+1 < len(v); i += 2 {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, v[i])
			b = append(b, ':')
			b = appendJSON(b, v[i+1])
		}
		return append(b, '}')
	case list:
		b = append(b, '[')
		for i := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, v[i])
		}
		return append(b, ']')
	case raw:
		return append(b, v...)
	case string:
		return appendString(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case bool:
		return strconv.AppendBool(b, v)
	case nil:
		return append(b, "null"...)
	}
	out, err := json.Marshal(v)
	if err != nil {
		panic("sim: " + err.Error()) // only this package's own values come here
	}
	return append(b, out...)
}

// appendString quotes by RFC 8259 without escaping HTML, which no provider does.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += n
			continue
		}
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\r':
			b = append(b, '\\', 'r')
		case c == '\t':
			b = append(b, '\\', 't')
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
		i++
	}
	return append(b, '"')
}
