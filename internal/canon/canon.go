// Package canon writes JSON in its one canonical form: RFC 8785 with every digit of its numbers kept.
package canon

import (
	"errors"
	"fmt"
	"unsafe"
)

// Why a document has no canonical form. Match with errors.Is; the error itself is an [*Error].
var (
	ErrSyntax    = errors.New("not JSON")
	ErrUTF8      = errors.New("invalid UTF-8")
	ErrSurrogate = errors.New("escape of half a surrogate pair")
	ErrDuplicate = errors.New("member named twice in one object")
	ErrNumber    = errors.New("exponent of more than 18 digits")
	ErrDepth     = errors.New("nested too deeply")
	ErrTangled   = errors.New("too costly to sort")
)

// Error says where a document stopped being one that has a canonical form. It quotes nothing of the document.
type Error struct {
	Offset int // in the source, in bytes
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("canon: byte %d: %v", e.Offset, e.Err) }

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Err }

// DefaultDepth bounds nesting where [Encoder.Depth] is zero.
const DefaultDepth = 128

// An Encoder writes canonical forms. The zero value is ready; it keeps its buffers, so a reused one does not
// allocate. It is not safe for concurrent use.
type Encoder struct {
	Depth int // nesting allowed; 0 = DefaultDepth

	src, dst []byte
	members  []member // of the objects open now, innermost last
	scratch  []byte
	moves    int // bytes that sorting may still move
}

// member is one name and its value, as written to dst.
type member struct {
	start, value, end int   // of the opening quote, of the value, past the value
	wide              bool  // the name holds an escape or a character outside ASCII
	rule              *Rule // of the value
}

const memberSize = int(unsafe.Sizeof(member{}))

// Append writes the canonical form of the one JSON value in src to dst, applying rule (nil: everything as it
// is) on the way. White space around the value is allowed, anything else is not. On error dst comes back as it was.
//
// The form is RFC 8785 but for numbers: those are written the same way (no needless zero, exponents from 1e21
// and below 1e-6), from their decimal digits and not from the nearest double. Thus 1000, 1e3 and 1000.0 are one number and
// 9007199254740993 and 9007199254740992 are two.
func (e *Encoder) Append(dst, src []byte, rule *Rule) ([]byte, error) {
	e.src, e.dst, e.members = src, dst, e.members[:0]
	e.moves = 64<<10 + movesPerByte*len(src)
	depth := e.Depth
	if depth <= 0 {
		depth = DefaultDepth
	}
	i, err := e.value(e.space(0), rule, depth)
	if err == nil {
		if i = e.space(i); i != len(src) {
			err = e.fail(i, ErrSyntax)
		}
	}
	out := e.dst
	e.src, e.dst = nil, nil
	if err != nil {
		return dst, err
	}
	return out, nil
}

// Append is [Encoder.Append] for one document, without rules.
func Append(dst, src []byte) ([]byte, error) {
	var e Encoder
	return e.Append(dst, src, nil)
}

func (e *Encoder) fail(i int, err error) error { return &Error{Offset: i, Err: err} }

// space returns the index of the first byte from i on that is not white space.
func (e *Encoder) space(i int) int {
	for i < len(e.src) {
		if c := e.src[i]; c > ' ' || (c != ' ' && c != '\n' && c != '\t' && c != '\r') {
			break
		}
		i++
	}
	return i
}

// value writes the value that begins at i and returns the index behind it.
func (e *Encoder) value(i int, rule *Rule, depth int) (int, error) {
	if i >= len(e.src) {
		return i, e.fail(i, ErrSyntax)
	}
	switch c := e.src[i]; c {
	case '"':
		i, _, err := e.string(i)
		return i, err
	case '{', '[':
		if depth == 0 {
			return i, e.fail(i, ErrDepth)
		}
		if c == '{' {
			return e.object(i, rule, depth-1)
		}
		return e.array(i, rule, depth-1)
	case 't':
		return e.literal(i, "true")
	case 'f':
		return e.literal(i, "false")
	case 'n':
		return e.literal(i, "null")
	default:
		return e.number(i)
	}
}

func (e *Encoder) literal(i int, word string) (int, error) {
	if len(e.src)-i < len(word) || string(e.src[i:i+len(word)]) != word {
		return i, e.fail(i, ErrSyntax)
	}
	e.dst = append(e.dst, word...)
	return i + len(word), nil
}

func (e *Encoder) array(i int, rule *Rule, depth int) (int, error) {
	each := rule.each()
	e.dst = append(e.dst, '[')
	if i = e.space(i + 1); i < len(e.src) && e.src[i] == ']' {
		e.dst = append(e.dst, ']')
		return i + 1, nil
	}
	for {
		var err error
		if i, err = e.value(i, each, depth); err != nil {
			return i, err
		}
		if i = e.space(i); i >= len(e.src) {
			return i, e.fail(i, ErrSyntax)
		}
		switch e.src[i] {
		case ',':
			e.dst = append(e.dst, ',')
			i = e.space(i + 1)
		case ']':
			e.dst = append(e.dst, ']')
			return i + 1, nil
		default:
			return i, e.fail(i, ErrSyntax)
		}
	}
}

func (e *Encoder) object(i int, rule *Rule, depth int) (int, error) {
	open, base := len(e.dst), len(e.members)
	e.dst = append(e.dst, '{')
	if i = e.space(i + 1); i < len(e.src) && e.src[i] == '}' {
		e.dst = append(e.dst, '}')
		return i + 1, nil
	}
	for {
		var err error
		if i, err = e.member(i, base, rule, depth); err != nil {
			return i, err
		}
		if i = e.space(i); i >= len(e.src) {
			return i, e.fail(i, ErrSyntax)
		}
		switch e.src[i] {
		case ',':
			i = e.space(i + 1)
		case '}':
			err := e.close(i, open, base, rule)
			e.members = e.members[:base]
			return i + 1, err
		default:
			return i, e.fail(i, ErrSyntax)
		}
	}
}

// member writes one name and value, unless the rule leaves it out.
func (e *Encoder) member(i, base int, rule *Rule, depth int) (int, error) {
	mark := len(e.dst)
	if len(e.members) > base {
		e.dst = append(e.dst, ',')
	}
	if i >= len(e.src) || e.src[i] != '"' {
		return i, e.fail(i, ErrSyntax)
	}
	m := member{start: len(e.dst)}
	i, wide, err := e.string(i)
	if err != nil {
		return i, err
	}
	// The name is looked up as it was written, not as it came: "\u006detadata" is metadata.
	sub, drop := rule.member(e.dst[m.start+1 : len(e.dst)-1])
	if i = e.space(i); i >= len(e.src) || e.src[i] != ':' {
		return i, e.fail(i, ErrSyntax)
	}
	e.dst = append(e.dst, ':')
	m.value, m.wide, m.rule = len(e.dst), wide, sub
	if i, err = e.value(e.space(i+1), sub, depth); err != nil {
		return i, err
	}
	if m.end = len(e.dst); drop || sub.emptied(e.dst[m.value:m.end]) {
		e.dst = e.dst[:mark]
		return i, nil
	}
	e.members = append(e.members, m)
	return i, nil
}

// Size is the memory, in bytes, that the encoder keeps for its next use.
func (e *Encoder) Size() int { return cap(e.scratch) + cap(e.members)*memberSize }
