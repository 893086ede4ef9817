package policy

import (
	"path/filepath"
	"reflect"
	"slices"
)

// fixed are the fields that a running process cannot change: what they make is opened once.
var fixed = []string{"env", "listen", "admin", "store", "fleet.advertise", "shared_state", "mcp", "telemetry",
	"limits.body_memory", "limits.header_bytes", "limits.commit_wait"}

// Fixed lists the fields that take a restart to change.
func Fixed() []string { return slices.Clone(fixed) }

// Reloadable returns what keeps next from taking the place of c in a process that runs: a fault for each field that takes
// a restart and differs, secrets included.
func (c *Config) Reloadable(next *Config) []Fault {
	var faults []Fault
	for _, path := range fixed {
		a, b := reflect.ValueOf(c).Elem(), reflect.ValueOf(next).Elem()
		for _, name := range segments(path) {
			a, _ = member(a, name)
			b, _ = member(b, name)
		}
		if !same(a, b) {
			pos, _ := next.Pos(path)
			if pos.File == "" {
				pos = next.head()
			}
			faults = append(faults, Fault{Pos: pos, Path: path, What: "cannot change while holdfast runs",
				Remedy: "put back what it was, or restart holdfast serve"})
		}
	}
	return sortFaults(faults)
}

// head is the top of the file, where what was left out would stand.
func (c *Config) head() Pos {
	if len(c.source.files) == 0 {
		return Pos{"holdfast.yaml", 1, 1}
	}
	return Pos{c.source.files[0], 1, 1}
}

// Same reports whether two configurations say the same, secrets included.
func (c *Config) Same(o *Config) bool {
	return same(reflect.ValueOf(c).Elem(), reflect.ValueOf(o).Elem())
}

// same compares what can be written; of an expression that is its source, for compiled ones are never equal.
func same(a, b reflect.Value) bool {
	switch {
	case a.Type() == exprType:
		return a.Interface().(Expr).Equal(b.Interface().(Expr))
	case a.Type() == conditionsType:
		x, y := a.Interface().(Conditions), b.Interface().(Conditions)
		return slices.Equal(x.Statuses, y.Statuses) && slices.EqualFunc(x.Exprs, y.Exprs, Expr.Equal)
	case a.Kind() == reflect.Pointer:
		return a.IsNil() && b.IsNil() || !a.IsNil() && !b.IsNil() && same(a.Elem(), b.Elem())
	case a.Kind() == reflect.Slice:
		return a.Len() == b.Len() && sameItems(a, b)
	case isScalar(a.Type()):
		return reflect.DeepEqual(a.Interface(), b.Interface())
	}
	named := a.NumField() > 0 && a.Type().Field(0).Tag.Get("yaml") == "-"
	if named && a.Field(0).String() != b.Field(0).String() {
		return false
	}
	for _, f := range fieldsOf(a.Type()) {
		if !f.alias && !same(a.FieldByIndex(f.index), b.FieldByIndex(f.index)) {
			return false
		}
	}
	return true
}

func sameItems(a, b reflect.Value) bool {
	for i := range a.Len() {
		if !same(a.Index(i), b.Index(i)) {
			return false
		}
	}
	return true
}

// Sources are the files that the configuration was read from, secrets included, and the globs of policies, all with the
// folder of the file that names them in front.
func (c *Config) Sources() (files, globs []string) {
	if len(c.source.files) == 0 {
		return nil, nil
	}
	for _, g := range c.Policies {
		if !filepath.IsAbs(g) {
			g = filepath.Join(filepath.Dir(c.source.files[0]), g)
		}
		globs = append(globs, g)
	}
	return slices.Clone(c.source.files), globs
}
