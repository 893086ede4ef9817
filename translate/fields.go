package translate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// job is one translation of a request. Its first error is the one that counts; what is read after it means nothing.
type job struct {
	from, to API
	opts     Options
	err      error
	dropped  []string
}

// fail records a mismatch.
func (j *job) fail(field, rule string) {
	if j.err == nil {
		j.err = &Mismatch{From: j.from, To: j.to, Field: field, Rule: rule}
	}
}

// wrong records that a field does not have the form that its API defines.
func (j *job) wrong(field, want string) {
	if j.err == nil {
		j.err = fmt.Errorf("%w: %s is not %s", ErrMalformed, field, want)
	}
}

// drop reports a field that is left out, once for all elements of a list.
func (j *job) drop(field string) {
	for {
		before, rest, ok := strings.Cut(field, "[")
		_, after, closed := strings.Cut(rest, "]")
		if !ok || !closed {
			break
		}
		field = before + "\x00" + after
	}
	field = strings.ReplaceAll(field, "\x00", "[]")
	if !slices.Contains(j.dropped, field) {
		j.dropped = append(j.dropped, field)
	}
}

// fields are the members of one object that have not been read yet. Members that are null count as absent.
type fields struct {
	j  *job
	at string // path, "" for the document
	m  map[string]value
}

func (j *job) object(v value, at string) fields {
	f := fields{j: j, at: at, m: map[string]value{}}
	if !v.is('{') {
		j.wrong(orBody(at), "an object")
		return f
	}
	seen := map[string]bool{}
	for name, m := range v.members() {
		if seen[name] {
			j.wrong(f.path(name), "there once: which of the two counts is unknown")
		}
		seen[name] = true
		if m.set() {
			f.m[name] = m
		}
	}
	return f
}

func orBody(at string) string {
	if at == "" {
		return "the body"
	}
	return at
}

func (f fields) path(name string) string {
	if f.at == "" {
		return name
	}
	return f.at + "." + name
}

func index(at string, i int) string { return at + "[" + strconv.Itoa(i) + "]" }

// take reads a member, once.
func (f fields) take(name string) value {
	v := f.m[name]
	delete(f.m, name)
	return v
}

// raw reads a string as it is written.
func (f fields) raw(name string) value {
	v := f.take(name)
	if v != nil && !v.is('"') {
		f.j.wrong(f.path(name), "a string")
		return nil
	}
	return v
}

// want reads a string that must be there, though it may be empty.
func (f fields) want(name string) value {
	v := f.raw(name)
	if v == nil {
		f.j.wrong(f.path(name), "a string")
		return value(`""`)
	}
	return v
}

// str reads a string whose meaning counts here: a name, an id, a kind.
func (f fields) str(name string) string {
	v := f.raw(name)
	if v != nil && !v.whole() {
		f.j.fail(f.path(name), "half a surrogate pair is no character that another provider could be sent")
	}
	return v.text()
}

// need reads a string that must be there.
func (f fields) need(name string) string {
	s := f.str(name)
	if s == "" {
		f.j.wrong(f.path(name), "a string with text")
	}
	return s
}

func (f fields) flag(name string) bool {
	v := f.take(name)
	if v != nil && !v.is('t') && !v.is('f') {
		f.j.wrong(f.path(name), "true or false")
	}
	return v.is('t')
}

// setting is a value with the name that the client knows it by.
type setting struct {
	at string
	v  value // nil if the client did not set it
}

func (s setting) set() bool { return s.v != nil }

// num reads a number.
func (f fields) num(name string) setting {
	v := f.take(name)
	if v != nil && !v.number() {
		f.j.wrong(f.path(name), "a number")
		v = nil
	}
	return setting{f.path(name), v}
}

// list reads an array.
func (f fields) list(name string) []value {
	v := f.take(name)
	if v == nil {
		return nil
	}
	if !v.is('[') {
		f.j.wrong(f.path(name), "an array")
	}
	return slices.Collect(v.items())
}

// usual reads a member that only repeats the API's default. Another value stays unread, and so is a mismatch.
func (f fields) usual(name string, defaults ...string) {
	if v, ok := f.m[name]; ok && slices.Contains(defaults, string(v.compact())) {
		delete(f.m, name)
	}
}

// drop leaves out a member that says nothing about the answer.
func (f fields) drop(name string) {
	if _, ok := f.m[name]; ok {
		delete(f.m, name)
		f.j.drop(f.path(name))
	}
}

// end makes whatever was not read a mismatch. rules are the reasons for fields that are known.
func (f fields) end(rules map[string]string) {
	if f.j.err != nil || len(f.m) == 0 || mutant.On("unknown-field-dropped") {
		return
	}
	names := make([]string, 0, len(f.m))
	for name := range f.m {
		names = append(names, name)
	}
	name := slices.Min(names)
	rule, ok := rules[name]
	if !ok {
		rule = "a field that is not known here may change the answer"
	}
	f.j.fail(f.path(name), rule)
}

// other is the rule for a kind that has no counterpart.
func other(kind string, rules map[string]string) string {
	if rule, ok := rules[kind]; ok {
		return rule
	}
	return "the kind " + strconv.Quote(strings.ToValidUTF8(kind, "?")) + " is not known here"
}
