package gateway

import "bytes"

// deeper says that a JSON document nests more than limit levels. A body that is no JSON document has no depth.
func deeper(body []byte, limit int) bool {
	text := bytes.TrimLeft(body, "\ufeff \t\r\n")
	if len(text) == 0 || text[0] != '{' && text[0] != '[' || bytes.Count(text, []byte("{"))+bytes.Count(text, []byte("[")) <= limit {
		return false
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = stringEnd(text, i+1)
		case '{', '[':
			if depth++; depth > limit {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
}

// stringEnd is the place of the quotation mark that ends the string from i on, or the end of text.
func stringEnd(text []byte, i int) int {
	for i < len(text) {
		n := bytes.IndexAny(text[i:], `"\`)
		if n < 0 {
			return len(text)
		}
		if i += n; text[i] == '"' {
			return i
		}
		i += 2
	}
	return i
}
