package canon

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// string reads the string that begins at i. wide tells whether it needs more than its bytes to be compared.
func (e *Encoder) string(i int) (next int, wide bool) {
	for i++; i >= 0; {
		i = plain(e.src, i)
		c := e.at(i)
		if c == '"' {
			return i + 1, wide
		}
		switch {
		case c == '\\':
			wide = true
			if short[e.at(i+1)] {
				i += 2
			} else {
				i = e.escape(i)
			}
		case c < ' ':
			i = e.fail(i, ErrSyntax)
		default:
			wide = true
			if i = runes(e.src, i); e.at(i) >= utf8.RuneSelf {
				i = e.fail(i, ErrUTF8)
			}
		}
	}
	return i, wide
}

// short are the letters of escapes that are canonical as they stand (RFC 8785, 3.2.2.2).
var short = [256]bool{'"': true, '\\': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

const ones, highs = 0x0101010101010101, 0x8080808080808080

// special marks, in bit 7 of each byte of w, the first byte that is a quote, a backslash, a control or not ASCII;
// what it marks above that byte means nothing, because borrows run upwards.
func special(w uint64) uint64 {
	quote, slash := w^ones*'"', w^ones*'\\'
	return ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*' ')&^w | w) & highs
}

// plain returns the index of the first byte from i on that is special.
func plain(s []byte, i int) int {
	p := s[i:]
	for len(p) >= 16 {
		a, b := special(binary.LittleEndian.Uint64(p)), special(binary.LittleEndian.Uint64(p[8:]))
		if a|b != 0 {
			if a == 0 {
				a, p = b, p[8:]
			}
			return len(s) - len(p) + bits.TrailingZeros64(a)>>3
		}
		p = p[16:]
	}
	for k, c := range p {
		if c == '"' || c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			return len(s) - len(p) + k
		}
	}
	return len(s)
}

// runes returns the index behind the valid characters outside ASCII that stand at i.
func runes(s []byte, i int) int {
	for i < len(s) && s[i] >= utf8.RuneSelf {
		// Two and three bytes, where any continuation will do (Unicode, table 3-7), are nearly all there is.
		switch c := s[i]; {
		case 0xC2 <= c && c <= 0xDF && i+1 < len(s) && s[i+1]&0xC0 == 0x80:
			i += 2
		case 0xE1 <= c && c <= 0xEF && c != 0xED && i+2 < len(s) && s[i+1]&0xC0 == 0x80 && s[i+2]&0xC0 == 0x80:
			i += 3
		default:
			r, n := utf8.DecodeRune(s[i:])
			if r == utf8.RuneError && n == 1 {
				return i
			}
			i += n
		}
	}
	return i
}

// escape rewrites the escape that begins at i.
func (e *Encoder) escape(i int) int {
	switch e.at(i + 1) {
	case '/':
		e.skip(i, i+1)
		return i + 2
	case 'u':
	default:
		return e.fail(i, ErrSyntax)
	}
	r, ok := hex4(e.src, i)
	if !ok {
		return e.fail(i, ErrSyntax)
	}
	next := i + 6
	if utf16.IsSurrogate(r) {
		low, _ := hex4(e.src, next)
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return e.fail(i, ErrSurrogate)
		}
		next += 6
	}
	e.skip(i, next)
	e.dst = appendRune(e.dst, r)
	return next
}

func appendRune(dst []byte, r rune) []byte {
	const letters = "btn.fr" // from U+0008 on; U+000B has none
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r))
	case r >= '\b' && r <= '\r' && r != '\v':
		return append(dst, '\\', letters[r-'\b'])
	case r < ' ':
		return append(dst, '\\', 'u', '0', '0', digit[r>>4], digit[r&15])
	default:
		return utf8.AppendRune(dst, r)
	}
}

// hex4 reads \uXXXX at i.
func hex4(s []byte, i int) (rune, bool) {
	if len(s)-i < 6 || s[i] != '\\' || s[i+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range s[i+2 : i+6] {
		d := hex(c)
		if d > 15 {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}

// hex is the value of a hexadecimal digit, 255 if it is none.
func hex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	default:
		return 255
	}
}
