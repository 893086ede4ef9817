// Package jsonarray finds the elements of a top-level JSON array as its bytes arrive.
//
// Gemini's streamGenerateContent without alt=sse answers so. The scanner looks only for the ends of strings and
// brackets; a top-level object in place of the array counts as one element, because an error may come so.
package jsonarray

import (
	"bytes"
	"fmt"

	"github.com/holdfast-ai/holdfast/internal/sse"
)

// keepCap is how much scratch memory a scanner keeps between elements.
const keepCap = 64 << 10

// Scanner turns chunks into elements. The zero value is ready for use; it is not safe for concurrent use.
type Scanner struct {
	// Max bounds the bytes of one element; 0 is sse.DefaultMax.
	Max int

	err    error
	buf    []byte // the element so far, if it began in an earlier chunk
	off    int64  // of the next byte to come
	start  int64  // end of the last element: commas and white space belong to the element after them
	depth  int    // open brackets within the element
	state  state
	array  bool  // a top-level [ came
	closed int64 // offset after its ], 0 until it came
}

type state uint8

const (
	between state = iota // before, after and between elements
	nested               // in an object or array
	text                 // in a string
	escape               // after a backslash in a string
	scalar               // in a number or literal
)

// Closed reports whether the array's closing bracket has come.
func (s *Scanner) Closed() bool { return s.closed > 0 }

// Bracket returns the offset after the closing bracket, 0 until it has come.
func (s *Scanner) Bracket() int64 { return s.closed }

// Offset is the number of bytes fed so far.
func (s *Scanner) Offset() int64 { return s.off }

// Pending returns the start of an element that has not ended. It is valid until the next call.
func (s *Scanner) Pending() []byte { return s.buf }

// Feed scans p and calls fn for each element that ends in it: its bytes, valid only during the call, and its
// place in the stream, which begins where the element before it ended. An error of fn, or one that wraps
// sse.ErrTooLarge, ends the scanner.
func (s *Scanner) Feed(p []byte, fn func(data []byte, start, end int64) error) error {
	if s.err == nil {
		s.err = s.scan(p, fn)
		s.off += int64(len(p))
	}
	return s.err
}

func (s *Scanner) scan(p []byte, fn func(data []byte, start, end int64) error) error {
	from := 0 // where the element starts in p
	for i := 0; i < len(p); {
		if s.state == between {
			if i = s.begin(p, i); s.state == between {
				return nil
			}
			from = i
		}
		end, done := s.within(p, i)
		if end-from+len(s.buf) > s.max() {
			return fmt.Errorf("jsonarray: element at byte %d: %w", s.start, sse.ErrTooLarge)
		}
		if !done {
			s.buf = append(s.buf, p[from:]...)
			return nil
		}
		if err := s.emit(p[from:end], s.off+int64(end), fn); err != nil {
			return err
		}
		i, from = end, end
	}
	return nil
}

func (s *Scanner) max() int {
	if s.Max > 0 {
		return s.Max
	}
	return sse.DefaultMax
}

func (s *Scanner) emit(data []byte, end int64, fn func(data []byte, start, end int64) error) error {
	s.state = between
	if len(s.buf) > 0 {
		s.buf = append(s.buf, data...)
		data = s.buf
	}
	start := s.start
	s.start = end
	err := fn(data, start, end)
	if s.buf = s.buf[:0]; cap(s.buf) > keepCap {
		s.buf = nil
	}
	return err
}

// begin looks for the next element's first byte at or after i and enters its state.
func (s *Scanner) begin(p []byte, i int) int {
	for ; i < len(p); i++ {
		switch c := p[i]; c {
		case ' ', '\n', '\r', '\t', ',', ':', '}':
		case ']':
			if s.array && s.closed == 0 {
				s.closed = s.off + int64(i) + 1
			}
		case '[':
			if !s.array {
				s.array = true
				continue
			}
			s.state, s.depth = nested, 0
			return i
		case '{', '"': // a string is an element of depth 0, which ends with its quote
			s.state, s.depth = nested, 0
			return i
		default:
			s.state = scalar
			return i
		}
	}
	return i
}

// within goes on through the element from i to its end, or to the end of p.
func (s *Scanner) within(p []byte, i int) (end int, done bool) {
	for i < len(p) {
		switch s.state {
		case nested:
			i, done = s.inNested(p, i)
		case scalar:
			i, done = inScalar(p, i)
		default:
			i, done = s.inString(p, i)
		}
		if done {
			return i, true
		}
	}
	return i, false
}

// inNested goes to the next string or to the element's end.
func (s *Scanner) inNested(p []byte, i int) (int, bool) {
	depth := s.depth
	for ; i < len(p); i++ {
		switch p[i] {
		case '"':
			s.state, s.depth = text, depth
			return i + 1, false
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.depth = 0
				return i + 1, true
			}
		}
	}
	s.depth = depth
	return i, false
}

func inScalar(p []byte, i int) (int, bool) {
	if j := bytes.IndexAny(p[i:], ",]} \t\r\n"); j >= 0 {
		return i + j, true
	}
	return len(p), false
}

// inString goes past the closing quote. Neither quotes nor backslashes are searched twice for.
func (s *Scanner) inString(p []byte, i int) (int, bool) {
	if s.state == escape {
		s.state = text
		return i + 1, false
	}
	quote := indexQuote(p, i)
	for {
		slash := bytes.IndexByte(p[i:quote], '\\')
		if slash < 0 {
			break
		}
		if i += slash + 2; i > len(p) {
			s.state = escape
			return len(p), false
		}
		if i > quote {
			quote = indexQuote(p, i)
		}
	}
	if quote == len(p) {
		return len(p), false
	}
	s.state = nested
	return quote + 1, s.depth == 0
}

func indexQuote(p []byte, from int) int {
	if i := bytes.IndexByte(p[from:], '"'); i >= 0 {
		return from + i
	}
	return len(p)
}
