package policy

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is the JSON schema of holdfast.yaml and of policy files, for editors. It is made from the struct tags that
// the decoder obeys; what only the cross checks know is not in it.
func Schema() *jsonschema.Schema {
	b := &schemaBuilder{defs: map[string]*jsonschema.Schema{
		"reference": {Type: "string", Pattern: `\$\{`, Description: "${NAME} or ${file:/run/secrets/name}, expanded late"},
	}}
	config := b.structure(reflect.TypeFor[Config]())
	policy := b.structure(reflect.TypeFor[Workflow]()).CloneSchemas()
	policy.Properties["workflow"] = &jsonschema.Schema{Type: "string", Pattern: nameForm.String(), Description: "The workflow that this file configures."}
	policy.PropertyOrder = append([]string{"workflow"}, policy.PropertyOrder...)
	policy.Required = append(policy.Required, "workflow")
	b.defs["policy"] = policy
	config.PatternProperties = map[string]*jsonschema.Schema{"^x-": {Description: "A place for anchors."}}
	b.defs["config"] = config
	return &jsonschema.Schema{
		Schema: "https://json-schema.org/draft/2020-12/schema",
		Title:  "Holdfast configuration or policy file",
		If: &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "object", Required: []string{"workflow"}},
			{Type: "object", Required: []string{"ai_api_queueing_strategy"}},
		}},
		Then: ref("policy"), Else: ref("config"),
		Defs: b.defs,
	}
}

// SchemaJSON is Schema as indented JSON.
func SchemaJSON() ([]byte, error) {
	out, err := json.MarshalIndent(Schema(), "", "  ")
	return append(out, '\n'), err
}

type schemaBuilder struct{ defs map[string]*jsonschema.Schema }

func ref(name string) *jsonschema.Schema { return &jsonschema.Schema{Ref: "#/$defs/" + name} }

// define returns a reference to the type's schema, made on first use.
func (b *schemaBuilder) define(t reflect.Type) *jsonschema.Schema {
	if _, ok := b.defs[t.Name()]; !ok {
		b.defs[t.Name()] = nil
		b.defs[t.Name()] = b.structure(t)
	}
	return ref(t.Name())
}

func (b *schemaBuilder) structure(t reflect.Type) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: nothing()}
	for _, f := range fieldsOf(t) {
		p := b.field(&f)
		p.Description = f.doc
		s.Properties[f.name] = p
		s.PropertyOrder = append(s.PropertyOrder, f.name)
		if f.needs("required") {
			s.Required = append(s.Required, f.name)
		}
	}
	return s
}

// nothing is the schema that no value fits.
func nothing() *jsonschema.Schema { return &jsonschema.Schema{Not: &jsonschema.Schema{}} }

func (b *schemaBuilder) field(f *field) *jsonschema.Schema {
	t := f.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case f.mapped:
		return b.named(f, t.Elem())
	case t == conditionsType:
		one := &jsonschema.Schema{Types: []string{"integer", "string"}}
		return oneOrMany(one)
	case t.Kind() == reflect.Slice && isScalar(t.Elem()):
		one := b.scalar(f, t.Elem())
		if f.one {
			return oneOrMany(one)
		}
		return withDefault(&jsonschema.Schema{Type: "array", Items: one}, f)
	case t.Kind() == reflect.Slice:
		one := b.define(t.Elem())
		if scalarField(t.Elem()) != nil {
			one = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, one}}
		}
		return &jsonschema.Schema{Type: "array", Items: one}
	case isScalar(t):
		return withDefault(b.scalar(f, t), f)
	}
	return &jsonschema.Schema{AllOf: []*jsonschema.Schema{b.define(t)}}
}

func oneOrMany(one *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{one, {Type: "array", Items: one.CloneSchemas()}}}
}

func (b *schemaBuilder) named(f *field, elem reflect.Type) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object"}
	for _, is := range f.is {
		if form := pattern(is); form != "" {
			s.PropertyNames = &jsonschema.Schema{Pattern: form}
		}
	}
	if vf := valueField(elem); vf != nil {
		s.AdditionalProperties = b.scalar(vf, elem.FieldByIndex(vf.index).Type)
		return s
	}
	s.AdditionalProperties = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{b.define(elem), {Type: "null"}}}
	return s
}

// scalar allows the typed value, or a reference that expands to it.
func (b *schemaBuilder) scalar(f *field, t reflect.Type) *jsonschema.Schema {
	s := &jsonschema.Schema{}
	switch {
	case t == secretType || t == dsnType:
		return &jsonschema.Schema{Types: []string{"string", "number"}}
	case t == exprType:
		return &jsonschema.Schema{Type: "string"}
	case t == durationType && !f.needs("ms"):
		s.AnyOf = []*jsonschema.Schema{{Type: "string", Pattern: spanForm.String()}, {Const: jsonschema.Ptr[any](0)}}
	case t.Kind() == reflect.String:
		return b.text(f)
	case t.Kind() == reflect.Bool:
		s.Type = "boolean"
	case t.Kind() == reflect.Float64:
		b.bounds(s, f)
		s.Type = "number"
	case f.needs("size"):
		s.AnyOf = []*jsonschema.Schema{{Type: "integer", Minimum: jsonschema.Ptr(0.0)}, {Type: "string", Pattern: sizeForm.String()}}
	default:
		b.bounds(s, f)
		s.Type = "integer"
	}
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{s, ref("reference")}}
}

func (b *schemaBuilder) text(f *field) *jsonschema.Schema {
	s := &jsonschema.Schema{Types: []string{"string", "number"}}
	if f.enum != nil {
		for _, e := range f.enum {
			s.Enum = append(s.Enum, e)
		}
		s.Types, s.Type = nil, "string"
	}
	for _, is := range f.is {
		if form := pattern(is); form != "" {
			s.Pattern = form
		}
	}
	if s.Enum == nil && s.Pattern == "" {
		return s
	}
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{s, ref("reference")}}
}

func (b *schemaBuilder) bounds(s *jsonschema.Schema, f *field) {
	s.Minimum = jsonschema.Ptr(0.0)
	switch {
	case f.needs("positive"):
		s.Minimum, s.ExclusiveMinimum = nil, jsonschema.Ptr(0.0)
	case f.needs("attempts"):
		s.Minimum, s.Maximum = jsonschema.Ptr(1.0), jsonschema.Ptr(100.0)
	case f.needs("ratio"):
		s.Maximum = jsonschema.Ptr(1.0)
	}
}

// withDefault shows the default as it would be written.
func withDefault(s *jsonschema.Schema, f *field) *jsonschema.Schema {
	if f.def == "" {
		return s
	}
	var value any = f.def
	switch k := f.typ.Kind(); {
	case k == reflect.Slice:
		value = strings.Split(f.def, ",")
	case f.typ == reflect.TypeFor[time.Duration]() && !f.needs("ms"):
	case k == reflect.Bool:
		value = f.def == "true"
	case k != reflect.String:
		if x, err := strconv.ParseFloat(f.def, 64); err == nil {
			value = x
		}
	}
	raw, err := json.Marshal(value)
	if err == nil {
		s.Default = raw
	}
	return s
}
