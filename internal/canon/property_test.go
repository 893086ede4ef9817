package canon_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/holdfast-ai/holdfast/internal/canon"
)

// node is a JSON value that can be written in many ways.
type node struct {
	kind    byte // { [ " 0 t
	names   []string
	items   []*node
	text    string // of a string or a literal
	mant    int64  // of a number: mant × 10^exp
	exp     int
	literal string
}

// top is the depth of whole documents, which are objects and arrays.
const top = 4

func genNode(depth int) *rapid.Generator[*node] {
	return rapid.Custom(func(t *rapid.T) *node {
		kinds := []byte(`"0t{[`)
		switch depth {
		case 0:
			kinds = kinds[:3]
		case top:
			kinds = kinds[3:]
		}
		n := &node{kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
		switch n.kind {
		case '{':
			n.names = rapid.SliceOfNDistinct(rapid.OneOf(rapid.StringN(0, 3, 9), rapid.SampledFrom([]string{"a", "b", "é", "\U0001f600", "\ufb33", "\x00", `"`})), 0, 6, rapid.ID[string]).Draw(t, "names")
			for range n.names {
				n.items = append(n.items, genNode(depth-1).Draw(t, "value"))
			}
		case '[':
			n.items = rapid.SliceOfN(genNode(depth-1), 0, 4).Draw(t, "items")
		case '"':
			n.text = rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("\"\\/\b\n\x1f\u2028aé\U0001f600")))).Draw(t, "text")
		case '0':
			n.mant = rapid.OneOf(rapid.Int64(), rapid.Int64Range(-1200, 1200)).Draw(t, "mantissa")
			n.exp = rapid.IntRange(-30, 30).Draw(t, "exponent")
		default:
			n.literal = rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "literal")
		}
		return n
	})
}

// write spells the value as t draws it.
func (n *node) write(t *rapid.T, b *strings.Builder) {
	space := func() { b.WriteString(rapid.SampledFrom([]string{"", "", " ", "\n\t", "\r\n"}).Draw(t, "space")) }
	space()
	defer space()
	switch n.kind {
	case '{':
		order := make([]int, len(n.names))
		for i := range order {
			order[i] = i
		}
		b.WriteByte('{')
		for k, i := range rapid.Permutation(order).Draw(t, "order") {
			if k > 0 {
				b.WriteByte(',')
			}
			space()
			writeString(t, b, n.names[i])
			space()
			b.WriteByte(':')
			n.items[i].write(t, b)
		}
		space()
		b.WriteByte('}')
	case '[':
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.write(t, b)
		}
		space()
		b.WriteByte(']')
	case '"':
		writeString(t, b, n.text)
	case '0':
		n.writeNumber(t, b)
	default:
		b.WriteString(n.literal)
	}
}

func writeString(t *rapid.T, b *strings.Builder, s string) {
	b.WriteByte('"')
	style := rapid.IntRange(0, 2).Draw(t, "escapes") // as few as possible, hexadecimal, capital
	for _, r := range s {
		switch {
		case style > 0 && rapid.Bool().Draw(t, "escape"):
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(b, []string{"", `\u%04x`, `\u%04X`}[style], u)
			}
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '/' && style > 0:
			b.WriteString(`\/`)
		case r == '\n':
			b.WriteString(`\n`)
		case r < ' ':
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}

// writeNumber moves powers of ten between mantissa and exponent.
func (n *node) writeNumber(t *rapid.T, b *strings.Builder) {
	shift := rapid.IntRange(-4, 4).Draw(t, "shift")
	digits, sign := strconv.FormatInt(n.mant, 10), ""
	if digits[0] == '-' {
		digits, sign = digits[1:], "-"
	}
	b.WriteString(sign)
	switch {
	case shift < 0 && len(digits) > -shift:
		cut := len(digits) + shift
		b.WriteString(digits[:cut] + "." + digits[cut:])
	case shift < 0:
		shift = 0
		b.WriteString(digits + ".000")
	case digits == "0":
		b.WriteString("0.0")
	default:
		b.WriteString(digits + strings.Repeat("0", shift))
	}
	if e := n.exp - shift; e != 0 || rapid.Bool().Draw(t, "bare") {
		fmt.Fprintf(b, rapid.SampledFrom([]string{"e%d", "E%+d", "e%+03d"}).Draw(t, "exponent form"), e)
	}
}

func (n *node) spell(t *rapid.T) string {
	var b strings.Builder
	n.write(t, &b)
	return b.String()
}

// change makes another value of n.
func (n *node) change(t *rapid.T) {
	if len(n.items) > 0 && rapid.Bool().Draw(t, "below") {
		n.items[rapid.IntRange(0, len(n.items)-1).Draw(t, "which")].change(t)
		return
	}
	switch {
	case n.kind == '{' && len(n.items) > 0 && rapid.Bool().Draw(t, "remove"):
		n.names, n.items = n.names[1:], n.items[1:]
	case n.kind == '{':
		name := "new"
		for slices.Contains(n.names, name) {
			name += "!"
		}
		n.names = append(n.names, name)
		n.items = append(n.items, &node{kind: 't', literal: "null"})
	case n.kind == '[':
		n.items = append(n.items, &node{kind: 't', literal: "null"})
	case n.kind == '"':
		n.text += rapid.SampledFrom([]string{" ", "x", "\u0301", "\u200b", "\\"}).Draw(t, "suffix")
	case n.kind == '0' && n.mant == 0:
		n.mant = 1
	case n.kind == '0' && rapid.Bool().Draw(t, "magnitude"):
		n.exp++
	case n.kind == '0':
		n.mant ^= 1 // the last digit: past 2^53 a double would not see it
	default:
		*n = node{kind: '"', text: n.literal}
	}
}

func form(t *rapid.T, src string) string {
	out, err := canon.Append(nil, []byte(src))
	if err != nil {
		t.Fatalf("%q: %v", src, err)
	}
	return string(out)
}

// However a value is spelled, its form is one.
func TestSpellingDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := genNode(top).Draw(t, "value")
		a, b := n.spell(t), n.spell(t)
		if x, y := form(t, a), form(t, b); x != y {
			t.Fatalf("%s\n%s\n%s\n%s", a, b, x, y)
		}
	})
}

// Any change of the value changes its form.
func TestEveryValueMatters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := genNode(top).Draw(t, "value")
		before := n.spell(t)
		n.change(t)
		after := n.spell(t)
		if x, y := form(t, before), form(t, after); x == y {
			t.Fatalf("%s\n%s\nare both %s", before, after, x)
		}
	})
}
