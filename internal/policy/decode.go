package policy

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// decoder sets structs from nodes. It reports every fault and goes on.
type decoder struct {
	env      func(string) (string, bool)
	readFile func(string) ([]byte, error)
	faults   []Fault
	source   source
}

func (d *decoder) fault(n *node, path, what, remedy string) {
	d.report(Fault{Pos: n.pos, Path: path, What: what, Remedy: remedy})
}

func (d *decoder) report(f Fault) {
	if len(d.faults) < 4*maxFaults {
		d.faults = append(d.faults, f)
	}
}

// addNew adds the faults of the cross checks, but for paths that are wrong already: what they found there follows from it.
func (d *decoder) addNew(faults []Fault) {
	wrong := map[string]bool{}
	for _, f := range d.faults {
		wrong[f.Path] = wrong[f.Path] || f.Severity == Error
	}
	for _, f := range faults {
		if !wrong[f.Path] || f.Path == "" {
			d.report(f)
		}
	}
}

// structure sets the fields of a struct. Keys in skip belong to the caller.
func (d *decoder) structure(n *node, v reflect.Value, path string, skip ...string) {
	if n.kind != mapping {
		d.fault(n, path, "is "+n.kind.String()+", not a mapping", "write its fields on lines of their own, or {field: value}")
		return
	}
	fields := fieldsOf(v.Type())
	for i, k := range n.keys {
		if slices.Contains(skip, k.name) {
			continue
		}
		at := slices.IndexFunc(fields, func(f field) bool { return f.name == k.name })
		if at < 0 {
			// x-… at the top is a place for anchors.
			if path != "" || !strings.HasPrefix(k.name, "x-") {
				d.unknown(k, path, v.Type(), fields)
			}
			continue
		}
		f := &fields[at]
		if f.alias {
			d.structure(n.items[i], v.FieldByIndex(f.index), path)
			continue
		}
		p := join(path, f.name)
		if first, dup := d.source.pos[p]; dup {
			d.report(Fault{Pos: k.pos, Path: p, What: fmt.Sprintf("is written twice, first in line %d", first.Line), Remedy: "keep one of them"})
			continue
		}
		d.source.pos[p] = k.pos
		d.value(n.items[i], v.FieldByIndex(f.index), f, p)
	}
	d.required(n, v, path, fields)
}

func (d *decoder) required(n *node, v reflect.Value, path string, fields []field) {
	for i := range fields {
		f := &fields[i]
		if f.needs("required") && v.FieldByIndex(f.index).IsZero() && !d.written(join(path, f.name)) {
			d.fault(n, path, "has no "+f.name, "write "+f.name+": "+f.doc)
		}
	}
}

func (d *decoder) written(path string) bool { _, ok := d.source.pos[path]; return ok }

func (d *decoder) unknown(k key, path string, t reflect.Type, fields []field) {
	names := make([]string, 0, len(fields))
	for _, f := range fields {
		names = append(names, f.name)
	}
	remedy, inner := "", within(k.name, fields)
	switch best := nearest(k.name, names); {
	case best != "":
		remedy = "did you mean " + best + "?"
	case inner != "":
		remedy = "it belongs in " + inner
	case t != reflect.TypeFor[Config]() && slices.ContainsFunc(fieldsOf(reflect.TypeFor[Config]()), func(f field) bool { return f.name == k.name }):
		remedy = "it belongs at the top level of holdfast.yaml"
	case t != reflect.TypeFor[Workflow]() && slices.ContainsFunc(fieldsOf(reflect.TypeFor[Workflow]()), func(f field) bool { return f.name == k.name }):
		remedy = "it belongs in a workflow"
	case len(names) == 0:
		remedy = "this block takes no fields: write {}"
	default:
		slices.Sort(names)
		remedy = "known here: " + strings.Join(names, ", ")
	}
	d.report(Fault{Pos: k.pos, Path: join(path, k.name), What: "unknown field", Remedy: remedy})
}

// within names the block that knows a field which was written one level too high.
func within(name string, fields []field) string {
	for _, f := range fields {
		t := f.typ
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || isScalar(t) || t == conditionsType || f.alias {
			continue
		}
		if slices.ContainsFunc(fieldsOf(t), func(in field) bool { return in.name == name }) {
			return f.name
		}
	}
	return ""
}

// value sets one field.
func (d *decoder) value(n *node, v reflect.Value, f *field, path string) {
	switch {
	case f.mapped:
		d.named(n, v, f, path)
	case v.Type() == conditionsType:
		d.conditions(n, v, path)
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct && !isScalar(v.Type().Elem()):
		p := reflect.New(v.Type().Elem())
		setDefaults(p.Elem())
		v.Set(p)
		d.block(n, p.Elem(), path)
	case v.Kind() == reflect.Slice:
		d.items(n, v, f, path)
	case isScalar(v.Type()) || v.Kind() == reflect.Pointer:
		d.scalar(n, v, f, path)
	default:
		d.block(n, v, path)
	}
}

// block is a struct under a field. A struct without fields may be written as nothing.
func (d *decoder) block(n *node, v reflect.Value, path string) {
	if n.kind == null && v.NumField() == 0 {
		return
	}
	d.structure(n, v, path)
}

// scalar sets one value after its references were expanded.
func (d *decoder) scalar(n *node, v reflect.Value, f *field, path string) {
	switch n.kind {
	case null:
		d.fault(n, path, "has no value", "write one or remove the line")
		return
	case list, mapping:
		d.fault(n, path, "is "+n.kind.String()+", not a single value", "write one value")
		return
	}
	text, plain := n.text, n.plain
	if strings.Contains(text, "${") {
		d.source.raw[path] = text
		expanded, ok := d.expand(n, path)
		if !ok {
			return
		}
		text, plain = expanded, true
	}
	if what, remedy := setScalar(v, f, text, plain); what != "" {
		if _, referenced := d.source.raw[path]; referenced {
			what, remedy = unseen(v, f, n.text)
		}
		d.fault(n, path, what, remedy)
		return
	}
	if v.Type() == secretType && text == redacted {
		d.report(Fault{Pos: n.pos, Path: path, Severity: Warning, What: "is the placeholder that check --print writes for a secret",
			Remedy: "write the secret, or better a reference such as ${API_KEY}"})
	}
}

// unseen is a fault about a value that came from the environment or a file: it may be a secret, so neither it nor
// anything made of it is shown. The remedy is what the field says to any text that does not fit.
func unseen(v reflect.Value, f *field, written string) (what, remedy string) {
	if _, remedy = setScalar(reflect.New(v.Type()).Elem(), f, "?", true); remedy == "" {
		remedy = "set it to a value that fits here"
	}
	return "what " + referenceForm.FindString(written) + " stands for is refused here", remedy
}

// asList is a list written in brackets of what somebody wrote as one text: its words, where they are several, as in a command
// line. What is in quotes is one word.
func asList(text string) string {
	words := commandWords(text)
	if len(words) < 2 {
		return "[" + text + "]"
	}
	for i, w := range words {
		words[i] = strconv.Quote(w)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// commandWords splits at blanks, and at commas before them, outside quotes.
func commandWords(text string) []string {
	var words []string
	var word strings.Builder
	open, quoted := rune(0), false // the quote that is open; whether the word has one, and may be empty
	end := func() {
		w := word.String()
		if !quoted {
			w = strings.TrimSuffix(w, ",")
		}
		if w != "" || quoted {
			words = append(words, w)
		}
		word.Reset()
		quoted = false
	}
	for _, r := range text {
		switch {
		case open != 0 && r == open:
			open = 0
		case open == 0 && (r == '"' || r == '\''):
			open, quoted = r, true
		case open == 0 && unicode.IsSpace(r):
			end()
		default:
			word.WriteRune(r)
		}
	}
	end()
	return words
}

// items sets a list.
func (d *decoder) items(n *node, v reflect.Value, f *field, path string) {
	elem := v.Type().Elem()
	items := n.items
	switch {
	case n.kind == scalar && f.one:
		items = []*node{n}
	case n.kind == scalar && isScalar(elem):
		d.fault(n, path, "is a single value, not a list", "write "+asList(n.text))
		return
	case n.kind != list:
		d.fault(n, path, "is "+n.kind.String()+", not a list", "write [a, b], or one item per line after a hyphen")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, it := range items {
		d.item(it, v.Index(i), f, item(path, i))
	}
}

func (d *decoder) item(n *node, v reflect.Value, f *field, path string) {
	d.source.pos[path] = n.pos
	if isScalar(v.Type()) {
		d.scalar(n, v, f, path)
		return
	}
	setDefaults(v)
	if sf := scalarField(v.Type()); sf != nil && n.kind == scalar {
		d.scalar(n, v.FieldByIndex(sf.index), sf, join(path, sf.name))
		return
	}
	d.structure(n, v, path)
}

// named sets a slice of structs from a mapping whose keys are their names.
func (d *decoder) named(n *node, v reflect.Value, f *field, path string) {
	if n.kind != mapping {
		d.fault(n, path, "is "+n.kind.String()+", not a mapping of names", "write NAME: {…} on a line of its own for each")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.keys), len(n.keys)))
	for i, k := range n.keys {
		p := join(path, k.name)
		d.source.pos[p] = k.pos
		d.element(n.items[i], k, v.Index(i), f, p)
	}
}

func (d *decoder) element(n *node, k key, v reflect.Value, f *field, path string) {
	for _, is := range f.is {
		if what, remedy := checkText(is, k.name); what != "" {
			d.report(Fault{Pos: k.pos, Path: path, What: "the name " + what, Remedy: remedy})
		}
	}
	if k.name == "" || len(k.name) > 256 {
		d.report(Fault{Pos: k.pos, Path: path, What: "the name is empty or too long", Remedy: "write 1 to 256 characters"})
	}
	setDefaults(v)
	v.Field(0).SetString(k.name)
	if vf := valueField(v.Type()); vf != nil {
		d.scalar(n, v.FieldByIndex(vf.index), vf, path)
		return
	}
	if n.kind == null {
		return // NAME: alone takes every default
	}
	d.structure(n, v, path)
}

// conditions sets a status, an expression, or a list of both.
func (d *decoder) conditions(n *node, v reflect.Value, path string) {
	items := []*node{n}
	if n.kind == list {
		items = n.items
	}
	var out Conditions
	for i, it := range items {
		p := path
		if n.kind == list {
			p = item(path, i)
			d.source.pos[p] = it.pos
		}
		if it.kind == scalar && it.plain && numberLike.MatchString(it.text) {
			status, err := strconv.Atoi(it.text)
			if err != nil || !statusForm.MatchString(it.text) {
				d.fault(it, p, quote(it.text)+" is not a status", "write 100 to 599")
			}
			out.Statuses = append(out.Statuses, status)
			continue
		}
		if not, is := strings.CutPrefix(it.text, "!"); it.kind == scalar && is && statusForm.MatchString(strings.TrimSpace(not)) {
			status, _ := strconv.Atoi(strings.TrimSpace(not))
			if !strings.HasSuffix(path, ".definite") {
				d.fault(it, p, quote(it.text)+" is for definite alone", "write a status, or a condition such as \"status != "+strings.TrimSpace(not)+"\"")
			}
			out.Not = append(out.Not, status)
			continue
		}
		var e Expr
		f := field{typ: exprType}
		d.scalar(it, reflect.ValueOf(&e).Elem(), &f, p)
		out.Exprs = append(out.Exprs, e)
	}
	v.Set(reflect.ValueOf(out))
}
