package idempotency

import (
	"bytes"
	"slices"
	"strings"
)

// credentials are the query parameters that carry a secret. They are never hashed, logged or stored (semantics 16, 45).
var credentials = [...]string{
	"key", "access_token", "api_key", "api-key", "apikey", "auth_token", "oauth_token", "subscription-key", "client_secret",
}

// Credential tells whether a query parameter of this name carries a secret.
func Credential(name string) bool {
	for _, c := range credentials {
		if strings.EqualFold(name, c) {
			return true
		}
	}
	return false
}

// Path is an escaped path spelled as in the canonical form, for those who compare paths: what needs no percent escape has
// none, dot segments are resolved (RFC 3986, 6.2.2).
func Path(escaped string) string { return string(appendPath(nil, escaped)) }

// appendPath appends the path so that equal ones are spelled equally (RFC 3986, 6.2.2): what needs no percent escape
// has none, the rest is in capitals, dot segments are resolved. A doubled or a trailing slash counts.
func appendPath(out []byte, path string) []byte {
	begin := len(out)
	for i := 0; i < len(path); i++ {
		c := path[i]
		if d, ok := unpercent(path, i); ok {
			i += 2
			if c = d; c == '/' { // an escaped slash is part of a name
				out = appendEscaped(out, c)
				continue
			}
		}
		if c == '/' || unreserved(c) || strings.IndexByte("!$&'()*+,;=:@", c) >= 0 {
			out = append(out, c)
		} else {
			out = appendEscaped(out, c)
		}
	}
	if bytes.Contains(out[begin:], []byte("/.")) {
		out = removeDots(out, begin)
	}
	return out
}

// removeDots is RFC 3986, 5.2.4, in place.
func removeDots(out []byte, begin int) []byte {
	rest, w := out[begin:], begin
	for len(rest) > 0 {
		n := bytes.IndexByte(rest[1:], '/') + 1
		if n == 0 {
			n = len(rest)
		}
		seg, last := rest[:n], n == len(rest)
		switch string(seg) {
		case "/..":
			w = begin + max(0, bytes.LastIndexByte(out[begin:w], '/'))
			fallthrough
		case "/.":
			if last {
				out[w] = '/'
				w++
			}
		default:
			w += copy(out[w:], seg)
		}
		rest = rest[n:]
	}
	return out[:w]
}

// pair is one parameter in scratch.query.
type pair struct{ start, name, end int }

// appendQuery writes the query without credentials: each name and value with only the escapes that it needs, sorted by
// name; values of one name keep their order. The result is valid until the next call.
func (s *scratch) appendQuery(query string) []byte {
	q, pairs := s.query[:0], s.pairs[:0]
	for query != "" {
		var param string
		if param, query, _ = strings.Cut(query, "&"); param == "" {
			continue
		}
		name, value, valued := strings.Cut(param, "=")
		p := pair{start: len(q)}
		q = appendParam(q, name)
		p.name = len(q)
		if Credential(string(q[p.start:p.name])) {
			q = q[:p.start]
			continue
		}
		if valued {
			q = appendParam(append(q, '='), value)
		}
		p.end = len(q)
		pairs = append(pairs, p)
	}
	slices.SortStableFunc(pairs, func(a, b pair) int {
		return bytes.Compare(q[a.start:a.name], q[b.start:b.name])
	})
	mark := len(q)
	for i, p := range pairs {
		if i > 0 {
			q = append(q, '&')
		}
		q = append(q, q[p.start:p.end]...)
	}
	s.query, s.pairs = q, pairs
	return q[mark:]
}

// appendParam decodes a name or value of a query and encodes it again.
func appendParam(out []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if d, ok := unpercent(s, i); ok {
			c = d
			i += 2
		} else if c == '+' {
			c = ' '
		}
		if unreserved(c) {
			out = append(out, c)
		} else {
			out = appendEscaped(out, c)
		}
	}
	return out
}

func appendEscaped(out []byte, c byte) []byte {
	const digits = "0123456789ABCDEF"
	return append(out, '%', digits[c>>4], digits[c&15])
}

// unpercent reads the percent escape at i.
func unpercent(s string, i int) (byte, bool) {
	if s[i] != '%' || i+2 >= len(s) {
		return 0, false
	}
	hi, lo := strings.IndexByte(hexDigits, s[i+1]), strings.IndexByte(hexDigits, s[i+2])
	if hi < 0 || lo < 0 {
		return 0, false
	}
	return byte(digit(hi)<<4 | digit(lo)), true
}

const hexDigits = "0123456789abcdefABCDEF"

// digit is the value of the hexadecimal digit at this place of hexDigits.
func digit(place int) int {
	if place > 15 {
		return place - 6
	}
	return place
}

// unreserved characters never need an escape (RFC 3986, 2.3).
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}
