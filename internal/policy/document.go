package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"
)

// ErrDocument is a JSON text that two readers may take for two things. No evidence comes from one.
var ErrDocument = errors.New("the answer is no JSON that can be read in one way alone")

// ErrEmpty is an ErrDocument of nothing but white space.
var ErrEmpty = fmt.Errorf("%w: it is empty", ErrDocument)

// ErrTwice is an ErrDocument in which a member stands twice in one object.
var ErrTwice = fmt.Errorf("%w: a member stands twice in one object", ErrDocument)

// maxNested bounds the nesting of a document.
const maxNested = 128

// Document reads one JSON text as expressions see it: whole numbers as int, others as float64. Text in which a member
// stands twice in one object (RFC 8259, section 4: what is read of it is unpredictable), with broken UTF-8, with a number that
// would lose digits, or with anything behind its end is an ErrDocument. The error holds nothing of the text.
func Document(text []byte) (any, error) { return read(text, false) }

// Reading is Document of an answer whose words are judged, and not its numbers: one that would lose digits is rounded.
func Reading(text []byte) (any, error) { return read(text, true) }

func read(text []byte, round bool) (any, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, ErrEmpty
	}
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("%w: it is not UTF-8", ErrDocument)
	}
	d := document{json.NewDecoder(bytes.NewReader(text)), round}
	d.UseNumber()
	v, err := d.value(0)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = fmt.Errorf("%w: something stands behind its end", ErrDocument)
		}
	}
	if err != nil && !errors.Is(err, ErrDocument) {
		err = fmt.Errorf("%w: it is not JSON, or only a part", ErrDocument)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

type document struct {
	*json.Decoder
	round bool
}

func (d document) value(depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		return d.number(t)
	case json.Delim:
		if depth == maxNested {
			return nil, fmt.Errorf("%w: it is nested more than %d deep", ErrDocument, maxNested)
		}
		if t == '{' {
			return d.object(depth + 1)
		}
		return d.list(depth + 1)
	}
	return t, nil
}

func (d document) object(depth int) (any, error) {
	out := map[string]any{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string)
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%w (byte %d)", ErrTwice, d.InputOffset())
		}
		if out[name], err = d.value(depth); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return out, err
}

func (d document) list(depth int) (any, error) {
	out := []any{}
	for d.More() {
		v, err := d.value(depth)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := d.Token()
	return out, err
}

// number is a number, exactly or not at all: an id may stand on each digit.
func (d document) number(n json.Number) (any, error) {
	if i, err := strconv.Atoi(n.String()); err == nil {
		return i, nil
	}
	f, err := n.Float64()
	if d.round {
		return f, nil // at most infinite
	}
	if err != nil || math.Abs(f) >= 1<<53 && f == math.Trunc(f) {
		return nil, fmt.Errorf("%w: a number has more digits than can be compared", ErrDocument)
	}
	return f, nil
}
