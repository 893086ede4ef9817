package sim

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// sampler makes the smallest plausible value of a JSON schema, or of Google's with types in capitals. Strings carry
// the number of the execution.
type sampler struct {
	n    int64
	root gjson.Result
	left int // values it may still make: nested arrays of a minimum length multiply
}

const (
	maxDepth  = 32
	maxValues = 10_000
)

func sample(schema gjson.Result, n int64) raw {
	s := &sampler{n: n, root: schema, left: maxValues}
	return s.value(schema, 0)
}

func (s *sampler) value(schema gjson.Result, depth int) raw {
	if s.left--; depth > maxDepth || s.left < 0 {
		return raw("null")
	}
	if ref, ok := strings.CutPrefix(schema.Get(`$ref`).String(), "#/"); ok {
		return s.value(s.resolve(ref), depth+1)
	}
	for _, fixed := range [...]string{"const", "enum.0", "default", "example", "examples.0"} {
		if v := schema.Get(fixed); v.Exists() {
			return raw(v.Raw)
		}
	}
	for _, alternatives := range [...]string{"anyOf.0", "oneOf.0", "allOf.0"} {
		if v := schema.Get(alternatives); v.Exists() {
			return s.value(v, depth+1)
		}
	}
	kind := schema.Get("type")
	if kind.IsArray() {
		kind = kind.Get("0")
	}
	switch strings.ToLower(kind.String()) {
	case "string":
		return appendJSON(nil, s.text(schema))
	case "integer", "number":
		return number(schema)
	case "boolean":
		return raw("true")
	case "null":
		return raw("null")
	case "array":
		return s.array(schema, depth)
	}
	return s.object(schema, depth)
}

// resolve follows a reference within the document, such as #/$defs/Address.
func (s *sampler) resolve(ref string) gjson.Result {
	names := strings.Split(ref, "/")
	for i, name := range names {
		names[i] = gjson.Escape(strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
	}
	return s.root.Get(strings.Join(names, "."))
}

func (s *sampler) array(schema gjson.Result, depth int) raw {
	least := schema.Get("minItems").Int()
	if least == 0 && !schema.Get("items").Exists() {
		return raw("[]")
	}
	items := make(list, max(1, min(least, 100)))
	for i := range items {
		items[i] = s.value(schema.Get("items"), depth+1)
	}
	return appendJSON(nil, items)
}

func (s *sampler) object(schema gjson.Result, depth int) raw {
	required := map[string]bool{}
	for _, name := range schema.Get("required").Array() {
		required[name.String()] = true
	}
	out := doc{}
	schema.Get("properties").ForEach(func(name, property gjson.Result) bool {
		if len(required) == 0 || required[name.String()] {
			out = append(out, name.String(), s.value(property, depth+1))
		}
		return s.left > 0
	})
	return out.bytes()
}

func (s *sampler) text(schema gjson.Result) string {
	switch schema.Get("format").String() {
	case "date":
		return "2026-01-15"
	case "date-time":
		return "2026-01-15T12:00:00Z"
	case "email":
		return "someone@example.com"
	case "uuid":
		return fmt.Sprintf("00000000-0000-4000-8000-%012d", s.n)
	case "uri":
		return "https://example.com/"
	}
	return fmt.Sprintf("sample %d", s.n)
}

// number is 1 where the bounds allow it.
func number(schema gjson.Result) raw {
	if low := schema.Get("minimum"); low.Exists() && low.Num > 1 {
		return raw(low.Raw)
	}
	if high := schema.Get("maximum"); high.Exists() && high.Num < 1 {
		return raw(high.Raw)
	}
	return raw("1")
}
