package sim

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// maxDepth bounds samples of schemas that contain themselves.
const maxDepth = 16

// sample is the smallest plausible value of a JSON schema (or of Google's, with types in capitals). Strings carry the
// number of the execution.
func sample(schema gjson.Result, n int64, depth int) raw {
	if depth > maxDepth {
		return raw("null")
	}
	for _, fixed := range [...]string{"const", "enum.0", "default", "example", "examples.0"} {
		if v := schema.Get(fixed); v.Exists() {
			return raw(v.Raw)
		}
	}
	for _, alternatives := range [...]string{"anyOf.0", "oneOf.0", "allOf.0"} {
		if v := schema.Get(alternatives); v.Exists() {
			return sample(v, n, depth+1)
		}
	}
	kind := schema.Get("type")
	if kind.IsArray() {
		kind = kind.Get("0")
	}
	switch strings.ToLower(kind.String()) {
	case "string":
		return appendJSON(nil, sampleString(schema, n))
	case "integer", "number":
		return sampleNumber(schema)
	case "boolean":
		return raw("true")
	case "null":
		return raw("null")
	case "array":
		if schema.Get("minItems").Int() == 0 && !schema.Get("items").Exists() {
			return raw("[]")
		}
		items := make(list, max(1, min(schema.Get("minItems").Int(), 100)))
		for i := range items {
			items[i] = sample(schema.Get("items"), n, depth+1)
		}
		return appendJSON(nil, items)
	}
	return sampleObject(schema, n, depth)
}

func sampleObject(schema gjson.Result, n int64, depth int) raw {
	required := map[string]bool{}
	for _, name := range schema.Get("required").Array() {
		required[name.String()] = true
	}
	out := doc{}
	schema.Get("properties").ForEach(func(name, property gjson.Result) bool {
		if len(required) == 0 || required[name.String()] {
			out = append(out, name.String(), sample(property, n, depth+1))
		}
		return true
	})
	return out.bytes()
}

func sampleString(schema gjson.Result, n int64) string {
	switch schema.Get("format").String() {
	case "date":
		return "2026-01-15"
	case "date-time":
		return "2026-01-15T12:00:00Z"
	case "email":
		return "someone@example.com"
	case "uuid":
		return fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
	case "uri":
		return "https://example.com/"
	}
	return fmt.Sprintf("sample %d", n)
}

func sampleNumber(schema gjson.Result) raw {
	if low := schema.Get("minimum"); low.Exists() {
		return raw(low.Raw)
	}
	if high := schema.Get("maximum"); high.Exists() && high.Num < 1 {
		return raw(high.Raw)
	}
	return raw("1")
}
