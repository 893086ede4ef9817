package policy

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// field is one configurable field as its struct tags describe it.
type field struct {
	name  string
	index []int
	typ   reflect.Type
	def   string
	enum  []string
	is    []string
	doc   string
	mapped,
	alias, // a second spelling of the fields of its struct
	value, // the mapping's value itself, beside the key in the first field
	scalar, // may be the whole item
	one bool // a list of one may be written without brackets
}

// needs reports whether the field has the check.
func (f *field) needs(check string) bool { return slices.Contains(f.is, check) }

var (
	durationType   = reflect.TypeFor[time.Duration]()
	secretType     = reflect.TypeFor[Secret]()
	dsnType        = reflect.TypeFor[DSN]()
	exprType       = reflect.TypeFor[Expr]()
	conditionsType = reflect.TypeFor[Conditions]()
)

// isScalar reports whether a type is written as one YAML scalar.
func isScalar(t reflect.Type) bool {
	switch t {
	case secretType, dsnType, exprType:
		return true
	case conditionsType:
		return false
	}
	return t.Kind() != reflect.Struct && t.Kind() != reflect.Slice && t.Kind() != reflect.Pointer
}

// fieldsOf lists the fields of a struct in the order of its declaration, inlined ones in place.
func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		sf := t.Field(i)
		tag, ok := sf.Tag.Lookup("yaml")
		if !ok || tag == "-" {
			continue
		}
		f := fieldOf(sf, tag)
		if sf.Anonymous {
			for _, in := range fieldsOf(sf.Type) {
				in.index = append([]int{i}, in.index...)
				out = append(out, in)
			}
			if !f.alias {
				continue
			}
		}
		out = append(out, f)
	}
	return out
}

func fieldOf(sf reflect.StructField, tag string) field {
	name, opts, _ := strings.Cut(tag, ",")
	f := field{name: name, index: sf.Index, typ: sf.Type, def: sf.Tag.Get("default"), doc: sf.Tag.Get("doc")}
	f.enum = split(sf.Tag.Get("enum"), "|")
	f.is = split(sf.Tag.Get("is"), ",")
	for _, o := range split(opts, ",") {
		switch o {
		case "map":
			f.mapped = true
		case "alias":
			f.alias = true
		case "value":
			f.value = true
		case "scalar":
			f.scalar = true
		case "one":
			f.one = true
		}
	}
	return f
}

func split(s, sep string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, sep)
}

// valueField returns the ",value" field of an element that is written as "key: value", nil if it is a mapping.
func valueField(t reflect.Type) *field {
	for _, f := range fieldsOf(t) {
		if f.value {
			return &f
		}
	}
	return nil
}

// scalarField returns the field that may stand for a whole item, nil if there is none.
func scalarField(t reflect.Type) *field {
	for _, f := range fieldsOf(t) {
		if f.scalar {
			return &f
		}
	}
	return nil
}

// setDefaults gives every field that has one its default. Pointers stay nil until the block is written.
func setDefaults(v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		fv := v.FieldByIndex(f.index)
		switch {
		case f.alias:
		case f.def != "" && fv.Kind() == reflect.Slice:
			for _, text := range strings.Split(f.def, ",") {
				item := reflect.New(fv.Type().Elem()).Elem()
				mustSet(item, &f, text)
				fv.Set(reflect.Append(fv, item))
			}
		case f.def != "":
			mustSet(fv, &f, f.def)
		case fv.Kind() == reflect.Struct && !isScalar(f.typ) && f.typ != conditionsType:
			setDefaults(fv)
		}
	}
}

// mustSet sets a default from its tag; a tag that does not parse is a bug that every test would meet.
func mustSet(v reflect.Value, f *field, text string) {
	if what, _ := setScalar(v, f, text, true); what != "" {
		panic("policy: default of " + f.name + ": " + what)
	}
}
