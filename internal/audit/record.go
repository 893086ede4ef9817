package audit

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// run gives the words that mark what this audit wrote.
type run struct {
	prefix string
	n      int
}

func newRun() *run {
	return &run{prefix: "hf" + strconv.FormatInt(time.Now().UnixMilli()%(36*36*36*36*36), 36)}
}

// mark is a word that stood nowhere before. It ends in a letter, so that no mark is the beginning of another.
func (r *run) mark() (string, int) {
	r.n++
	return r.prefix + "n" + strconv.Itoa(r.n) + "x", r.n
}

func (r *run) owns(s string) bool { return strings.Contains(s, r.prefix+"n") }

// record is something that the server keeps: what a read showed, or what a call of ours put there.
type record struct {
	kind   []string // words of the list that it stands in, or of the tool that made it
	values map[string]any
	own    bool // made by this audit
}

// primary is the value by which the record is named.
func (r record) primary() string {
	keys := sortedKeys(r.values)
	slices.SortStableFunc(keys, func(a, b string) int { return keyRank(a) - keyRank(b) })
	for _, k := range keys {
		if s, ok := scalar(r.values[k]); ok && s != "" && identityKey(k) {
			return s
		}
	}
	return ""
}

// pool is what is known of the server's records.
type pool struct {
	seen []record        // by the latest reads
	made []record        // by our calls
	gone map[string]bool // primary values that a call of ours may have removed
	dirs []string        // folders that the server reported
}

func newPool() *pool { return &pool{gone: map[string]bool{}} }

const maxRecords = 2000

// look takes in a state's records, newest knowledge first.
func (p *pool) look(s state, r *run) {
	p.seen = p.seen[:0]
	for _, source := range sortedKeys(s.values) {
		p.harvest(s.values[source], words(source), r)
	}
	p.dirs = directories(s)
}

func (p *pool) harvest(v any, kind []string, r *run) {
	if len(p.seen) >= maxRecords {
		return
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if s, ok := scalar(e); ok && len(s) < 200 && !strings.Contains(s, "\n") {
				p.line(e, s, kind, r)
				continue
			}
			p.harvest(e, kind, r)
		}
	case map[string]any:
		values := map[string]any{}
		keyed := keyedMap(v)
		for _, k := range sortedKeys(v) {
			switch e := v[k].(type) {
			case map[string]any:
				if keyed {
					e = maps.Clone(e)
					if _, named := e["id"]; !named {
						e["id"] = k
					}
					p.harvest(e, kind, r)
					continue
				}
				if n := nameless(e); n {
					p.keys(e, words(k), r)
				}
				p.harvest(e, words(k), r)
			case []any:
				values[k] = e
				p.harvest(e, words(k), r)
			default:
				values[k] = e
			}
		}
		if len(values) > 0 {
			p.seen = append(p.seen, record{kind, values, r.owns(text(values))})
		}
	}
}

// line takes a plain value of a list, or a line of text, in: as it is, and as what its first id or its beginning names.
func (p *pool) line(v any, s string, kind []string, r *run) {
	values := map[string]any{scalarKey(kind): v}
	if strings.ContainsAny(s, " :\t") {
		values = map[string]any{}
		if id := written.FindString(s); id != "" {
			values["id"] = id
		} else if head, _, ok := strings.Cut(s, ":"); ok && head != "" && !strings.Contains(head, " ") {
			values["id"] = strings.Trim(head, "-*[]() ")
		} else {
			return
		}
	}
	p.seen = append(p.seen, record{kind, values, r.owns(s)})
}

// written finds an id in a line of a list.
var written = regexp.MustCompile(`\b([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[A-Za-z]{1,12}[-_][0-9][A-Za-z0-9]*)\b`)

// scalarKey is what a plain value in a list is called: an account, in accounts.
func scalarKey(kind []string) string {
	if len(kind) == 0 {
		return "value"
	}
	return singular(kind[len(kind)-1])
}

// nameless is an object of plain values without a name of its own, which may be a set of settings or counters by name.
func nameless(m map[string]any) bool {
	for k, v := range m {
		if _, nested := v.(map[string]any); nested || identityKey(k) && len(words(k)) == 1 {
			return false
		}
	}
	return len(m) > 0
}

func (p *pool) keys(m map[string]any, kind []string, r *run) {
	for _, k := range sortedKeys(m) {
		p.seen = append(p.seen, record{kind, map[string]any{"name": k, "key": k, "value": m[k]}, r.owns(k)})
	}
}

// add remembers what a call of ours put there.
func (p *pool) add(t *tool, args Args, a answer) {
	if a.wrong() || len(p.made) >= maxRecords {
		return
	}
	kind := nouns(t)
	values := map[string]any{}
	for k, v := range args {
		list, ok := v.([]any)
		if !ok {
			values[k] = v
			continue
		}
		values[k] = v
		for _, e := range list {
			if m, ok := e.(map[string]any); ok {
				p.made = append(p.made, record{append(words(k), kind...), m, true})
			}
		}
	}
	answered := a.value
	if s, ok := answered.(string); ok {
		if id := named.FindString(s); id != "" && values["id"] == nil {
			values["id"] = id
		}
	}
	if m, ok := answered.(map[string]any); ok {
		if len(m) == 1 {
			for _, inner := range m {
				if im, ok := inner.(map[string]any); ok {
					m = im
				}
			}
		}
		for k, v := range m {
			if _, ok := scalar(v); ok && identityKey(k) && values[k] == nil {
				values[k] = v
			}
		}
	}
	p.made = append(p.made, record{kind, values, true})
}

// named finds an id in a sentence: letters and digits together, or a UUID.
var named = regexp.MustCompile(`\b([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[A-Za-z]{1,12}[-_][0-9][A-Za-z0-9]*|#?\d+)\b`)

// nouns are the words of a tool's name that are no verbs.
func nouns(t *tool) []string {
	var out []string
	for i, w := range t.words {
		if i == 0 && (slices.Contains(createVerbs, w) || slices.Contains(destroyVerbs, w) || slices.Contains(readVerbs, w) || len(t.words) > 1) {
			continue
		}
		out = append(out, w)
	}
	return out
}

// all are the records that may be referred to: what calls made, and what reads show now. Of what calls made, that which
// reads do not show is left out where they show others of its kind: it was lost.
func (p *pool) all() []record {
	shown, kinds := map[string]bool{}, map[string]bool{}
	for _, r := range p.seen {
		shown[r.primary()] = true
	}
	for _, r := range p.made {
		if shown[r.primary()] {
			kinds[strings.Join(r.kind, " ")] = true
		}
	}
	out := make([]record, 0, len(p.seen)+len(p.made))
	for _, r := range p.made {
		if id := r.primary(); id == "" || !p.gone[id] && (shown[id] || !kinds[strings.Join(r.kind, " ")]) {
			out = append(out, r)
		}
	}
	for _, r := range p.seen {
		if id := r.primary(); id == "" || !p.gone[id] {
			out = append(out, r)
		}
	}
	return out
}

// spent are records that a call of ours should have removed and that reads still show.
func (p *pool) spent() []record {
	return slices.DeleteFunc(slices.Clone(p.seen), func(r record) bool { return !p.gone[r.primary()] })
}

// directories are absolute paths that stand by themselves in what was read.
func directories(s state) []string {
	var out []string
	for _, source := range sortedKeys(s.values) {
		if !strings.Contains(source, "dir") && !strings.Contains(source, "root") && !strings.Contains(source, "allowed") && !strings.Contains(source, "folder") {
			continue
		}
		walk(s.values[source], "", func(_, _ string, leaf any) {
			d, _ := leaf.(string)
			if d = strings.TrimPrefix(strings.Trim(d, " -*\t"), "file://"); path.IsAbs(d) && !strings.ContainsAny(d, "\n:") && !slices.Contains(out, d) {
				out = append(out, d)
			}
		})
	}
	return out
}
