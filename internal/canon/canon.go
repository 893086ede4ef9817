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
	run      int      // what of src is not yet in dst: its bytes from here to the one being read, verbatim
	members  []member // of the objects open now, innermost last
	scratch  []byte
	moves    int // bytes that sorting may still move
	err      error
}

// member is one name and its value. Positions are those of dst, once what is pending has been written.
type member struct {
	start, value, end int  // of the opening quote, of the value, past the value
	wide              bool // the name holds an escape or a character outside ASCII
	text              bool // the value is a text, whose ends may be trimmed
}

const memberSize = int(unsafe.Sizeof(member{}))

// Append writes the canonical form of the one JSON value in src to dst, applying rule (nil: everything as it
// is) on the way. White space around the value is allowed, anything else is not. On error dst comes back as it was.
//
// The form is RFC 8785 but for numbers: those are written the same way (no needless zero, exponents from 1e21
// and below 1e-6), from their decimal digits and not from the nearest double. Thus 1000, 1e3 and 1000.0 are one number and
// 9007199254740993 and 9007199254740992 are two.
func (e *Encoder) Append(dst, src []byte, rule *Rule) ([]byte, error) {
	e.src, e.dst, e.run, e.members, e.err = src, dst, 0, e.members[:0], nil
	e.moves = 64<<10 + movesPerByte*len(src)
	depth := e.Depth
	if depth <= 0 {
		depth = DefaultDepth
	}
	i := e.value(e.space(0), rule, depth)
	if i >= 0 {
		if i = e.space(i); i != len(src) {
			i = e.fail(i, ErrSyntax)
		}
	}
	if i >= 0 {
		e.flush(i)
	}
	out, err := e.dst, e.err
	e.src, e.dst, e.err = nil, nil, nil
	if err != nil {
		return dst, err
	}
	return out, nil
}

// fail is the result of every step that cannot go on: an index that is none.
func (e *Encoder) fail(i int, err error) int {
	e.err = &Error{Offset: i, Err: err}
	return -1
}

// flush writes what is pending before i. Most of a document is canonical as it stands and is copied in long runs.
func (e *Encoder) flush(i int) {
	e.dst = append(e.dst, e.src[e.run:i]...)
	e.run = i
}

// skip leaves the bytes from i to j out.
func (e *Encoder) skip(i, j int) {
	e.flush(i)
	e.run = j
}

// pos is where the byte at i will stand in dst.
func (e *Encoder) pos(i int) int { return len(e.dst) + i - e.run }

// at is the byte at i, 0 past the end: a byte that is never right.
func (e *Encoder) at(i int) byte {
	if i < len(e.src) {
		return e.src[i]
	}
	return 0
}

// space returns the index of the first byte from i on that is not white space, and leaves out what it passes.
func (e *Encoder) space(i int) int {
	if i < len(e.src) && e.src[i] > ' ' {
		return i
	}
	return e.spaces(i)
}

// spaces is the rare part of space, apart so that the rest is inlined.
func (e *Encoder) spaces(i int) int {
	j := i
	for c := e.at(j); c == ' ' || c == '\n' || c == '\t' || c == '\r'; c = e.at(j) {
		j++
	}
	e.skip(i, j)
	return j
}

// value reads the value that begins at i and returns the index behind it.
func (e *Encoder) value(i int, rule *Rule, depth int) int {
	switch c := e.at(i); c {
	case '"':
		i, _ = e.string(i)
		return i
	case '{', '[':
		if depth == 0 {
			return e.fail(i, ErrDepth)
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

func (e *Encoder) literal(i int, word string) int {
	if len(e.src)-i < len(word) || string(e.src[i:i+len(word)]) != word {
		return e.fail(i, ErrSyntax)
	}
	return i + len(word)
}

func (e *Encoder) array(i int, rule *Rule, depth int) int {
	each := rule.each()
	if i = e.space(i + 1); e.at(i) == ']' {
		return i + 1
	}
	for {
		if i = e.value(i, each, depth); i < 0 {
			return i
		}
		i = e.space(i)
		switch e.at(i) {
		case ',':
			i = e.space(i + 1)
		case ']':
			return i + 1
		default:
			return e.fail(i, ErrSyntax)
		}
	}
}

func (e *Encoder) object(i int, rule *Rule, depth int) int {
	base := len(e.members)
	if i = e.space(i + 1); e.at(i) == '}' {
		return i + 1
	}
	open := e.pos(i)
	for mark := open; ; {
		if i = e.member(i, mark, rule, depth); i < 0 {
			return i
		}
		i = e.space(i)
		switch e.at(i) {
		case ',':
			if mark = e.pos(i); len(e.members) == base { // everything before it was left out
				e.skip(i, i+1)
			}
			i = e.space(i + 1)
		case '}':
			if !e.close(i, open, base, rule) {
				return -1
			}
			e.members = e.members[:base]
			return i + 1
		default:
			return e.fail(i, ErrSyntax)
		}
	}
}

// member reads one name and value. If the rule leaves it out, dst ends at mark.
func (e *Encoder) member(i, mark int, rule *Rule, depth int) int {
	if e.at(i) != '"' {
		return e.fail(i, ErrSyntax)
	}
	m := member{start: e.pos(i)}
	name, drop := i, false
	if i, m.wide = e.string(i); i < 0 {
		return i
	}
	var sub *Rule
	if rule != nil {
		sub, drop = rule.member(e.name(name, i, m.start))
		m.text = sub != nil && sub.Text
	}
	if i = e.space(i); e.at(i) != ':' {
		return e.fail(i, ErrSyntax)
	}
	i = e.space(i + 1)
	m.value = e.pos(i)
	if i = e.value(i, sub, depth); i < 0 {
		return i
	}
	m.end = e.pos(i)
	if drop || sub.others() {
		if e.flush(i); drop || emptied(e.dst[m.value:]) {
			e.dst = e.dst[:mark]
			return i
		}
	}
	e.members = append(e.members, m)
	return i
}

// name is the inside of the string from i to j of src as it is written: "\u006detadata" is metadata.
func (e *Encoder) name(i, j, start int) []byte {
	if e.run <= i {
		return e.src[i+1 : j-1]
	}
	e.flush(j)
	return e.dst[start+1 : len(e.dst)-1]
}

// Size is the memory, in bytes, that the encoder keeps for its next use.
func (e *Encoder) Size() int { return cap(e.scratch) + cap(e.members)*memberSize }
