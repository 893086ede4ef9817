package policy

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// NotYet lists what this version accepts and checks without acting on it: path, with * for any name or index, to a
// sentence. An entry goes when the mechanism comes.
func NotYet() map[string]string {
	const w = "workflows.*."
	return map[string]string{
		"sync":             "/holdfast/v1/sync answers not_found",
		"alerts":           "nobody is alerted",
		"telemetry":        "nothing is exported over OTLP; /metrics is there",
		"providers.*.mode": "only the workflow's mode counts",
		w + "classify":     "decisions are logged with the fields that exist",
		w + "topic":        "there are no alerts to show it in",
	}
}

// notYet reports each written block of NotYet once, at its outermost place. What is written as it is by default asks
// for nothing: check --print writes all of it.
func (c *Config) notYet() []Fault {
	table := NotYet()
	found := map[string]string{}
	for path := range c.source.pos {
		segs := segments(path)
		for pattern, sentence := range table {
			if fits(segments(pattern), segs) && !c.isDefault(segs) {
				found[path] = sentence
			}
		}
	}
	var out []Fault
	for _, path := range slices.SortedFunc(maps.Keys(found), cmp.Compare[string]) {
		pos := c.source.pos[path]
		if _, outer := found[parent(path)]; outer {
			continue
		}
		out = append(out, Fault{Pos: pos, Path: path, Severity: Warning, What: "accepted, not yet acted on by this version: " + found[path]})
	}
	return out
}

// isDefault says that the value at a path is the one that it has when nothing is written there.
func (c *Config) isDefault(path []string) bool {
	at := reflect.ValueOf(c)
	for i, name := range path {
		if at.Kind() == reflect.Pointer {
			at = at.Elem()
		}
		next, ok := member(at, name)
		if !ok {
			return false
		}
		if i < len(path)-1 || at.Kind() != reflect.Struct {
			at = next
			continue
		}
		fresh := reflect.New(at.Type()).Elem()
		setDefaults(fresh)
		if w, ok := fresh.Addr().Interface().(*Workflow); ok {
			w.Lanes.resolve(at.FieldByName("Retry").Interface().(Retry))
		}
		usual, _ := member(fresh, name)
		return reflect.DeepEqual(next.Interface(), usual.Interface())
	}
	return false // an element of a list, which is nothing by default
}

// member is the field of a struct, or the element of a list or of named blocks, that a path's segment names.
func member(v reflect.Value, name string) (reflect.Value, bool) {
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			if f.name == name && !f.alias {
				return v.FieldByIndex(f.index), true
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			e, at := v.Index(i), strconv.Itoa(i)
			if e.Kind() == reflect.Struct && e.Type().Field(0).Tag.Get("yaml") == "-" {
				at = e.Field(0).String()
			}
			if at == name {
				return e, true
			}
		}
	}
	return reflect.Value{}, false
}

func fits(pattern, path []string) bool {
	return slices.EqualFunc(pattern, path, func(p, s string) bool { return p == "*" || p == s })
}

// segments splits a path of join and item into its names and indices.
func segments(path string) []string {
	var out []string
	for path != "" {
		switch {
		case strings.HasPrefix(path, `["`):
			end := strings.Index(path, `"]`)
			if end < 0 {
				return append(out, path)
			}
			out, path = append(out, path[2:end]), path[end+2:]
		case path[0] == '[':
			end := max(strings.IndexByte(path, ']'), 1)
			out, path = append(out, path[1:end]), path[min(end+1, len(path)):]
		default:
			path = strings.TrimPrefix(path, ".")
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				return append(out, path)
			}
			out, path = append(out, path[:end]), path[end:]
		}
	}
	return out
}
