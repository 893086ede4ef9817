package cache

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// codecVersion is the first byte of an entry's stored form. It changes with the form, and with what a guard or a
// partition is made of: an entry of another version would be found by nobody, so it is refused.
const codecVersion = 3

// maxName bounds the names in a stored entry.
const maxName = 512

// AppendEntry appends the stored form of an entry: version, kind, key, partition, times, names, vector.
func AppendEntry(dst []byte, e *Entry) []byte {
	kind := byte(0)
	if e.Kind == Semantic {
		kind = 1
	}
	dst = append(dst, codecVersion, kind)
	dst = append(append(dst, e.Key[:]...), e.Partition[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.Made.UnixMilli()))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.Expires.UnixMilli()))
	for _, name := range [...]string{e.Intent, e.Tenant, e.Workflow, e.Template} {
		dst = appendField(dst, name)
	}
	dst = binary.AppendUvarint(dst, uint64(len(e.Vector.Steps)))
	for _, step := range e.Vector.Steps {
		dst = append(dst, byte(step))
	}
	return dst
}

// DecodeEntry reads what [AppendEntry] wrote. The error is [ErrEntry].
func DecodeEntry(b []byte) (*Entry, error) {
	r := reader{b: b}
	head := r.take(2)
	if head == nil || head[0] != codecVersion || head[1] > 1 {
		return nil, ErrEntry
	}
	e := &Entry{Kind: Template}
	if head[1] == 1 {
		e.Kind = Semantic
	}
	copy(e.Key[:], r.take(len(e.Key)))
	copy(e.Partition[:], r.take(len(e.Partition)))
	e.Made, e.Expires = r.time(), r.time()
	for _, name := range [...]*string{&e.Intent, &e.Tenant, &e.Workflow, &e.Template} {
		*name = string(r.field(maxName))
	}
	steps := r.field(MaxDimensions)
	if r.bad || len(r.b) > 0 {
		return nil, fmt.Errorf("%w (%d bytes)", ErrEntry, len(b))
	}
	if e.Vector.Steps = make([]int8, len(steps)); len(steps) == 0 {
		e.Vector.Steps = nil
	}
	for i, step := range steps {
		e.Vector.Steps[i] = int8(step)
	}
	if e.Vector.Norm = norm(e.Vector.Steps); (e.Vector.Norm > 0) != (e.Kind == Semantic) || (e.Template != "") != (e.Kind == Template) {
		return nil, fmt.Errorf("%w: a %s entry with the vector or name of another kind", ErrEntry, e.Kind)
	}
	return e, nil
}

// reader takes fields off the front of a stored form.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) || r.bad {
		r.bad = true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) time() time.Time {
	b := r.take(8)
	if b == nil {
		return time.Time{}
	}
	ms := binary.BigEndian.Uint64(b)
	if ms > math.MaxInt64/uint64(time.Millisecond) { // what a Duration can tell from 1970 on: until 2262
		r.bad = true
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}

func (r *reader) field(most uint64) []byte {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > most {
		r.bad = true
		return nil
	}
	r.take(size)
	return r.take(int(n))
}
