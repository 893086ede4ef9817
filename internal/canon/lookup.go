package canon

import "unicode/utf8"

// Lookup returns the value of the member that path leads to in a document in canonical form, nil if there is none.
// Names are ASCII without quote or backslash.
func Lookup(doc []byte, path ...string) []byte {
	for _, name := range path {
		if doc = field(doc, name); doc == nil {
			return nil
		}
	}
	return doc
}

func field(doc []byte, name string) []byte {
	if len(doc) < 3 || doc[0] != '{' {
		return nil
	}
	for i := 1; i < len(doc); {
		colon := skipString(doc, i)
		end := skipValue(doc, colon+1)
		if string(doc[i+1:colon-1]) == name {
			return doc[colon+1 : end]
		}
		i = end + 1
	}
	return nil
}

// AppendEscaped appends s as the inside of a canonical JSON string. A byte that is not UTF-8 becomes \xNN, which no
// JSON string holds, so that different strings stay different.
func AppendEscaped(dst []byte, s string) []byte {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, '\\', 'x', digit[s[i]>>4], digit[s[i]&15])
		} else {
			dst = appendRune(dst, r)
		}
		i += n
	}
	return dst
}

const digit = "0123456789abcdef"
