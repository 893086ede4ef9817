package canon

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// string writes the string that begins at i. wide tells whether it needs more than its bytes to be compared.
func (e *Encoder) string(i int) (next int, wide bool, err error) {
	run := i // first byte not yet written
	i++
	for {
		if i = plain(e.src, i); i >= len(e.src) {
			return i, wide, e.fail(i, ErrSyntax)
		}
		switch c := e.src[i]; {
		case c == '"':
			e.dst = append(e.dst, e.src[run:i+1]...)
			return i + 1, wide, nil
		case c == '\\':
			e.dst = append(e.dst, e.src[run:i]...)
			if i, err = e.escape(i); err != nil {
				return i, wide, err
			}
			run, wide = i, true
		case c < ' ':
			return i, wide, e.fail(i, ErrSyntax)
		default:
			if i = runes(e.src, i); i < len(e.src) && e.src[i] >= utf8.RuneSelf {
				return i, wide, e.fail(i, ErrUTF8)
			}
			wide = true
		}
	}
}

// plain returns the index of the first byte from i on that is a quote, a backslash, a control or not ASCII.
func plain(s []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(s); i += 8 {
		w := binary.LittleEndian.Uint64(s[i:])
		quote, slash := w^ones*'"', w^ones*'\\'
		// Bit 7 of a byte is set where it is zero (quote, slash), below 0x20, or not ASCII; borrows only spoil
		// bytes above the first hit, which is the only one used.
		if hit := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*' ')&^w | w) & highs; hit != 0 {
			return i + bits.TrailingZeros64(hit)>>3
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c == '"' || c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
}

// runes returns the index behind the valid characters outside ASCII that stand at i.
func runes(s []byte, i int) int {
	for i < len(s) && s[i] >= utf8.RuneSelf {
		r, n := utf8.DecodeRune(s[i:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		i += n
	}
	return i
}

// escape writes the character whose escape begins at i the way RFC 8785, 3.2.2.2 does.
func (e *Encoder) escape(i int) (int, error) {
	if i+1 >= len(e.src) {
		return i, e.fail(i, ErrSyntax)
	}
	switch c := e.src[i+1]; c {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		e.dst = append(e.dst, '\\', c)
	case '/':
		e.dst = append(e.dst, '/')
	case 'u':
		return e.escapeU(i)
	default:
		return i, e.fail(i, ErrSyntax)
	}
	return i + 2, nil
}

func (e *Encoder) escapeU(i int) (int, error) {
	r, ok := hex4(e.src, i)
	if !ok {
		return i, e.fail(i, ErrSyntax)
	}
	next := i + 6
	if utf16.IsSurrogate(r) {
		low, _ := hex4(e.src, next)
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return i, e.fail(i, ErrSurrogate)
		}
		next += 6
	}
	e.dst = appendRune(e.dst, r)
	return next, nil
}

func appendRune(dst []byte, r rune) []byte {
	const short = "btn.fr" // from U+0008 on; U+000B has none
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r))
	case r >= '\b' && r <= '\r' && r != '\v':
		return append(dst, '\\', short[r-'\b'])
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
