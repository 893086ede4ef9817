package audit

import (
	"regexp"
	"slices"
	"strings"
)

// scored is a record with the values that it has for some fields.
type scored struct {
	values map[string]any
	score  int
	id     string
}

// together finds a record that has a value for every one of the fields. turn picks among the equally good.
func (p *pool) together(t *tool, fields []field, turn int, from recipe) map[string]any {
	for _, records := range [][]record{p.all(), p.spent()} {
		if values := p.fitting(t, fields, turn, from, records); values != nil {
			return values
		}
	}
	return nil
}

func (p *pool) fitting(t *tool, fields []field, turn int, from recipe, records []record) map[string]any {
	var found []scored
	for _, r := range records {
		if from.kind != "" && from.kind != strings.Join(r.kind, " ") {
			continue
		}
		values, total := map[string]any{}, 0
		for _, f := range fields {
			v, score := p.resolve(t, r, f, len(fields) > 1)
			if score < from.least() {
				total = 0
				break
			}
			values[f.name] = v
			total += score
		}
		if total > 0 {
			found = append(found, scored{values, 10*total + p.standing(r, from), r.primary()})
		}
	}
	return pick(found, turn)
}

// one finds a value for a single field, which is none of those taken.
func (p *pool) one(t *tool, f field, turn int, from recipe, taken []any) (any, bool) {
	for _, records := range [][]record{p.all(), p.spent()} {
		var found []scored
		for _, r := range records {
			v, score := p.resolve(t, r, f, false)
			other := from.kind != "" && from.kind != strings.Join(r.kind, " ")
			if score >= from.least() && !other && !slices.ContainsFunc(taken, func(x any) bool { return text(x) == text(v) }) {
				found = append(found, scored{map[string]any{f.name: v}, 10*score + p.standing(r, from), r.primary()})
			}
		}
		if v, ok := pick(found, turn)[f.name]; ok {
			return v, true
		}
	}
	return nil, false
}

// standing prefers records that this audit made: what others put there is better left alone.
func (p *pool) standing(r record, from recipe) int {
	if r.own && !from.weak {
		return 4
	}
	return 0
}

// pick takes turns among the records of the best score.
func pick(found []scored, turn int) map[string]any {
	if len(found) == 0 {
		return nil
	}
	best := 0
	for _, f := range found {
		best = max(best, f.score)
	}
	var top []scored
	for _, f := range found {
		if f.score == best && !slices.ContainsFunc(top, func(x scored) bool { return text(x.values) == text(f.values) }) {
			top = append(top, f)
		}
	}
	return top[turn%len(top)].values
}

// resolve is the value of a record for a field, and how sure it is; 0 is none.
func (p *pool) resolve(t *tool, r record, f field, part bool) (any, int) {
	best, score := any(nil), 0
	for _, k := range sortedKeys(r.values) {
		n := affinity(t, r.kind, k, f.name, part)
		if n == 0 || n <= score {
			continue
		}
		v := r.values[k]
		if list, ok := v.([]any); ok && f.schema.kind != "array" {
			if len(list) == 0 {
				continue
			}
			v = list[0]
		}
		if fitted, ok := shaped(f.schema, v); ok {
			best, score = fitted, n
		}
	}
	return best, score
}

// shaped is v as the schema asks for it; a single value becomes a list of one, and of a list no more is taken than must be: a call
// that names all there is leaves the next one nothing, and does many times what one does that names one.
func shaped(s *schema, v any) (any, bool) {
	if s.kind == "array" {
		items := s.items
		if items == nil {
			items = &schema{}
		}
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		var out []any
		for _, e := range list {
			if fitted, ok := coerce(items.kind, e); ok {
				out = append(out, fitted)
			}
		}
		return out[:min(len(out), max(s.minItems, 1))], len(out) > 0
	}
	v, ok := coerce(s.kind, v)
	if text, isText := v.(string); ok && isText && s.pattern != "" {
		re, err := regexp.Compile(s.pattern)
		ok = err != nil || re.MatchString(text)
	}
	return v, ok
}

// affinity is how well the key of a record of a kind answers to the name of a tool's field.
func affinity(t *tool, kind []string, key, want string, part bool) int {
	k, w := words(key), words(want)
	if len(k) == 0 || len(w) == 0 {
		return 0
	}
	about := func(ws []string) bool {
		return slices.ContainsFunc(ws, func(x string) bool {
			return slices.ContainsFunc(kind, func(have string) bool { return sameWord(have, x) })
		})
	}
	lastKey, lastWant := singular(k[len(k)-1]), singular(w[len(w)-1])
	switch {
	case pathLike(want) && pathLike(key):
		return 6
	case sameName(key, want):
		if len(w) == 1 && identityKey(want) && about(t.words) {
			return 8 // id, in a list of what the tool speaks of
		}
		return 5
	case len(k) == 1 && len(w) > 1 && lastKey == lastWant && identityKey(want):
		if about(w[:len(w)-1]) {
			return 7 // ticket_id is the id of tickets
		}
		return 1
	case len(w) == 1 && len(k) > 1 && lastKey == lastWant && identityKey(want) && mentions(t, k[:len(k)-1]):
		return 5 // id of delete_ticket is the ticket_id of a record
	case len(k) == 1 && len(w) == 2 && identityKey(want) && sameWord(k[0], w[0]):
		return 6 // account_id, in a list of accounts by name
	case part:
		return 0
	case identityKey(key) && keyRank(key) < 3:
		if about(w) || identityKey(want) && about(t.words) {
			return 4 - keyRank(key) // account is the id of accounts
		}
		if refLike(want) && keyRank(key) != 1 {
			return 1
		}
	}
	return 0
}

// content is a text of the record that is named by what a call refers to.
func (p *pool) content(used map[string]any) (string, bool) {
	for _, r := range p.all() {
		named := false
		for _, v := range used {
			for _, have := range r.values {
				named = named || text(have) == text(v)
			}
		}
		if !named {
			continue
		}
		for _, k := range sortedKeys(r.values) {
			if s, ok := r.values[k].(string); ok && s != "" && !identityKey(k) && !pathLike(k) && !keyLike(k) {
				return strings.TrimRight(s, "\n"), true
			}
		}
	}
	return "", false
}

// recipes are the ways to make arguments that are worth a trial, the likeliest first.
func (p *pool) recipes(t *tool) []recipe {
	refs := map[string]bool{}
	optional := collect(t.schema, "", refs)
	guessed, all, none := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for p := range refs {
		name := p[strings.LastIndexByte(p, '.')+1:]
		guessed[p], all[p] = guess(t, strings.TrimSuffix(name, "[]")), true
	}
	var out []recipe
	add := func(r recipe) {
		if !slices.ContainsFunc(out, func(o recipe) bool {
			return o.all == r.all && o.whole == r.whole && text(o.existing) == text(r.existing)
		}) {
			out = append(out, r)
		}
	}
	if t.has(destroyVerbs) && len(refs) > 0 {
		add(recipe{existing: all, whole: true})
	}
	add(recipe{existing: guessed})
	if optional {
		add(recipe{existing: guessed, all: true})
	}
	for _, set := range []map[string]bool{all, none} {
		add(recipe{existing: set})
		if optional {
			add(recipe{existing: set, all: true})
		}
	}
	if len(refs) > 1 {
		for _, p := range sortedKeys(refs) {
			flipped := map[string]bool{}
			for q, v := range guessed {
				flipped[q] = v != (q == p)
			}
			add(recipe{existing: flipped})
		}
	}
	out = out[:min(len(out), 7)]
	if len(refs) > 0 {
		for _, kind := range p.kinds() {
			out = append(out, recipe{existing: all, weak: true, kind: kind})
		}
	}
	return out
}

const maxKinds = 6 // of records that a field is tried with whose name leads to none

// kinds are the sorts of records with a name, those that were there before the audit first.
func (p *pool) kinds() []string {
	var others, own []string
	for _, r := range p.all() {
		k := strings.Join(r.kind, " ")
		if r.primary() == "" || slices.Contains(others, k) {
			continue
		}
		if !r.own {
			others = append(others, k)
		} else if !slices.Contains(own, k) {
			own = append(own, k)
		}
	}
	own = slices.DeleteFunc(own, func(k string) bool { return slices.Contains(others, k) })
	all := append(others, own...)
	return all[:min(len(all), maxKinds)]
}

// collect finds the fields that may name a record, by path, and whether there are properties that may be left out.
func collect(s *schema, at string, refs map[string]bool) (optional bool) {
	if strings.Count(at, ".") > maxDepth {
		return false
	}
	for _, f := range s.fields {
		p := at + "." + f.name
		optional = optional || !f.required && !keyLike(f.name) && !anyWord(f.name, moodWords)
		if mayRefer(f) {
			refs[p] = true
		}
		switch {
		case f.schema.kind == "array" && f.schema.items != nil && len(f.schema.items.fields) > 0:
			optional = collect(f.schema.items, p+"[]", refs) || optional
		case len(f.schema.fields) > 0:
			optional = collect(f.schema, p, refs) || optional
		}
	}
	return optional
}

// settled is the recipe of a call that worked: only what named a record then names one again.
func (r recipe) settled(used map[string]any) recipe {
	if len(r.given) > 0 {
		return r
	}
	r.existing = map[string]bool{}
	for at := range used {
		r.existing[at] = true
	}
	r.whole = r.whole && len(used) > 0
	return r
}
