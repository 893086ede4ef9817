package audit

import (
	"context"
	"maps"
	"slices"
	"strings"
)

const maxPages = 10 // of one list

// pages adds the rest of a list to its first page, and reports whether there was more.
func (a *auditor) pages(ctx context.Context, r reading, first any) (all any, more bool) {
	whole, ok := first.(map[string]any)
	if !ok {
		return first, false
	}
	field, ok := cursorField(r.tool.schema)
	if !ok {
		return first, false
	}
	for page, n := whole, 1; n < maxPages && ctx.Err() == nil; n++ {
		key, next := nextPage(page)
		if key == "" {
			break
		}
		more = true
		delete(whole, key)
		value, ok := coerce(field.schema.kind, next)
		if !ok {
			break
		}
		args := maps.Clone(r.args)
		args[field.name] = value
		got := a.server.call(ctx, r.tool.name, args)
		if got.err != nil && unanswered(got.err) {
			return unread, true // a list without its end would look like one that has lost it
		}
		if page, ok = got.value.(map[string]any); !ok || got.wrong() {
			break
		}
		appendLists(whole, page)
	}
	return whole, more
}

func appendLists(whole, page map[string]any) {
	for k, v := range page {
		if rest, isList := v.([]any); isList {
			have, _ := whole[k].([]any)
			whole[k] = append(slices.Clip(have), rest...)
		}
	}
}

var (
	cursorFields = []string{"cursor", "page_token", "pagetoken", "next_token", "nexttoken", "next_cursor", "nextcursor", "after", "starting_after", "page", "offset", "skip", "continuation_token", "continuation"}
	cursorKeys   = []string{"next_cursor", "nextcursor", "next_page_token", "nextpagetoken", "next_token", "nexttoken", "next_page", "nextpage", "next_offset", "nextoffset", "next", "cursor", "continuation_token", "continuation"}
)

// cursorField is where a reader takes the place to go on from.
func cursorField(s *schema) (field, bool) {
	for _, name := range cursorFields {
		for _, f := range s.fields {
			if strings.ToLower(f.name) == name && !f.required {
				return f, true
			}
		}
	}
	return field{}, false
}

// nextPage is what a page says of the next one.
func nextPage(page map[string]any) (key string, next any) {
	for _, name := range cursorKeys {
		for k, v := range page {
			if s, ok := scalar(v); ok && s != "" && strings.ToLower(k) == name {
				return k, v
			}
		}
	}
	return "", nil
}
