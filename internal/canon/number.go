package canon

import (
	"bytes"
	"strconv"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// A numeral is a number as its source spells it; the slices share the source.
type numeral struct {
	negative  bool
	int, frac []byte // digits before and after the point
	exp       int64
}

// number writes the number that begins at i as ECMAScript's Number::toString would (RFC 8785, 3.2.2.3), from its
// decimal digits: no rounding, so that numbers differ whenever their values do.
func (e *Encoder) number(i int) int {
	start := i
	if e.at(i) == '-' {
		i++
	}
	first := i
	if i = digits(e.src, i); i == first || (e.src[first] == '0' && i > first+1) {
		return e.fail(first, ErrSyntax)
	}
	double := mutant.On("numbers-as-float64")
	if c := e.at(i); c != '.' && c|0x20 != 'e' && i-first <= 21 && e.src[first] != '0' && !double {
		return i // most numbers are canonical as they stand
	}
	n := numeral{negative: first > start, int: e.src[first:i]}
	if i = e.fraction(i, &n); i < 0 {
		return i
	}
	e.skip(start, i)
	if double {
		f, _ := strconv.ParseFloat(string(e.src[start:i]), 64)
		e.dst = strconv.AppendFloat(e.dst, f, 'g', -1, 64)
		return i
	}
	var ok bool
	if e.dst, ok = n.append(e.dst); !ok {
		return e.fail(start, ErrNumber)
	}
	return i
}

// fraction reads what follows the digits before the point.
func (e *Encoder) fraction(i int, n *numeral) int {
	if e.at(i) == '.' {
		dot := i + 1
		if i = digits(e.src, dot); i == dot {
			return e.fail(i, ErrSyntax)
		}
		n.frac = e.src[dot:i]
	}
	if e.at(i)|0x20 == 'e' {
		n.exp, i = e.exponent(i + 1)
	}
	return i
}

func digits(s []byte, i int) int {
	for i < len(s) && s[i]-'0' <= 9 {
		i++
	}
	return i
}

// exponent reads what follows the letter e.
func (e *Encoder) exponent(i int) (exp int64, next int) {
	negative := false
	if c := e.at(i); c == '+' || c == '-' {
		negative = c == '-'
		i++
	}
	next = digits(e.src, i)
	if next == i {
		return 0, e.fail(i, ErrSyntax)
	}
	d := bytes.TrimLeft(e.src[i:next], "0")
	if len(d) > 18 {
		return 0, e.fail(i, ErrNumber)
	}
	for _, c := range d {
		exp = exp*10 + int64(c-'0')
	}
	if negative {
		exp = -exp
	}
	return exp, next
}

// append writes the number's value. With k significant digits s and the value 0.s × 10^n, the cases are those of
// ECMA-262 Number::toString, steps 6 to 12. It reports false when the exponent of the form, unlike its spelling's,
// has more than 18 digits: a form must be its own form.
func (n *numeral) append(dst []byte) ([]byte, bool) {
	mark := len(dst)
	if n.negative {
		dst = append(dst, '-')
	}
	begin := len(dst)
	dst = append(append(dst, n.int...), n.frac...)
	all := dst[begin:]
	s := bytes.TrimLeft(all, "0")
	point := int64(len(n.int)) + n.exp - int64(len(all)-len(s))
	s = bytes.TrimRight(s, "0")
	if len(s) == 0 {
		return append(dst[:mark], '0'), true // also -0: equal numbers
	}
	k := int64(len(s))
	dst = dst[:begin+copy(all, s)]
	switch {
	case k <= point && point <= 21:
		return zeros(dst, point-k), true
	case 0 < point && point <= 21:
		return insert(dst, begin+int(point), "."), true
	case -6 < point && point <= 0:
		return insert(dst, begin, "0.00000"[:2-point]), true
	}
	if point > 1e18 || point <= -1e18+1 {
		return dst, false
	}
	if k > 1 {
		dst = insert(dst, begin+1, ".")
	}
	dst = append(dst, 'e')
	if point > 0 {
		dst = append(dst, '+')
	}
	return strconv.AppendInt(dst, point-1, 10), true
}

func zeros(dst []byte, n int64) []byte {
	for range n {
		dst = append(dst, '0')
	}
	return dst
}

// insert puts s into dst at i.
func insert(dst []byte, i int, s string) []byte {
	dst = append(dst, s...)
	copy(dst[i+len(s):], dst[i:])
	copy(dst[i:], s)
	return dst
}

// maxNumber bounds what is taken for a number's text.
const maxNumber = 64

// IsNumber says whether text is a number in canonical form: "7", but neither "07" nor "7.0", which may be two things to whoever
// wrote them.
func IsNumber(text []byte) bool {
	if len(text) == 0 || len(text) > maxNumber || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return false
	}
	var e Encoder
	var buf [2 * maxNumber]byte
	form, err := e.Append(buf[:0], text, nil)
	return err == nil && bytes.Equal(form, text)
}
