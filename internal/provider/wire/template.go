package wire

import (
	"bytes"

	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
)

// Template recognises events that differ from an earlier one only inside some of its values, its holes: the text
// of a delta, padding, token counts. Such an event has the same finish reason, error and tool name as the one
// that was read in full, and comparing bytes costs a fraction of reading fields.
type Template struct {
	literal []byte // the bytes around the holes, joined
	spans   [maxHoles + 1]span
	n       int // spans in use; 0 is a template that matches nothing
}

type span struct {
	end    int  // in literal
	object bool // the hole after it is an object, not a string
}

const (
	maxHoles   = 3
	literalMax = 4 << 10 // remembered per stream
)

// Forget makes t match nothing.
func (t *Template) Forget() { t.n = 0 }

// Learn remembers data, which was read in full. The holes are strings and objects read from data; others are
// left out. At most three are taken.
func (t *Template) Learn(data []byte, holes ...jsonview.Value) {
	t.n, t.literal = 0, t.literal[:0]
	at := 0
	for range maxHoles {
		hole := nextHole(data, at, holes)
		if hole == nil {
			break
		}
		from, to := hole.Offset(data), hole.Offset(data)+len(hole)
		if hole.IsString() { // the quotes belong to the literal
			from, to = from+1, to-1
		}
		t.add(data[at:from], hole.IsObject())
		at = to
	}
	if t.n == 0 || len(t.literal)+len(data)-at > literalMax {
		t.n = 0
		return
	}
	t.add(data[at:], false)
}

// nextHole returns the first of the holes that begins at or after at.
func nextHole(data []byte, at int, holes []jsonview.Value) (next jsonview.Value) {
	for _, h := range holes {
		if !h.IsString() && !h.IsObject() || h.Offset(data) < at {
			continue
		}
		if next == nil || h.Offset(data) < next.Offset(data) {
			next = h
		}
	}
	return next
}

func (t *Template) add(literal []byte, object bool) {
	t.literal = append(t.literal, literal...)
	t.spans[t.n] = span{len(t.literal), object}
	t.n++
}

// Match reports whether data is the learned event but for its holes, and returns the value of the last hole that
// is an object.
func (t *Template) Match(data []byte) (object jsonview.Value, ok bool) {
	if t.n == 0 {
		return nil, false
	}
	from := 0
	for i := range t.n - 1 {
		literal := t.literal[from:t.spans[i].end]
		if !bytes.HasPrefix(data, literal) {
			return nil, false
		}
		data = data[len(literal):]
		from += len(literal)
		end := 0
		if t.spans[i].object {
			if object = jsonview.Of(data); !object.IsObject() {
				return nil, false
			}
			end = object.Offset(data) + len(object)
		} else if end = jsonview.ClosingQuote(data); end < 0 {
			return nil, false
		}
		data = data[end:]
	}
	return object, bytes.Equal(data, t.literal[from:])
}
