package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The validator follows references for as long as they lead on, so that a schema that comes back to itself without a step into the
// answer would never end.

var errCircle = errors.New("a $ref of it leads back to itself without a step into the answer")

// references follows what of a schema applies to one and the same value.
type references struct {
	root any
	seen map[string]bool // by JSON pointer: true while it is being followed
}

// checkReferences refuses references that lead out of a schema, that go by another name than a path, or in a circle.
func checkReferences(text []byte) error {
	r := references{seen: map[string]bool{}}
	if err := json.Unmarshal(text, &r.root); err != nil {
		return err
	}
	return r.all("", r.root)
}

// all follows from every place of the document.
func (r *references) all(at string, v any) error {
	switch v := v.(type) {
	case map[string]any:
		if err := r.follow(at, v); err != nil {
			return err
		}
		for name, child := range v {
			if err := r.all(below(at, name), child); err != nil {
				return err
			}
		}
	case []any:
		for i, child := range v {
			if err := r.all(below(at, strconv.Itoa(i)), child); err != nil {
				return err
			}
		}
	}
	return nil
}

var pointerSigns = strings.NewReplacer("~", "~0", "/", "~1")

func below(at, name string) string { return at + "/" + pointerSigns.Replace(name) }

// Keywords (JSON Schema 2020-12, section 10.2) whose schemas judge the same value.
var (
	inPlace = []string{"not", "if", "then", "else"}
	inLists = []string{"allOf", "anyOf", "oneOf"}
	inNames = []string{"dependentSchemas", "dependencies"}
	foreign = []string{"$dynamicRef", "$recursiveRef"}
)

func (r *references) follow(at string, s map[string]any) error {
	open, known := r.seen[at]
	switch {
	case open:
		return errCircle
	case known:
		return nil
	}
	r.seen[at] = true
	defer func() { r.seen[at] = false }()
	for _, k := range foreign {
		if _, ok := s[k].(string); ok {
			return fmt.Errorf("it has a %s, which is not followed here; write $ref and a path", k)
		}
	}
	if id, ok := s["$id"].(string); ok && at != "" {
		return fmt.Errorf("it has a further $id, %q: references are followed within one schema", id)
	}
	if to, ok := s["$ref"].(string); ok {
		if err := r.ref(to); err != nil {
			return err
		}
	}
	return r.applied(at, s)
}

func (r *references) ref(to string) error {
	pointer, ok := strings.CutPrefix(to, "#")
	if !ok || pointer != "" && pointer[0] != '/' {
		return fmt.Errorf("it refers to %q: references are followed within it, by a path such as #/$defs/name", to)
	}
	at, v := "", r.root
	for _, name := range strings.Split(pointer, "/")[1:] {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		at = below(at, name)
		switch in := v.(type) {
		case map[string]any:
			v = in[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(in) {
				return fmt.Errorf("it refers to %q, which is not there", to)
			}
			v = in[i]
		default:
			return fmt.Errorf("it refers to %q, which is not there", to)
		}
	}
	if v == nil {
		return fmt.Errorf("it refers to %q, which is not there", to)
	}
	return r.visit(at, v)
}

func (r *references) visit(at string, v any) error {
	if s, ok := v.(map[string]any); ok {
		return r.follow(at, s)
	}
	return nil // true, false, or what the validator refuses
}

func (r *references) applied(at string, s map[string]any) error {
	for _, k := range inPlace {
		if err := r.visit(below(at, k), s[k]); err != nil {
			return err
		}
	}
	for _, k := range inLists {
		list, _ := s[k].([]any)
		for i, v := range list {
			if err := r.visit(below(below(at, k), strconv.Itoa(i)), v); err != nil {
				return err
			}
		}
	}
	for _, k := range inNames {
		named, _ := s[k].(map[string]any)
		for name, v := range named {
			if err := r.visit(below(below(at, k), name), v); err != nil {
				return err
			}
		}
	}
	return nil
}
