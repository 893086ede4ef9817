package audit

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// change is one difference between two states.
type change struct {
	source string   // which read shows it
	path   string   // where in its value; a record of a list is named by its identity
	chain  []string // identities of the records that it is in or is, the outermost first
	class  string   // path without identities: what is counted together
	before any      // nil: added
	after  any      // nil: removed
}

func (c change) added() bool   { return c.before == nil }
func (c change) removed() bool { return c.after == nil }

func (c change) String() string {
	where := c.source
	if c.path != "" {
		where += " " + strings.TrimPrefix(c.path, ".")
	}
	switch {
	case c.added():
		return fmt.Sprintf("%s: added %s", where, short(c.after))
	case c.removed():
		return fmt.Sprintf("%s: removed %s", where, short(c.before))
	}
	return fmt.Sprintf("%s: %s became %s", where, short(c.before), short(c.after))
}

// place is where a difference is looked for.
type place struct {
	source, path, class string
	chain               []string
}

func (p place) change(before, after any) change {
	return change{p.source, p.path, p.chain, p.class, before, after}
}

func (p place) key(k string) place {
	p.path, p.class = p.path+"."+k, p.class+"."+k
	return p
}

func (p place) element(identity string) place {
	p.path, p.class, p.chain = fmt.Sprintf("%s[%s]", p.path, cut(identity, 60)), p.class+"[]", append(slices.Clip(p.chain), identity)
	return p
}

// diff lists what differs between two values. The order of a list does not count: a server may list as its map does.
func diff(p place, a, b any) []change {
	if reflect.DeepEqual(a, b) {
		return nil
	}
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			return diffMaps(p, a, b)
		}
	case []any:
		if b, ok := b.([]any); ok {
			return diffLists(p, a, b)
		}
	}
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok && form(x) == form(y) {
			return numbers(p, x, y)
		}
	}
	if a == nil {
		a = "null" // present, and no value
	}
	if b == nil {
		b = "null"
	}
	return []change{p.change(a, b)}
}

func diffMaps(p place, a, b map[string]any) []change {
	var out []change
	keyed := keyedMap(a) || keyedMap(b)
	for _, k := range union(a, b) {
		at := p.key(k)
		if keyed {
			at = p.element(k)
		}
		before, inA := a[k]
		after, inB := b[k]
		switch {
		case inA && inB:
			out = append(out, diff(at, before, after)...)
		case inA:
			out = append(out, at.change(orNull(before), nil))
		default:
			out = append(out, at.change(nil, orNull(after)))
		}
	}
	return out
}

// keyedMap tells an object that is a set of records by their key from one that is a record: its values are objects of
// one shape.
func keyedMap(m map[string]any) bool {
	shape := ""
	for _, v := range m {
		o, ok := v.(map[string]any)
		if !ok {
			return false
		}
		s := strings.Join(sortedKeys(o), ",")
		if shape != "" && s != shape {
			return false
		}
		shape = s
	}
	return shape != "" && len(m) > 1 // a single one may as well be the name of a part
}

func orNull(v any) any {
	if v == nil {
		return "null"
	}
	return v
}

func union(a, b map[string]any) []string {
	keys := sortedKeys(a)
	for k := range b {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

func diffLists(p place, a, b []any) []change {
	if key := identityOf(a, b); key != "" {
		return diffMaps2(p, byKey(a, key), byKey(b, key))
	}
	left, right := multiset(a), multiset(b)
	var gone, come []any
	for _, s := range slices.Sorted(slices.Values(keysOf(left, right))) {
		v, err := parseJSON([]byte(s))
		if err != nil {
			continue // cannot be: text made it
		}
		for n := right[s] - left[s]; n > 0; n-- {
			come = append(come, orNull(v))
		}
		for n := left[s] - right[s]; n > 0; n-- {
			gone = append(gone, orNull(v))
		}
	}
	return diffLoose(p, gone, come)
}

// diffLoose pairs what left a list with what came into it where both are a text of the same form, such as a line with
// a balance; the rest came and went.
func diffLoose(p place, gone, come []any) []change {
	var out []change
	for _, g := range gone {
		x, isText := g.(string)
		i := slices.IndexFunc(come, func(c any) bool {
			y, ok := c.(string)
			return ok && isText && x != form(x) && form(x) == form(y)
		})
		if i < 0 {
			out = append(out, p.element(text(g)).change(g, nil))
			continue
		}
		out = append(out, numbers(p.element(form(x)), x, come[i].(string))...)
		come = slices.Delete(come, i, i+1)
	}
	for _, c := range come {
		out = append(out, p.element(text(c)).change(nil, c))
	}
	return out
}

// figures are numbers that stand by themselves in a text; the digits of an id do not.
var figures = regexp.MustCompile(`(^|[ \t(=:$€£])-?\d+(\.\d+)?\b`)

// form is a text without its figures.
func form(s string) string { return figures.ReplaceAllString(s, "$1#") }

// numbers lists which of the figures in two texts of one form differ.
func numbers(p place, a, b string) []change {
	x, y := figures.FindAllString(a, -1), figures.FindAllString(b, -1)
	if len(x) != len(y) {
		return []change{p.change(a, b)}
	}
	var out []change
	for i := range x {
		if x[i] != y[i] {
			out = append(out, p.key("#"+strconv.Itoa(i+1)).change(json.Number(strings.Trim(x[i], " \t(=:$€£")), json.Number(strings.Trim(y[i], " \t(=:$€£"))))
		}
	}
	return out
}

func diffMaps2(p place, a, b map[string]any) []change {
	var out []change
	for _, k := range union(a, b) {
		before, inA := a[k]
		after, inB := b[k]
		switch at := p.element(k); {
		case inA && inB:
			out = append(out, diff(at, before, after)...)
		case inA:
			out = append(out, at.change(before, nil))
		default:
			out = append(out, at.change(nil, after))
		}
	}
	return out
}

func multiset(l []any) map[string]int {
	out := map[string]int{}
	for _, e := range l {
		out[text(e)]++
	}
	return out
}

func keysOf(a, b map[string]int) []string {
	keys := sortedKeys(a)
	for k := range b {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	return keys
}

// identityOf is the key by which both lists' elements, all of them objects, are told apart.
func identityOf(lists ...[]any) string {
	for _, key := range candidateKeys(lists) {
		if slices.IndexFunc(lists, func(l []any) bool { return !unique(l, key) }) < 0 {
			return key
		}
	}
	return ""
}

// candidateKeys are the identity-like keys of the first object, the surest first.
func candidateKeys(lists [][]any) []string {
	for _, l := range lists {
		if len(l) == 0 {
			continue
		}
		first, ok := l[0].(map[string]any)
		if !ok {
			return nil
		}
		var keys []string
		for _, k := range sortedKeys(first) {
			if identityKey(k) {
				keys = append(keys, k)
			}
		}
		slices.SortStableFunc(keys, func(a, b string) int { return keyRank(a) - keyRank(b) })
		return keys
	}
	return nil
}

func keyRank(k string) int {
	switch w := words(k); {
	case len(w) == 0: // a key of signs only
	case len(w) == 1 && (w[0] == "id" || w[0] == "uuid" || w[0] == "uri" || w[0] == "path"):
		return 0
	case w[len(w)-1] == "id" || w[len(w)-1] == "uuid":
		return 1
	case len(w) == 1 && (w[0] == "key" || w[0] == "name"):
		return 2
	}
	return 3
}

func unique(l []any, key string) bool {
	seen := map[string]bool{}
	for _, e := range l {
		m, ok := e.(map[string]any)
		if !ok {
			return false
		}
		s, ok := scalar(m[key])
		if !ok || s == "" || seen[s] {
			return false
		}
		seen[s] = true
	}
	return true
}

func byKey(l []any, key string) map[string]any {
	out := map[string]any{}
	for _, e := range l {
		s, _ := scalar(e.(map[string]any)[key])
		out[s] = e
	}
	return out
}

// amount is how much changes amount to, by class: records that came or went, and numbers by how far they moved. Reads
// with arguments count only where others show nothing, and together: each call has its own.
func amount(changes []change) map[string]float64 {
	out := map[string]float64{}
	general := slices.ContainsFunc(changes, func(c change) bool { return !strings.Contains(c.source, "{") })
	for _, c := range changes {
		reader, _, own := strings.Cut(c.source, "{")
		if own && general {
			continue
		}
		name := reader + " " + c.class
		switch before, after := number(c.before), number(c.after); {
		case c.added():
			out[name+" +"]++
		case c.removed():
			out[name+" -"]++
		case before != nil && after != nil:
			out[name+" #"] += *after - *before
		default:
			if a, ok := c.after.(string); ok {
				b, _ := c.before.(string)
				out[name+" length"] += float64(len(a) - len(b))
			}
		}
	}
	return out
}

func number(v any) *float64 {
	n, ok := v.(json.Number)
	if !ok {
		return nil
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil {
		return nil
	}
	return &f
}
