package audit

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// recipe is how arguments of a tool are made; one is chosen by trial and then varied.
type recipe struct {
	all      bool            // every property, not the required ones alone
	existing map[string]bool // by path of the field: it names a record that exists
	weak     bool            // a record will do that only might be what a field names
	kind     string          // only of records of this kind
	whole    bool            // every field that a record has is that record's
	given    []Args          // the user's, in place of all this
	fresh    bool            // no sample names what the tool makes: it was used already
}

// least is the affinity below which a record is not taken for what a field names.
func (r recipe) least() int {
	if r.weak {
		return 1
	}
	return 2
}

// variant is what one set of arguments differs in from another.
type variant struct {
	mark string
	n    int            // unlike any other's: what must be new
	turn int            // which of the values that a field may have: amounts, enumerations
	refs map[string]any // by path of the field: the record's value
}

type maker struct {
	t    *tool
	r    recipe
	v    variant
	pool *pool
	used map[string]any // what references were taken, by path
}

// object makes a value for each field of an object.
func (m *maker) object(s *schema, at string, depth int) map[string]any {
	out := map[string]any{}
	chosen := m.references(s, at)
	for _, f := range s.fields {
		p := at + "." + f.name
		if !m.wanted(f) {
			continue
		}
		if v, ok := chosen[f.name]; ok {
			out[f.name] = v
			continue
		}
		out[f.name] = m.value(f.name, f.schema, p, depth+1)
	}
	m.pairs(s, out)
	if s.open != nil && len(s.fields) == 0 {
		out["note"] = m.value("note", s.open, at+".note", depth+1)
	}
	return out
}

// wanted leaves out what would make the call one that does nothing; an idempotency key that is offered is used, as a
// careful client would.
func (m *maker) wanted(f field) bool {
	if f.required || keyLike(f.name) {
		return true
	}
	return m.r.all && !anyWord(f.name, moodWords)
}

// references finds the records that the recipe's fields of this object name: one record for all of them if there is
// one that fits, else one each.
func (m *maker) references(s *schema, at string) map[string]any {
	var refs []field
	for _, f := range s.fields {
		if m.wanted(f) && (m.r.existing[at+"."+f.name] || m.r.whole && f.required && f.schema.kind != "object" && !keyLike(f.name)) {
			refs = append(refs, f)
		}
	}
	out := map[string]any{}
	if len(refs) == 0 {
		return out
	}
	if values := m.pinned(refs, at); values != nil {
		return values
	}
	if values := m.pool.together(m.t, refs, m.v.n, m.r); values != nil {
		out = values
	} else {
		taken := []any{}
		for _, f := range refs {
			if v, ok := m.pool.one(m.t, f, m.v.n, m.r, taken); ok {
				out[f.name] = v
				taken = append(taken, v)
			}
		}
	}
	for _, f := range refs {
		if v, ok := out[f.name]; ok {
			m.used[at+"."+f.name] = v
		}
	}
	return out
}

// pinned are the values that the variant names itself.
func (m *maker) pinned(refs []field, at string) map[string]any {
	if m.v.refs == nil {
		return nil
	}
	out := map[string]any{}
	for _, f := range refs {
		if v, ok := m.v.refs[at+"."+f.name]; ok {
			out[f.name] = v
			m.used[at+"."+f.name] = v
		}
	}
	return out
}

func (m *maker) value(name string, s *schema, at string, depth int) any {
	if depth > maxDepth {
		return nil
	}
	switch {
	case len(s.fixed) > 0:
		return s.fixed[m.v.turn%len(s.fixed)]
	case s.kind == "object" || s.kind == "" && len(s.fields) > 0:
		return m.object(s, at, depth)
	case s.kind == "array":
		return m.list(name, s, at, depth)
	case s.kind == "boolean":
		return m.v.turn%2 == 0
	case s.kind == "null":
		return nil
	}
	if len(s.samples) > 0 && !m.varies(name, s) {
		return s.samples[m.v.turn%len(s.samples)]
	}
	if s.kind == "integer" || s.kind == "number" {
		return m.number(name, s)
	}
	return m.text(name, s)
}

// varies is a field whose sample would hide one call behind another: a name, a text or a number that may be any.
func (m *maker) varies(name string, s *schema) bool {
	if s.kind == "integer" || s.kind == "number" {
		return !identityKey(name) || namesItself(m.t, name)
	}
	if m.r.fresh && (pathLike(name) || identityKey(name)) && !guess(m.t, name) {
		return true
	}
	if s.pattern != "" || s.format != "" {
		return s.format == "email" || s.format == "uuid" || keyLike(name)
	}
	return keyLike(name) || identityKey(name) || anyWord(name, textWords)
}

func (m *maker) list(name string, s *schema, at string, depth int) any {
	items := s.items
	if items == nil {
		items = &schema{kind: "string"}
	}
	n := min(max(s.minItems, 1), 20)
	out := make([]any, n)
	for i := range out {
		made := *m
		if i > 0 {
			made.v.mark, made.v.turn = fmt.Sprintf("%si%d", m.v.mark, i), m.v.turn+i
		}
		if m.r.existing[at] && items.kind != "object" {
			if v, ok := m.pool.one(m.t, field{name: name, schema: items}, made.v.n, m.r, nil); ok {
				out[i], m.used[at] = v, v
				continue
			}
		}
		out[i] = made.value(name, items, at+"[]", depth+1)
	}
	return out
}

func (m *maker) number(name string, s *schema) any {
	turn := m.v.turn
	if identityKey(name) {
		turn = 1000 + m.v.n
	}
	low, high := 1.0, math.Inf(1)
	if s.minimum != nil {
		low = *s.minimum
	}
	if s.maximum != nil {
		high = *s.maximum
		if s.minimum == nil && low > high {
			low = high - 10
		}
	}
	step := s.step
	if step <= 0 {
		step = 1
	}
	low = math.Ceil(low/step) * step
	room := 1e6
	if !math.IsInf(high, 1) {
		room = min(room, math.Floor((high-low)/step)+1)
	}
	v := low + step*float64(turn%max(int(room), 1))
	if v == math.Trunc(v) {
		return json.Number(fmt.Sprintf("%.0f", v))
	}
	return v
}

func (m *maker) text(name string, s *schema) any {
	mark := m.v.mark
	var out string
	switch s.format {
	case "uri", "url", "uri-reference", "iri":
		out = "https://example.com/holdfast-audit/" + mark
	case "email", "idn-email":
		out = mark + "@example.com"
	case "uuid":
		out = fmt.Sprintf("%08x-0000-4000-8000-%012x", sum(mark), m.v.n)
	case "date":
		out = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, m.v.n).Format(time.DateOnly)
	case "date-time":
		out = time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC).AddDate(0, 0, m.v.n).Format(time.RFC3339)
	case "time":
		out = fmt.Sprintf("%02d:%02d:00Z", m.v.n/60%24, m.v.n%60)
	case "ipv4":
		out = fmt.Sprintf("192.0.2.%d", 1+m.v.n%254)
	case "hostname":
		out = mark + ".example.com"
	default:
		out = m.word(name, s)
	}
	if s.pattern != "" {
		if near, ok := beside(s, mark); ok && m.r.fresh {
			out = near
		} else if made, ok := matching(s.pattern, int(sum(mark)>>1)); ok {
			out = made
		} else if len(s.samples) > 0 {
			return s.samples[m.v.turn%len(s.samples)]
		}
	}
	for len(out) < s.minLen {
		out += "x"
	}
	if s.maxLen > 0 && len(out) > s.maxLen {
		out = out[len(out)-s.maxLen:] // the end is what tells marks apart
	}
	return out
}

// beside is a sample with the mark after it, where the pattern lets it be: what it names is of the sample's kind.
func beside(s *schema, mark string) (string, bool) {
	re, err := regexp.Compile(s.pattern)
	if err != nil {
		return "", false
	}
	for _, sample := range s.samples {
		text, ok := sample.(string)
		if ok && re.MatchString(text+mark) && (s.maxLen == 0 || len(text+mark) <= s.maxLen) {
			return text + mark, true
		}
	}
	return "", false
}

func (m *maker) word(name string, s *schema) string {
	switch last := words(name); {
	case keyLike(name):
		return "holdfast-audit-" + m.v.mark
	case pathLike(name):
		return freshPath(m.t, m.pool.dirs, name, m.v.mark)
	case slices.Contains(last, "email"):
		return m.v.mark + "@example.com"
	case slices.Contains(last, "url") || slices.Contains(last, "uri"):
		return "https://example.com/holdfast-audit/" + m.v.mark
	case slices.Contains(last, "currency"):
		return "EUR"
	case slices.Contains(last, "country"):
		return "DE"
	case slices.Contains(last, "date") || len(last) > 0 && last[len(last)-1] == "at":
		return time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC).AddDate(0, 0, m.v.n).Format(time.RFC3339)
	case slices.Contains(last, "phone"):
		return fmt.Sprintf("+15550%06d", sum(m.v.mark)%1000000)
	case identityKey(name) || refLike(name):
		return m.v.mark // a name may have to do without blanks
	}
	return "audit " + m.v.mark
}

// pairs makes an edit that finds its text: the old one is a text of the record that the call names, and the new one
// contains it, so that a repeat finds it again.
func (m *maker) pairs(s *schema, out map[string]any) {
	var older, newer string
	for _, f := range s.fields {
		if _, ok := out[f.name].(string); !ok {
			continue
		}
		switch {
		case anyWord(f.name, oldWords):
			older = f.name
		case anyWord(f.name, newWords):
			newer = f.name
		}
	}
	if older == "" || newer == "" || refLike(older) {
		return
	}
	known, ok := m.pool.content(m.used)
	if !ok {
		return
	}
	out[older], out[newer] = known, known+" "+m.v.mark
}

// sum is a small hash: marks in, different numbers out.
func sum(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

// build makes a set of arguments; used are the references in it, to be pinned in another.
func (r recipe) build(t *tool, p *pool, v variant) (args Args, used map[string]any) {
	if len(r.given) > 0 {
		return inWords(r.given[v.turn%len(r.given)], v.mark).(map[string]any), nil
	}
	m := &maker{t: t, r: r, v: v, pool: p, used: map[string]any{}}
	return m.object(t.schema, "", 0), m.used
}

// inWords puts a word that stood nowhere before in the place of {unique} in the user's arguments.
func inWords(v any, mark string) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "{unique}", mark)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = inWords(e, mark)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = inWords(e, mark)
		}
		return out
	}
	return v
}
