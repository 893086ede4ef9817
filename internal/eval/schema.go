package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// schema judges the text of an answer.
type schema struct{ resolved *jsonschema.Resolved }

// newSchema reads a JSON schema. References that lead out of it are refused: nothing is fetched.
func newSchema(text []byte) (*schema, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("it is no JSON schema: %w", err)
	}
	read, err := json.Marshal(&s) // as the validator spells what it has read
	if err == nil {
		err = errors.Join(checkReferences(read), checkTypes(read))
	}
	if err != nil {
		return nil, err
	}
	r, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("it cannot be judged by: %w", err)
	}
	return &schema{r}, nil
}

var errFenced = errors.New("it stands in a code fence, which a JSON parser refuses")

// check says why an answer does not fit; nil where it does. The text is taken as a client takes it: whole.
func (s *schema) check(answer string) error {
	var v any
	d := json.NewDecoder(strings.NewReader(answer))
	if err := d.Decode(&v); err != nil {
		if strings.HasPrefix(strings.TrimSpace(answer), "```") {
			return errFenced
		}
		return fmt.Errorf("it is no JSON: %w", err)
	}
	if rest := strings.TrimSpace(answer[d.InputOffset():]); rest != "" {
		return errors.New("something follows the JSON")
	}
	return s.resolved.Validate(v)
}

// asked is the schema that a request asks its answer to have, by where each API has it; nil where it asks for none.
func asked(endpoint string, body []byte) []byte {
	doc := gjson.ParseBytes(body)
	switch endpoint {
	case wire.Chat:
		return format(doc.Get("response_format"), "json_schema.schema")
	case wire.Responses:
		return format(doc.Get("text.format"), "schema")
	case wire.Messages:
		for _, field := range []string{"output_config.format", "output_format"} {
			if f := doc.Get(field); f.Exists() {
				return format(f, "schema")
			}
		}
	case wire.Generate, wire.StreamGenerate:
		return geminiSchema(doc)
	}
	return nil
}

var (
	anyObject = []byte(`{"type":"object"}`)
	anything  = []byte(`{}`)
)

func format(f gjson.Result, at string) []byte {
	switch f.Get("type").String() {
	case "json_schema":
		if s := f.Get(at); s.Exists() {
			return []byte(s.Raw)
		}
	case "json_object":
		return anyObject
	}
	return nil
}

// geminiSchema reads generationConfig, whose names come in two spellings.
func geminiSchema(doc gjson.Result) []byte {
	for _, config := range []string{"generationConfig", "generation_config"} {
		c := doc.Get(config)
		for _, field := range []string{"responseJsonSchema", "response_json_schema"} {
			if s := c.Get(field); s.Exists() {
				return []byte(s.Raw)
			}
		}
		for _, field := range []string{"responseSchema", "response_schema"} {
			if s := c.Get(field); s.Exists() {
				return fromOpenAPI([]byte(s.Raw))
			}
		}
		for _, field := range []string{"responseMimeType", "response_mime_type"} {
			if c.Get(field).String() == "application/json" {
				return anything
			}
		}
	}
	return nil
}

// fromOpenAPI turns Gemini's Schema, which is OpenAPI's, into a JSON schema: types in capitals, and nullable
// (ai.google.dev/api/caching#Schema). What a JSON schema does not know constrains nothing there either.
func fromOpenAPI(text []byte) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return text
	}
	openAPI(v)
	out, err := json.Marshal(v)
	if err != nil { // it was JSON
		return text
	}
	return out
}

// numeric are keywords whose values Gemini writes as strings, being int64 in its protocol.
var numeric = []string{"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"}

func openAPI(v any) {
	m, ok := v.(map[string]any)
	if !ok {
		return
	}
	if t, ok := m["type"].(string); ok {
		m["type"] = strings.ToLower(t)
		if null, _ := m["nullable"].(bool); null {
			m["type"] = []any{strings.ToLower(t), "null"}
			if enum, ok := m["enum"].([]any); ok {
				m["enum"] = append(enum, nil)
			}
		}
	}
	for _, k := range numeric {
		if s, ok := m[k].(string); ok {
			m[k] = json.Number(s)
		}
	}
	for _, k := range []string{"nullable", "propertyOrdering", "example"} {
		delete(m, k)
	}
	openAPI(m["items"])
	if all, ok := m["anyOf"].([]any); ok {
		for _, s := range all {
			openAPI(s)
		}
	}
	if props, ok := m["properties"].(map[string]any); ok {
		for _, s := range props {
			openAPI(s)
		}
	}
}
