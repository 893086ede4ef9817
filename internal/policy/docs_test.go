package policy

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

const manual = "../../docs/configuration.md"

// TestManual holds the tables of docs/configuration.md to the struct tags, which are what the decoder obeys.
func TestManual(t *testing.T) {
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "<!-- fields -->\n")
	_, after, ok2 := strings.Cut(rest, "<!-- /fields -->\n")
	if !ok || !ok2 {
		t.Fatal("the markers <!-- fields --> and <!-- /fields --> are gone")
	}
	golden(t, manual, before+"<!-- fields -->\n"+tables()+"<!-- /fields -->\n"+after)
}

func tables() string {
	var b strings.Builder
	seen := map[reflect.Type]bool{}
	var table func(title string, typ reflect.Type)
	table = func(title string, typ reflect.Type) {
		if seen[typ] {
			return
		}
		seen[typ] = true
		fmt.Fprintf(&b, "\n### `%s`\n\n| field | value | default | meaning |\n|---|---|---|---|\n", title)
		for _, f := range fieldsOf(typ) {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, valueOf(&f), code(f.def), strings.ReplaceAll(f.doc, "|", "\\|"))
		}
		for _, f := range fieldsOf(typ) {
			if inner := block(f.typ); inner != nil && !f.alias && valueField(inner) == nil && inner.NumField() > 0 {
				name := f.name
				switch {
				case f.mapped:
					name += ".NAME"
				case f.typ.Kind() == reflect.Slice:
					name += "[]"
				}
				table(strings.TrimPrefix(title+"."+name, "holdfast.yaml."), inner)
			}
		}
	}
	table("holdfast.yaml", reflect.TypeFor[Config]())
	return b.String() + "\n"
}

// block is the struct that a field holds, nil for values.
func block(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || isScalar(t) || t == conditionsType {
		return nil
	}
	return t
}

func code(s string) string {
	if s == "" {
		return "–"
	}
	return "`" + strings.ReplaceAll(s, ",", ", ") + "`"
}

func valueOf(f *field) string {
	t := f.typ
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case len(f.enum) > 0 && t.Kind() == reflect.Slice:
		return "list of `" + strings.Join(f.enum, "` `") + "`"
	case len(f.enum) > 0:
		return "`" + strings.Join(f.enum, "` `") + "`"
	case f.mapped && valueField(t.Elem()) != nil:
		return "mapping"
	case f.mapped:
		return "mapping of names"
	case t == conditionsType:
		return "status, expression, or list"
	case t.Kind() == reflect.Slice && f.one:
		return "text or list"
	case t.Kind() == reflect.Slice:
		return "list"
	case t == secretType:
		return "secret"
	case t == exprType:
		return "expression"
	case f.needs("ms"):
		return "milliseconds"
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case f.needs("size"):
		return "size"
	case block(t) != nil:
		return "block"
	case t.Kind() == reflect.Bool:
		return "true, false"
	case t.Kind() == reflect.Float64, t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return "number"
	}
	return "text"
}
