package canon

import (
	"bytes"
	"cmp"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// movesPerByte bounds the work of sorting. Each unsorted level moves the bytes below it once more, so without
// a bound a short request of many levels could cost its size times its depth. Real documents stay
// under their mean depth, which is below ten.
const movesPerByte = 32

// close ends an object: it trims the object's texts, puts its members in order and finds those named twice.
func (e *Encoder) close(i, open, base int, rule *Rule) bool {
	members := e.members[base:]
	if len(members) < 2 && !rule.trims() {
		return true
	}
	e.flush(i)
	trimmed := rule.trims() && e.trim(members, rule)
	moved, unique := e.sort(members)
	if !unique {
		e.fail(i, ErrDuplicate)
		return false
	}
	if moved || trimmed {
		if e.moves -= len(e.dst) - open; e.moves < 0 {
			e.fail(i, ErrTangled)
			return false
		}
		e.rebuild(open, members)
	}
	return true
}

// few is how many members are sorted by insertion, which is fastest for objects as programs write them.
const few = 12

// sort orders the members by name and tells whether any moved and whether the names are all different.
func (e *Encoder) sort(members []member) (moved, unique bool) {
	for k := 1; k < len(members); k++ {
		c := e.compare(&members[k-1], &members[k])
		if c == 0 {
			return moved, false
		}
		if c < 0 {
			continue
		}
		moved = true
		if len(members) > few {
			slices.SortFunc(members, func(a, b member) int { return e.compare(&a, &b) })
			return moved, e.unique(members)
		}
		m, j := members[k], k-1
		for ; j > 0; j-- {
			if c = e.compare(&members[j-1], &m); c <= 0 {
				break
			}
		}
		if c == 0 {
			return moved, false
		}
		copy(members[j+1:k+1], members[j:k])
		members[j] = m
	}
	return moved, true
}

func (e *Encoder) unique(members []member) bool {
	for k := 1; k < len(members); k++ {
		if e.compare(&members[k-1], &members[k]) == 0 {
			return false
		}
	}
	return true
}

// rebuild writes the members of an object, whose first began at open, again in the order given.
func (e *Encoder) rebuild(open int, members []member) {
	s := e.scratch[:0]
	for k := range members {
		if k > 0 {
			s = append(s, ',')
		}
		s = append(s, e.dst[members[k].start:members[k].end]...)
	}
	e.dst = append(e.dst[:open], s...)
	e.scratch = s
}

// compare orders names by UTF-16 code units (RFC 8785, 3.2.3). For ASCII names that is the order of their bytes.
func (e *Encoder) compare(a, b *member) int {
	x, y := e.dst[a.start+1:a.value-2], e.dst[b.start+1:b.value-2]
	if !a.wide && !b.wide {
		return bytes.Compare(x, y)
	}
	for len(x) > 0 && len(y) > 0 {
		var r, s rune
		r, x = unescape(x)
		s, y = unescape(y)
		if r != s {
			return cmp.Compare(unit(r), unit(s))
		}
	}
	return cmp.Compare(len(x), len(y))
}

// unit maps a character to a number that sorts as its first UTF-16 code unit does, and breaks ties between
// characters that share it.
func unit(r rune) int {
	if r <= 0xFFFF {
		return int(r) << 16
	}
	hi, lo := utf16.EncodeRune(r)
	return int(hi)<<16 | int(lo)
}

// unescape reads one character of a string in canonical form.
func unescape(s []byte) (rune, []byte) {
	if s[0] != '\\' {
		r, n := utf8.DecodeRune(s)
		return r, s[n:]
	}
	switch s[1] {
	case 'b':
		return '\b', s[2:]
	case 't':
		return '\t', s[2:]
	case 'n':
		return '\n', s[2:]
	case 'f':
		return '\f', s[2:]
	case 'r':
		return '\r', s[2:]
	case 'u': // only \u00XX is ever written
		return rune(hex(s[4]))<<4 | rune(hex(s[5])), s[6:]
	default:
		return rune(s[1]), s[2:]
	}
}
