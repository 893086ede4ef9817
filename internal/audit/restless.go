package audit

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// still stands in a value for a part that changes by itself.
const still = "<changes by itself>"

// restless knows what reads show differently although nobody writes: counters, clocks, ids of requests. It is kept by
// the name of the reader, since a reader does the same whatever its arguments are.
type restless struct {
	parts map[string]bool       // reader and class of a part: all of it
	lines map[string][]template // reader and class of a text: some of its words
}

func newRestless() *restless { return &restless{map[string]bool{}, map[string][]template{}} }

// template is a text with words that change; those are empty.
type template []string

const maxTemplates = 64 // of one place

// tokens are the words of a text. A time of day, a version and a number with a sign are one word each.
var tokens = regexp.MustCompile(`[\pL\pN_:.+-]+|\s+|.`)

// templateOf is what two texts share, if that is enough to know a third one by.
func templateOf(a, b string) (template, bool) {
	x, y := tokens.FindAllString(a, -1), tokens.FindAllString(b, -1)
	if len(x) != len(y) {
		return nil, false
	}
	out, known := make(template, len(x)), false
	for i := range x {
		if x[i] == y[i] {
			out[i] = x[i]
			known = known || strings.ContainsFunc(x[i], isLetter)
		}
	}
	return out, known
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > 127 }

// apply is s without the words that change, if it is a text of the template.
func (t template) apply(s string) (string, bool) {
	words := tokens.FindAllString(s, -1)
	if len(words) != len(t) {
		return s, false
	}
	for i, w := range t {
		if w == "" {
			words[i] = still
		} else if w != words[i] {
			return s, false
		}
	}
	return strings.Join(words, ""), true
}

func readerOf(source string) string {
	name, _, _ := strings.Cut(source, "{")
	return name
}

// learn notes what differs between two reads with no write between them. It reports whether anything did.
func (r *restless) learn(p place, a, b any) bool {
	if reflect.DeepEqual(a, b) || len(diff(p, a, b)) == 0 || mutant.On("audit-learns-nothing") {
		return false
	}
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			return r.learnMaps(p, x, y)
		}
	case []any:
		if y, ok := b.([]any); ok {
			return r.learnLists(p, x, y)
		}
	case string:
		if y, ok := b.(string); ok {
			if t, known := templateOf(x, y); known {
				at := p.source + " " + p.class
				if len(r.lines[at]) < maxTemplates {
					r.lines[at] = append(r.lines[at], t)
				}
				return true
			}
		}
	}
	r.parts[p.source+" "+p.class] = true
	return true
}

func (r *restless) learnMaps(p place, a, b map[string]any) bool {
	keyed := keyedMap(a) || keyedMap(b)
	learned := false
	for _, k := range union(a, b) {
		at := p.key(k)
		if keyed {
			at = p.element(k)
		}
		before, inA := a[k]
		after, inB := b[k]
		if inA && inB {
			learned = r.learn(at, before, after) || learned
			continue
		}
		r.parts[at.source+" "+at.class] = true
		learned = true
	}
	return learned
}

func (r *restless) learnLists(p place, a, b []any) bool {
	if key := identityOf(a, b); key != "" {
		x, y := byKey(a, key), byKey(b, key)
		if len(x) == len(y) && len(union(x, y)) == len(x) {
			learned := false
			for _, k := range sortedKeys(x) {
				learned = r.learn(p.element(k), x[k], y[k]) || learned
			}
			return learned
		}
	}
	gone, come := apart(a, b)
	if len(gone) != len(come) || slices.ContainsFunc(come, func(v any) bool { _, plain := scalar(v); return plain && !isText(v) }) {
		r.parts[p.source+" "+p.class+"[]"] = true // they come and go
		return true
	}
	for i := range gone {
		r.learn(p.element(""), gone[i], come[i])
	}
	return true
}

func isText(v any) bool { _, ok := v.(string); return ok }

// apart are the elements that only one of two lists has, in their order.
func apart(a, b []any) (gone, come []any) {
	only := func(l, other []any) []any {
		left := multiset(other)
		var out []any
		for _, e := range l {
			if k := text(e); left[k] > 0 {
				left[k]--
			} else {
				out = append(out, e)
			}
		}
		return out
	}
	return only(a, b), only(b, a)
}

// has reports whether a part changes by itself as a whole, or is in one that does.
func (r *restless) has(reader, class string) bool {
	at := reader + " " + class
	if r.parts[at] {
		return true
	}
	for known := range r.parts {
		if strings.HasPrefix(at, known+".") || strings.HasPrefix(at, known+"[") {
			return true
		}
	}
	return false
}

// knows reports whether anything of a reader's values changes by itself.
func (r *restless) knows(reader string) bool {
	mine := func(at string) bool { return strings.HasPrefix(at, reader+" ") }
	for at := range r.parts {
		if mine(at) {
			return true
		}
	}
	for at := range r.lines {
		if mine(at) {
			return true
		}
	}
	return false
}

// calm is v with what changes by itself in it made equal. The elements of a list that grows by itself stay.
func (r *restless) calm(p place, v any) any {
	if r.parts[p.source+" "+p.class] && !strings.HasSuffix(p.class, "[]") {
		return still
	}
	switch v := v.(type) {
	case map[string]any:
		keyed := keyedMap(v)
		out := make(map[string]any, len(v))
		for k, e := range v {
			at := p.key(k)
			if keyed {
				at = p.element(k)
			}
			out[k] = r.calm(at, e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = r.calm(p.element(""), e)
		}
		return out
	case string:
		for _, t := range r.lines[p.source+" "+p.class] {
			if s, ok := t.apply(v); ok {
				return s
			}
		}
	}
	return v
}

// list names what changes by itself, for the report.
func (r *restless) list() []string {
	out := []string{}
	for at := range r.parts {
		out = append(out, strings.Replace(strings.Trim(at, " "), " .", " ", 1))
	}
	for at := range r.lines {
		out = append(out, strings.Replace(strings.Trim(at, " "), " .", " ", 1)+" (words of it)")
	}
	slices.Sort(out)
	return out
}
