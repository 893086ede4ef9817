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
func (e *Encoder) number(i int) (int, error) {
	var n numeral
	start := i
	if i < len(e.src) && e.src[i] == '-' {
		n.negative = true
		i++
	}
	first := i
	if i = digits(e.src, i); i == first || (e.src[first] == '0' && i > first+1) {
		return i, e.fail(first, ErrSyntax)
	}
	n.int = e.src[first:i]
	if i < len(e.src) && e.src[i] == '.' {
		dot := i + 1
		if i = digits(e.src, dot); i == dot {
			return i, e.fail(i, ErrSyntax)
		}
		n.frac = e.src[dot:i]
	}
	if i < len(e.src) && e.src[i]|0x20 == 'e' {
		var err error
		if n.exp, i, err = e.exponent(i + 1); err != nil {
			return i, err
		}
	} else if len(n.frac) == 0 && len(n.int) <= 21 && n.int[0] != '0' {
		e.dst = append(e.dst, e.src[start:i]...) // most numbers are written as they came
		return i, nil
	}
	if mutant.On("numbers-as-float64") {
		f, _ := strconv.ParseFloat(string(e.src[start:i]), 64)
		e.dst = strconv.AppendFloat(e.dst, f, 'g', -1, 64)
		return i, nil
	}
	e.dst = n.append(e.dst)
	return i, nil
}

func digits(s []byte, i int) int {
	for i < len(s) && s[i]-'0' <= 9 {
		i++
	}
	return i
}

// exponent reads what follows the letter e.
func (e *Encoder) exponent(i int) (exp int64, next int, err error) {
	negative := false
	if i < len(e.src) && (e.src[i] == '+' || e.src[i] == '-') {
		negative = e.src[i] == '-'
		i++
	}
	next = digits(e.src, i)
	if next == i {
		return 0, i, e.fail(i, ErrSyntax)
	}
	d := bytes.TrimLeft(e.src[i:next], "0")
	if len(d) > 18 {
		return 0, i, e.fail(i, ErrNumber)
	}
	for _, c := range d {
		exp = exp*10 + int64(c-'0')
	}
	if negative {
		exp = -exp
	}
	return exp, next, nil
}

// append writes the number's value. With k significant digits s and the value 0.s × 10^n, the cases are those of
// ECMA-262 Number::toString, steps 6 to 12.
func (n *numeral) append(dst []byte) []byte {
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
		return append(dst[:mark], '0') // also -0: equal numbers
	}
	k := int64(len(s))
	dst = dst[:begin+copy(all, s)]
	switch {
	case k <= point && point <= 21:
		return zeros(dst, point-k)
	case 0 < point && point <= 21:
		return insert(dst, begin+int(point), ".")
	case -6 < point && point <= 0:
		return insert(dst, begin, "0.00000"[:2-point])
	}
	if k > 1 {
		dst = insert(dst, begin+1, ".")
	}
	dst = append(dst, 'e')
	if point > 0 {
		dst = append(dst, '+')
	}
	return strconv.AppendInt(dst, point-1, 10)
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
