package office

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// schema infers the input schema of In and adds what the tags of its fields say beyond their type: enum (separated by
// "|"), example (likewise), format, pattern, min, max (of numbers), len (most characters or items). It panics on a bad
// tag, which any start of the server shows.
func schema[In any]() *jsonschema.Schema {
	s, err := jsonschema.For[In](nil)
	if err != nil {
		panic(err)
	}
	t := reflect.TypeFor[In]()
	for f := range fields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		constrain(s.Properties[name], f)
	}
	return s
}

func fields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

func constrain(p *jsonschema.Schema, f reflect.StructField) {
	if f.Type.Kind() == reflect.Slice {
		// The inferred type also allows null, which no client has a reason to send.
		p.Type, p.Types = "array", nil
		one := 1
		p.MinItems, p.MaxItems, p.UniqueItems = &one, whole(f, "len"), true
	} else if f.Type.Kind() == reflect.String {
		p.MaxLength = whole(f, "len")
		if p.MaxLength != nil {
			one := 1
			p.MinLength = &one
		}
	}
	p.Enum, p.Examples = words(f, "enum"), words(f, "example")
	p.Format, p.Pattern = f.Tag.Get("format"), f.Tag.Get("pattern")
	p.Minimum, p.Maximum = number(f, "min"), number(f, "max")
}

// words are the values of a tag in the type of the field.
func words(f reflect.StructField, tag string) []any {
	text, ok := f.Tag.Lookup(tag)
	if !ok {
		return nil
	}
	var out []any
	for word := range strings.SplitSeq(text, "|") {
		switch f.Type.Kind() {
		case reflect.Int:
			out = append(out, must(strconv.Atoi(word)))
		case reflect.Slice:
			out = append(out, []string{word})
		default:
			out = append(out, word)
		}
	}
	return out
}

func number(f reflect.StructField, tag string) *float64 {
	n := whole(f, tag)
	if n == nil {
		return nil
	}
	v := float64(*n)
	return &v
}

func whole(f reflect.StructField, tag string) *int {
	text, ok := f.Tag.Lookup(tag)
	if !ok {
		return nil
	}
	n := must(strconv.Atoi(text))
	return &n
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Errorf("a field's tag: %w", err))
	}
	return v
}
