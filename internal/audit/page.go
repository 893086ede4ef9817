package audit

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

const maxPages = 20 // of one reading

// Names of the ways in which lists are cut into pages, in lower case without separators.
var (
	cursorFields = []string{"cursor", "pagetoken", "nexttoken", "continuationtoken", "continuation", "after", "startingafter", "startkey", "marker"}
	cursorKeys   = []string{"nextcursor", "nextpagetoken", "nexttoken", "continuationtoken", "continuation", "nextpage", "next", "endcursor", "nextmarker", "cursor"}
	pageFields   = []string{"page", "pagenumber"}
	offsetFields = []string{"offset", "skip"}
	moreKeys     = []string{"hasmore", "more", "hasnext", "hasnextpage", "truncated"}
)

func squeezed(name string) string { return strings.Join(words(name), "") }

// fieldNamed is the field of a tool that has one of the names.
func (t *tool) fieldNamed(names []string) (string, bool) {
	for _, f := range t.schema.fields {
		if slices.Contains(names, squeezed(f.name)) {
			return f.name, true
		}
	}
	return "", false
}

// allPages follows a reading from page to page, for what a write adds may stand on the last. The pages' lists are
// joined; what leads from one to the next is no data.
func (a *auditor) allPages(ctx context.Context, r reading, first any) any {
	i := slices.IndexFunc(a.all, func(t *tool) bool { return t.name == r.tool })
	page, ok := first.(map[string]any)
	if i < 0 || !ok {
		return first
	}
	joined := first
	for range maxPages {
		args, more := nextPage(a.all[i], r.args, page, joined)
		if !more || ctx.Err() != nil {
			break
		}
		got := a.server.call(ctx, r.tool, args)
		next, ok := got.value.(map[string]any)
		if got.wrong() || !ok || text(next) == text(page) || entries(next) == 0 {
			break
		}
		joined, page = join(joined, next), next
	}
	if m, ok := joined.(map[string]any); ok {
		if _, cut := a.all[i].fieldNamed(cursorFields); cut {
			return withoutCursor(m)
		}
	}
	return joined
}

// nextPage are the arguments of the page after this one, if it says that there is one.
func nextPage(t *tool, args Args, page map[string]any, joined any) (Args, bool) {
	with := func(name string, v any) (Args, bool) {
		out := maps.Clone(args)
		if out == nil {
			out = Args{}
		}
		out[name] = v
		return out, true
	}
	if name, ok := t.fieldNamed(cursorFields); ok {
		if v, ok := valueOf(page, cursorKeys); ok {
			return with(name, v)
		}
		return nil, false
	}
	if more, _ := valueOf(page, moreKeys); more != true {
		return nil, false
	}
	if name, ok := t.fieldNamed(offsetFields); ok {
		return with(name, json.Number(itoa(entries(joined))))
	}
	if name, ok := t.fieldNamed(pageFields); ok {
		last := 1
		if n := number(args[name]); n != nil {
			last = int(*n)
		}
		if n, _ := valueOf(page, pageFields); number(n) != nil {
			last = int(*number(n))
		}
		return with(name, json.Number(itoa(last+1)))
	}
	return nil, false
}

// valueOf is the value of the first key with one of the names that has one, in the object or in one of its parts.
func valueOf(m map[string]any, names []string) (any, bool) {
	for _, want := range names {
		for _, k := range sortedKeys(m) {
			if v := m[k]; squeezed(k) == want && v != nil && v != "" && v != false {
				if _, nested := v.(map[string]any); !nested {
					return v, true
				}
			}
		}
	}
	for _, k := range sortedKeys(m) {
		if part, ok := m[k].(map[string]any); ok && len(m) < 8 {
			if v, ok := valueOf(part, names); ok {
				return v, true
			}
		}
	}
	return nil, false
}

// entries is how many elements the lists of a page have.
func entries(v any) int {
	n := 0
	if m, ok := v.(map[string]any); ok {
		for _, e := range m {
			if l, ok := e.([]any); ok {
				n += len(l)
			}
		}
	}
	return n
}

// join appends the lists of a page to those of the pages before it.
func join(all any, next map[string]any) any {
	m, ok := all.(map[string]any)
	if !ok {
		return all
	}
	out := maps.Clone(m)
	for k, v := range next {
		if l, ok := v.([]any); ok {
			have, _ := out[k].([]any)
			out[k] = slices.Concat(have, l)
		}
	}
	return out
}

func withoutCursor(m map[string]any) map[string]any {
	out := maps.Clone(m)
	maps.DeleteFunc(out, func(k string, v any) bool {
		_, list := v.([]any)
		return slices.Contains(cursorKeys, squeezed(k)) && !list
	})
	return out
}
