package audit

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// restless is what changes while nobody writes: a time of day, an age, a counter of requests. It is known by the tool
// that shows it rather than by the reading, so that what was learned of one record holds for the next.
type restless struct {
	parts map[string]bool       // origin and class
	lines map[string][]lineForm // by origin and class: the words of a text that change
}

// lineForm is a line of text with words that change: so many words, some of which are not looked at. The anchor, a word
// that stayed, tells it from other lines of that length.
type lineForm struct {
	words   int
	loose   []int
	anchor  int
	literal string
}

const (
	anything = "<restless>"
	maxForms = 32 // of one class; beyond it the whole class is restless
)

func newRestless() *restless { return &restless{map[string]bool{}, map[string][]lineForm{}} }

// origin is the tool or resource that a source reads.
func origin(source string) string {
	if isURI(source) {
		return source
	}
	name, _, _ := strings.Cut(source, "{")
	return name
}

// names are the restless parts, for the report.
func (r *restless) names() []string {
	out := []string{}
	for _, at := range sortedKeys(r.parts) {
		out = append(out, strings.TrimSpace(at))
	}
	for _, at := range sortedKeys(r.lines) {
		for _, f := range r.lines[at] {
			name := strings.TrimSpace(at) + ": words in lines with “" + f.literal + "”"
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

func (r *restless) count() int {
	n := len(r.parts)
	for _, l := range r.lines {
		n += len(l)
	}
	return n
}

func (r *restless) mark(at string) { r.parts[at] = true }

// covers reports whether a change lies in a restless part.
func (r *restless) covers(c change) bool {
	at := origin(c.source) + " " + c.class
	for known := range r.parts {
		if at == known || strings.HasPrefix(at, known+".") || strings.HasPrefix(at, known+"[") {
			return true
		}
	}
	return false
}

// learn compares two values of one reading between which nobody wrote.
func (r *restless) learn(at string, a, b any) {
	if reflect.DeepEqual(a, b) || r.parts[at] {
		return
	}
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			r.learnMap(at, a, b)
			return
		}
	case []any:
		if b, ok := b.([]any); ok {
			r.learnList(at+"[]", a, b)
			return
		}
	case string:
		if b, ok := b.(string); ok && r.learnText(at, a, b) {
			return
		}
	}
	r.mark(at)
}

func (r *restless) learnMap(at string, a, b map[string]any) {
	keyed := keyedMap(a) || keyedMap(b)
	for _, k := range union(a, b) {
		to := at + "." + k
		if keyed {
			to = at + "[]"
		}
		before, inA := a[k]
		after, inB := b[k]
		if inA && inB {
			r.learn(to, before, after)
		} else {
			r.mark(to)
		}
	}
}

func (r *restless) learnList(at string, a, b []any) {
	if key := identityOf(a, b); key != "" {
		x, y := byKey(a, key), byKey(b, key)
		same := true
		for _, k := range union(x, y) {
			_, inA := x[k]
			_, inB := y[k]
			same = same && inA && inB
		}
		if same {
			for _, k := range sortedKeys(x) {
				r.learn(at, x[k], y[k])
			}
			return
		}
	}
	gone, come := apart(a, b)
	if len(gone) != len(come) {
		r.mark(at)
		return
	}
	for _, g := range gone {
		i := nearest(g, come)
		if i < 0 {
			r.mark(at)
			return
		}
		r.learn(at, g, come[i])
		come = slices.Delete(come, i, i+1)
	}
}

// apart are the elements that only one of two lists has.
func apart(a, b []any) (gone, come []any) {
	left, right := multiset(a), multiset(b)
	for _, e := range a {
		if s := text(e); left[s] > right[s] {
			left[s]--
			gone = append(gone, e)
		}
	}
	left = multiset(a)
	for _, e := range b {
		if s := text(e); right[s] > left[s] {
			right[s]--
			come = append(come, e)
		}
	}
	return gone, come
}

// nearest is the candidate that has most in common with v, and at least something.
func nearest(v any, candidates []any) int {
	best, most := -1, 0
	for i, c := range candidates {
		if n := common(v, c); n > most {
			best, most = i, n
		}
	}
	return best
}

func common(a, b any) int {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return 0
		}
		n := 0
		for k, v := range a {
			if w, ok := b[k]; !ok {
				return 0
			} else if reflect.DeepEqual(v, w) {
				n++
			}
		}
		return n
	case string:
		b, ok := b.(string)
		if !ok {
			return 0
		}
		x, y := strings.Fields(a), strings.Fields(b)
		if len(x) != len(y) {
			return 0
		}
		n := 0
		for i := range x {
			if x[i] == y[i] {
				n++
			}
		}
		return n
	}
	return 0
}

// learnText reports whether two texts are one form with words that change.
func (r *restless) learnText(at, a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	if len(x) != len(y) || len(x) < 2 || len(r.lines[at]) >= maxForms {
		return false
	}
	f := lineForm{words: len(x), anchor: -1}
	for i := range x {
		switch {
		case x[i] != y[i]:
			f.loose = append(f.loose, i)
		case f.anchor < 0 && x[i] != anything:
			f.anchor, f.literal = i, x[i]
		}
	}
	if f.anchor < 0 {
		return false
	}
	r.lines[at] = append(r.lines[at], f)
	return true
}

// masked is a value with its restless parts made equal.
func (r *restless) masked(at string, v any) any {
	if r.parts[at] {
		return anything
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		keyed := keyedMap(v)
		for k, e := range v {
			if keyed {
				out[k] = r.masked(at+"[]", e)
			} else {
				out[k] = r.masked(at+"."+k, e)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			if r.parts[at+"[]"] {
				return []any{anything}
			}
			out[i] = r.masked(at+"[]", e)
		}
		return out
	case string:
		return r.maskedText(at, v)
	case json.Number:
		return v
	}
	return v
}

func (r *restless) maskedText(at, s string) string {
	forms := r.lines[at]
	if len(forms) == 0 {
		return s
	}
	w := strings.Fields(s)
	for _, f := range forms {
		if f.words != len(w) || w[f.anchor] != f.literal {
			continue
		}
		for _, i := range f.loose {
			w[i] = anything
		}
		s = strings.Join(w, " ")
	}
	return s
}
