package eval

import (
	"encoding/json"
	"fmt"
	"slices"
)

// The validator takes any word for a type, and no value is of one that it does not know: every answer would be judged invalid.

var types = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// Keywords (JSON Schema 2020-12, and those of draft 7 that it replaced) that hold a schema, a list of them, or them by name.
var (
	schemaIn    = []string{"items", "additionalItems", "additionalProperties", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "not", "if", "then", "else"}
	schemaLists = []string{"prefixItems", "items", "allOf", "anyOf", "oneOf"}
	schemaNames = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)

// checkTypes refuses types that no JSON value has.
func checkTypes(text []byte) error {
	var root any
	if err := json.Unmarshal(text, &root); err != nil {
		return err
	}
	return typesOf(root)
}

func typesOf(v any) error {
	s, ok := v.(map[string]any)
	if !ok {
		return nil // true, false, or what the validator refuses
	}
	named, _ := s["type"].([]any)
	if name, ok := s["type"].(string); ok {
		named = []any{name}
	}
	for _, name := range named {
		if name, ok := name.(string); !ok || !slices.Contains(types, name) {
			return fmt.Errorf("it has the type %q, which no JSON value has", name)
		}
	}
	return within(s)
}

func within(s map[string]any) error {
	var inner []any
	for _, k := range schemaIn {
		inner = append(inner, s[k])
	}
	for _, k := range schemaLists {
		list, _ := s[k].([]any)
		inner = append(inner, list...)
	}
	for _, k := range schemaNames {
		byName, _ := s[k].(map[string]any)
		for _, v := range byName {
			inner = append(inner, v)
		}
	}
	for _, v := range inner {
		if err := typesOf(v); err != nil {
			return err
		}
	}
	return nil
}
