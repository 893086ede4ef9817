package translate

import (
	"slices"
	"strings"
)

// dialect is the part of JSON Schema that a provider holds an answer to. A keyword outside it would be refused or, worse,
// not be kept.
type dialect struct {
	who      string
	keywords []string
	closed   bool     // every object forbids further properties
	required bool     // every property is required
	fewItems bool     // minItems is 0 or 1
	formats  []string // of strings; nil: any
	acyclic  bool     // no schema refers to itself
}

// The sources are https://platform.claude.com/docs/en/build-with-claude/structured-outputs with the client's supportedSchemaKeys,
// https://platform.openai.com/docs/guides/structured-outputs#supported-schemas, and GenerateContentConfig.ResponseJsonSchema of
// go-genai.
var (
	claudeSchema = dialect{who: "Anthropic", closed: true, fewItems: true, acyclic: true,
		keywords: []string{"type", "description", "title", "enum", "const", "anyOf", "allOf", "$ref", "$defs", "definitions", "properties",
			"required", "additionalProperties", "items", "minItems", "format", "pattern", "default"},
		formats: []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}}
	openAISchema = dialect{who: "OpenAI", closed: true, required: true,
		keywords: []string{"type", "description", "title", "enum", "const", "anyOf", "$ref", "$defs", "definitions", "properties", "required",
			"additionalProperties", "items", "minItems", "maxItems", "format", "pattern", "multipleOf", "minimum", "maximum",
			"exclusiveMinimum", "exclusiveMaximum"},
		formats: []string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}}
	geminiSchema = dialect{who: "Gemini",
		keywords: []string{"$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items", "prefixItems",
			"minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required",
			"propertyOrdering"}}
)

// schemaDepth bounds the nesting that is followed; no provider takes more than a tenth of it.
const schemaDepth = 64

// schemaWalk checks one schema.
type schemaWalk struct {
	*job
	dialect
	refs map[string][]string // what each definition refers to, by name; "" is the root
}

// schema checks that the far side keeps a schema as it is, and returns it in the form to send.
func (j *job) schema(v value, at string, d dialect) value {
	w := &schemaWalk{job: j, dialect: d, refs: map[string][]string{}}
	v = without(v, "$schema") // the name of the dialect, which constrains nothing
	w.walk(v, at, "", 0)
	if d.acyclic && w.cycle() {
		j.fail(at, d.who+" takes no schema that refers to itself")
	}
	return v.compact()
}

// without is an object less one member.
func without(v value, name string) value {
	if v.get(name) == nil {
		return v
	}
	var d doc
	for n, m := range v.members() {
		if n != name {
			d = append(d, n, m)
		}
	}
	return d.bytes()
}

func (w *schemaWalk) walk(v value, at, def string, depth int) {
	if w.err != nil {
		return
	}
	if !v.is('{') || depth > schemaDepth {
		w.fail(at, w.who+" takes no such schema")
		return
	}
	for name, m := range v.members() {
		if !slices.Contains(w.keywords, name) {
			w.fail(at+"."+name, w.who+" does not hold answers to this keyword")
			return
		}
		w.keyword(name, m, at+"."+name, def, depth)
	}
	w.objects(v, at)
}

func (w *schemaWalk) keyword(name string, m value, at, def string, depth int) {
	switch name {
	case "properties", "$defs", "definitions":
		for n, s := range m.members() {
			inner := def
			if name != "properties" {
				inner = "#/" + name + "/" + n
			}
			w.walk(s, at+"."+n, inner, depth+1)
		}
	case "anyOf", "allOf", "oneOf", "prefixItems":
		i := 0
		for s := range m.items() {
			w.walk(s, index(at, i), def, depth+1)
			i++
		}
	case "items":
		w.walk(m, at, def, depth+1)
	case "additionalProperties":
		if m.is('{') {
			w.walk(m, at, def, depth+1)
		}
	case "$ref":
		w.refs[def] = append(w.refs[def], m.text())
		if !strings.HasPrefix(m.text(), "#") {
			w.fail(at, "a schema elsewhere is not fetched")
		}
	case "minItems":
		if w.fewItems && m.int() != 0 && m.int() != 1 {
			w.fail(at, w.who+" holds answers to no other number than 0 and 1")
		}
	case "format":
		if w.formats != nil && !slices.Contains(w.formats, m.text()) {
			w.fail(at, w.who+" does not hold answers to this format")
		}
	}
}

// objects checks what a provider demands of schemas of objects.
func (w *schemaWalk) objects(v value, at string) {
	properties := v.get("properties")
	if properties == nil && !isObjectType(v.get("type")) {
		return
	}
	if w.closed && string(v.get("additionalProperties")) != "false" {
		w.fail(at, w.who+" demands additionalProperties: false of every object of a schema: write it there")
	}
	if !w.required {
		return
	}
	required := map[string]bool{}
	for name := range v.get("required").items() {
		required[name.text()] = true
	}
	for name := range properties.members() {
		if !required[name] {
			w.fail(at+".properties."+name, w.who+" demands that every property is required")
		}
	}
}

func isObjectType(t value) bool { return t.text() == "object" || hasText(t, "object") }

func hasText(array value, s string) bool {
	for item := range array.items() {
		if item.text() == s {
			return true
		}
	}
	return false
}

// cycle reports whether a definition reaches itself.
func (w *schemaWalk) cycle() bool {
	state := map[string]int{} // 1: being looked at, 2: done
	var visit func(string) bool
	visit = func(def string) bool {
		if state[def] > 0 {
			return state[def] == 1
		}
		state[def] = 1
		for _, ref := range w.refs[def] {
			if ref == "#" {
				ref = ""
			}
			if visit(ref) {
				return true
			}
		}
		state[def] = 2
		return false
	}
	for def := range w.refs {
		if visit(def) {
			return true
		}
	}
	return false
}

// parameters is a tool's schema for a provider that demands the type object at its root. An absent schema is that of no
// parameters.
func (j *job) parameters(t tool, at string) value {
	if t.schema == nil {
		return value(`{"type":"object","properties":{}}`)
	}
	schema := without(t.schema, "$schema")
	switch kind := schema.get("type"); {
	case kind == nil:
		d := doc{"type", "object"} // arguments are an object by definition
		for n, m := range schema.members() {
			if n != "type" {
				d = append(d, n, m)
			}
		}
		return value(d.bytes()).compact()
	case kind.text() != "object":
		j.fail(at, "the arguments of a tool are an object")
	}
	return schema.compact()
}

// bare reports whether a tool has no parameters, in the way in which that is written where a schema is required.
func bare(schema value) bool {
	if schema == nil {
		return true
	}
	empty := false
	for n, m := range schema.members() {
		switch {
		case n == "properties":
			empty = string(m.compact()) == "{}"
		case n == "additionalProperties" && m.is('f'), n == "required" && string(m.compact()) == "[]", n == "type", n == "$schema":
		default:
			return false
		}
	}
	return empty
}
