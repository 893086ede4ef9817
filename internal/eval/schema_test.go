package eval

import (
	"testing"

	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

func TestAskedSchema(t *testing.T) {
	const s = `{"type":"object","required":["a"]}`
	for _, c := range []struct{ name, endpoint, body, want string }{
		{"chat", wire.Chat, `{"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":` + s + `}}}`, s},
		{"chat, any object", wire.Chat, `{"response_format":{"type":"json_object"}}`, `{"type":"object"}`},
		{"chat, text", wire.Chat, `{"response_format":{"type":"text"}}`, ""},
		{"chat, nothing", wire.Chat, `{"messages":[]}`, ""},
		{"responses", wire.Responses, `{"text":{"format":{"type":"json_schema","name":"n","schema":` + s + `}}}`, s},
		{"messages", wire.Messages, `{"output_config":{"format":{"type":"json_schema","schema":` + s + `}}}`, s},
		{"messages, the beta's name", wire.Messages, `{"output_format":{"type":"json_schema","schema":` + s + `}}`, s},
		{"gemini, JSON schema", wire.Generate, `{"generationConfig":{"responseJsonSchema":` + s + `}}`, s},
		{"gemini, snake case", wire.StreamGenerate, `{"generation_config":{"response_json_schema":` + s + `}}`, s},
		{"gemini, any JSON", wire.Generate, `{"generationConfig":{"responseMimeType":"application/json"}}`, `{}`},
		{"gemini, OpenAPI", wire.Generate, `{"generationConfig":{"responseSchema":{"type":"OBJECT","propertyOrdering":["a"],"properties":{
			"a":{"type":"ARRAY","minItems":"1","items":{"type":"STRING","nullable":true,"enum":["x"]}},"type":{"type":"INTEGER"}}}}}`,
			`{"properties":{"a":{"items":{"enum":["x",null],"type":["string","null"]},"minItems":1,"type":"array"},"type":{"type":"integer"}},"type":"object"}`},
		{"embeddings", wire.Embeddings, `{"response_format":{"type":"json_object"}}`, ""},
	} {
		if got := string(asked(c.endpoint, []byte(c.body))); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestSchemaChecks(t *testing.T) {
	s, err := newSchema([]byte(`{"type":"object","properties":{"n":{"type":"integer"},"s":{"enum":["x",null]}},"required":["n"],"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	for answer, fits := range map[string]bool{
		`{"n":1}`:                 true,
		" {\"n\":1,\"s\":null}\n": true,
		`{"n":1.5}`:               false,
		`{"n":1,"x":2}`:           false,
		`{"s":"x"}`:               false,
		`{"n":1} and more`:        false,
		`{"n":1}{"n":1}`:          false,
		"```json\n{\"n\":1}\n```": false,
		`{"n":`:                   false,
		``:                        false,
		`null`:                    false,
	} {
		if err := s.check(answer); (err == nil) != fits {
			t.Errorf("%q: %v", answer, err)
		}
	}
	tree, err := newSchema([]byte(`{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"},"v":{"type":"integer"}}}}}`))
	if err != nil {
		t.Fatalf("a schema that steps into its value: %v", err)
	}
	if tree.check(`{"next":{"next":{"v":1}}}`) != nil || tree.check(`{"next":{"next":{"v":"1"}}}`) == nil {
		t.Error("a recursive schema does not judge what is deep")
	}
	for _, bad := range []string{`{"type":5}`, `[]`, `{"$ref":"https://example.com/x"}`, `{"pattern":"(?<=a)b"}`,
		`{"$ref":"#"}`, `{"properties":{"a":{"allOf":[{"$ref":"#/$defs/b"}]}},"$defs":{"b":{"anyOf":[{"$ref":"#/$defs/c"}]},"c":{"not":{"$ref":"#/$defs/b"}}}}`,
		`{"$ref":"#name"}`, `{"$dynamicRef":"#"}`, `{"$ref":"#/$defs/none"}`} {
		if _, err := newSchema([]byte(bad)); err == nil {
			t.Errorf("%s is taken as a schema", bad)
		}
	}
}

func FuzzSchema(f *testing.F) {
	f.Add(`{"type":"object"}`, `{"a":1}`)
	f.Add(`{"$Ref":"#"}`, `[[[]]]`) // names are read in any case
	f.Add(`{"$defs":{"a":{"items":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}`, `[[1]]`)
	f.Fuzz(func(t *testing.T, text, answer string) {
		if s, err := newSchema(fromOpenAPI([]byte(text))); err == nil {
			_ = s.check(answer)
		}
	})
}
