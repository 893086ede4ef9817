package gateway

import (
	"strings"
	"unicode"
)

// nameBytes bounds what a client calls a model, an owner or a path where it is repeated in headers and rows.
const nameBytes = 256

// plainName is a caller's or provider's word as it may stand in a header: bounded, on one line, printable.
func plainName(s string) string {
	if len(s) > nameBytes {
		s = strings.ToValidUTF8(s[:nameBytes], "") + "…"
	}
	if strings.IndexFunc(s, unicode.IsControl) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}
