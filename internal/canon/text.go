package canon

import "bytes"

// trim cuts the white space off the ends of an object's texts, within the range of each member, and tells
// whether it cut anything. It runs when the object ends, because the role may stand behind the text.
func (e *Encoder) trim(members []member, rule *Rule) (cut bool) {
	if !e.speaks(members, rule) {
		return false
	}
	for k := range members {
		if m := &members[k]; m.text {
			before := m.end
			first, last := texts(e.dst, m.value, m.end)
			// The end first: cutting the beginning moves everything behind it.
			if last >= 0 {
				e.cutEnd(m, last)
			}
			if first >= 0 {
				e.cutStart(m, first)
			}
			cut = cut || m.end != before
		}
	}
	return cut
}

// speaks tells whether the object's role is one that the rule names.
func (e *Encoder) speaks(members []member, rule *Rule) bool {
	if rule.Roles == nil {
		return true
	}
	role := []byte(`""`)
	for k := range members {
		if m := &members[k]; string(e.dst[m.start:m.value]) == `"role":` {
			role = e.dst[m.value:m.end]
		}
	}
	if role[0] != '"' {
		return false
	}
	for _, r := range rule.Roles {
		if r == string(role[1:len(role)-1]) {
			return true
		}
	}
	return false
}

// texts returns where the first string of the text from i to end begins and where its last one ends, at their quotes;
// -1 where that end of the text is no string (an image, an empty list).
func texts(s []byte, i, end int) (first, last int) {
	switch s[i] {
	case '"':
		return i, end - 1
	case '[':
		if s[i+1] == ']' {
			return -1, -1
		}
		i++
		first = part(s, i)
		for {
			last = i
			if i = skipValue(s, i); s[i] == ']' {
				break
			}
			i++
		}
		if last = part(s, last); last >= 0 {
			last = skipString(s, last) - 1
		}
		return first, last
	default:
		return -1, -1
	}
}

// part returns where the string of the part at i begins, -1 if it has none.
func part(s []byte, i int) int {
	if s[i] != '{' || s[i+1] == '}' {
		return -1
	}
	for {
		i++
		name := i
		i = skipValue(s, i) + 1
		if string(s[name:i]) == `"text":` {
			if s[i] == '"' {
				return i
			}
			return -1
		}
		if i = skipValue(s, i); s[i] == '}' {
			return -1
		}
	}
}

// skipValue returns the index behind the value at i of a document in canonical form.
func skipValue(s []byte, i int) int {
	for depth := 0; ; {
		switch s[i] {
		case '"':
			i = skipString(s, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default:
			i++
			if depth == 0 && !scalarEnd(s[i]) {
				continue
			}
		}
		if depth == 0 {
			return i
		}
	}
}

func scalarEnd(c byte) bool { return c == ',' || c == ']' || c == '}' || c == ':' }

func skipString(s []byte, i int) int {
	for i++; ; i++ {
		i += bytes.IndexByte(s[i:], '"')
		if !escaped(s, i) {
			return i + 1
		}
	}
}

// escaped tells whether the byte at i of a string stands behind an odd number of backslashes.
func escaped(s []byte, i int) bool {
	n := 0
	for s[i-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// cutEnd cuts trailing white space off the string that ends at the quote at end, a part of m.
func (e *Encoder) cutEnd(m *member, end int) {
	j := end
	for {
		switch c := e.dst[j-1]; {
		case c == ' ':
			j--
			continue
		case (c == 'n' || c == 't' || c == 'r') && escaped(e.dst, j-1):
			j -= 2
			continue
		}
		break
	}
	e.cut(m, j, end)
}

// cutStart cuts leading white space off the string at i, a part of m.
func (e *Encoder) cutStart(m *member, i int) {
	j := i + 1
	for {
		switch c := e.dst[j]; {
		case c == ' ':
			j++
			continue
		case c == '\\' && (e.dst[j+1] == 'n' || e.dst[j+1] == 't' || e.dst[j+1] == 'r'):
			j += 2
			continue
		}
		break
	}
	e.cut(m, i+1, j)
}

// cut takes the bytes from i to j out of m; what follows m stays where it is.
func (e *Encoder) cut(m *member, i, j int) {
	copy(e.dst[i:m.end], e.dst[j:m.end])
	m.end -= j - i
}
