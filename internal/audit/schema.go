package audit

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

const maxDepth = 12 // of a schema; deeper parts are left out

// schema is the part of a JSON schema that arguments are made from.
type schema struct {
	kind     string // object, array, string, integer, number, boolean, null; empty: anything
	title    string
	about    string // description
	format   string
	pattern  string
	fixed    []any // const, or enum
	samples  []any // default, then examples
	minimum  *float64
	maximum  *float64
	step     float64
	minLen   int
	maxLen   int
	minItems int
	items    *schema
	fields   []field
	open     *schema // additionalProperties with a schema
}

// field is a property of an object.
type field struct {
	name     string
	required bool
	schema   *schema
}

// newSchema reads what a server lists; what it cannot read constrains nothing.
func newSchema(raw any) *schema {
	b, err := json.Marshal(raw)
	if err != nil {
		return &schema{}
	}
	root, err := parseJSON(b)
	if err != nil {
		return &schema{}
	}
	m, _ := root.(map[string]any)
	return (&schemaReader{root: m}).read(m, 0)
}

type schemaReader struct{ root map[string]any }

func (r *schemaReader) read(m map[string]any, depth int) *schema {
	if m == nil || depth > maxDepth {
		return &schema{}
	}
	m = r.flatten(m, depth)
	s := &schema{
		kind: kindOf(m), title: str(m["title"]), about: str(m["description"]), format: str(m["format"]), pattern: str(m["pattern"]),
		minimum: bound(m["minimum"], m["exclusiveMinimum"], 1), maximum: bound(m["maximum"], m["exclusiveMaximum"], -1),
		minLen: whole(m["minLength"]), maxLen: whole(m["maxLength"]), minItems: whole(m["minItems"]),
	}
	if n := number(m["multipleOf"]); n != nil {
		s.step = *n
	}
	if v, ok := m["const"]; ok {
		s.fixed = []any{v}
	} else if l, ok := m["enum"].([]any); ok {
		s.fixed = l
	}
	if v, ok := m["default"]; ok && v != nil {
		s.samples = append(s.samples, v)
	}
	if l, ok := m["examples"].([]any); ok {
		s.samples = append(s.samples, l...)
	} else if v, ok := m["example"]; ok {
		s.samples = append(s.samples, v)
	}
	r.children(s, m, depth)
	return s
}

func (r *schemaReader) children(s *schema, m map[string]any, depth int) {
	if items, ok := m["items"].(map[string]any); ok {
		s.items = r.read(items, depth+1)
	}
	if open, ok := m["additionalProperties"].(map[string]any); ok {
		s.open = r.read(open, depth+1)
	}
	required, _ := m["required"].([]any)
	properties, _ := m["properties"].(map[string]any)
	for _, name := range sortedKeys(properties) {
		p, _ := properties[name].(map[string]any)
		s.fields = append(s.fields, field{name, slices.Contains(required, any(name)), r.read(p, depth+1)})
	}
}

// flatten follows references and joins the first usable branch of a combination into the schema itself.
func (r *schemaReader) flatten(m map[string]any, depth int) map[string]any {
	out := maps.Clone(m)
	for range maxDepth {
		ref, ok := out["$ref"].(string)
		if !ok {
			break
		}
		delete(out, "$ref")
		merge(out, r.find(ref))
	}
	all, _ := out["allOf"].([]any)
	for _, part := range all {
		if p, ok := part.(map[string]any); ok && depth < maxDepth {
			merge(out, r.flatten(p, depth+1))
		}
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		branches, _ := out[word].([]any)
		for _, part := range branches {
			if p, ok := part.(map[string]any); ok && p["type"] != "null" && depth < maxDepth {
				merge(out, r.flatten(p, depth+1))
				break
			}
		}
	}
	return out
}

// merge adds what m does not say; required names and properties are put together.
func merge(m, more map[string]any) {
	for k, v := range more {
		have, ok := m[k]
		switch {
		case !ok:
			m[k] = v
		case k == "required":
			a, _ := have.([]any)
			b, _ := v.([]any)
			m[k] = append(slices.Clone(a), b...)
		case k == "properties":
			a, _ := have.(map[string]any)
			b, _ := v.(map[string]any)
			joined := maps.Clone(b)
			maps.Copy(joined, a)
			m[k] = joined
		}
	}
}

func (r *schemaReader) find(ref string) map[string]any {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	at := any(r.root)
	for _, step := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		if step == "" {
			continue
		}
		m, _ := at.(map[string]any)
		at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
	}
	m, _ := at.(map[string]any)
	return m
}

func kindOf(m map[string]any) string {
	switch t := m["type"].(type) {
	case string:
		return t
	case []any:
		for _, e := range t {
			if e != "null" {
				return str(e)
			}
		}
	}
	switch {
	case m["properties"] != nil:
		return "object"
	case m["items"] != nil:
		return "array"
	}
	return ""
}

func str(v any) string { s, _ := v.(string); return s }

func whole(v any) int {
	if n := number(v); n != nil && *n > 0 && *n < 1<<20 {
		return int(*n)
	}
	return 0
}

// bound is an inclusive limit; an exclusive one is moved by a whole step.
func bound(inclusive, exclusive any, step float64) *float64 {
	if n := number(exclusive); n != nil {
		v := *n + step
		return &v
	}
	return number(inclusive)
}
