package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// inLine is what is wrong with a line, without the words of the package that reads it.
func inLine(err error) string {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		name := kind.Field[strings.LastIndexByte(kind.Field, '.')+1:]
		if name == "" {
			return "it is " + article(kind.Value)
		}
		return fmt.Sprintf("its %s cannot be %s", name, article(kind.Value))
	}
	if field, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		return "it has no field " + field
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

func article(noun string) string {
	if strings.HasPrefix(noun, "a") || strings.HasPrefix(noun, "o") { // array, object
		return "an " + noun
	}
	return "a " + noun
}
