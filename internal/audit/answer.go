package audit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// answer is how one call ended, from its caller's side.
type answer struct {
	value  any   // of a result
	parts  []any // its content, one value per block
	err    error // no result: the protocol's error, or none at all
	failed bool  // a result that says it is an error
	silent bool  // err stands for an answer that never came
	replay bool  // the far side marks it as an earlier answer
	held   bool  // … or says that what became of the call is not known, and that nothing was done now
}

func newAnswer(r *mcp.CallToolResult) answer {
	a := answer{value: resultValue(r), failed: r.IsError, replay: marked(r.Meta, "replay"), held: marked(r.Meta, "unknown")}
	for _, c := range r.Content {
		a.parts = append(a.parts, contentValue(&mcp.CallToolResult{Content: []mcp.Content{c}}))
	}
	return a
}

// marked looks in _meta for a word of a gateway such as ours: that an answer is a replay, or that it holds what is unknown.
func marked(meta mcp.Meta, word string) bool {
	for k, v := range meta {
		if strings.Contains(strings.ToLower(k), word) && v != false && v != nil {
			return true
		}
		if s, ok := v.(string); ok && strings.Contains(s, word) {
			return true
		}
		if m, ok := v.(map[string]any); ok && marked(m, word) {
			return true
		}
	}
	return false
}

// wrong reports whether the caller would take the call for failed.
func (a answer) wrong() bool { return a.err != nil || a.failed }

// says is the answer in a line.
func (a answer) says() string {
	switch {
	case a.err != nil:
		return "error: " + cut(a.err.Error(), 160)
	case a.failed:
		return "error: " + short(a.value)
	}
	return short(a.value)
}

// same reports whether two answers tell their callers the same. Words that a gateway adds to a replay it marks as one
// do not count.
func same(a, b answer) bool {
	if a.wrong() != b.wrong() {
		return false
	}
	if a.err != nil || b.err != nil {
		return timeless(fmt.Sprint(a.err)) == timeless(fmt.Sprint(b.err))
	}
	if text(plain(a.value, true)) == text(plain(b.value, true)) {
		return true
	}
	return b.replay && within(a.parts, b.parts) || a.replay && within(b.parts, a.parts)
}

// within reports whether all of few stand in many.
func within(few, many []any) bool {
	for _, f := range few {
		want := text(plain(f, true))
		if !slices.ContainsFunc(many, func(m any) bool { return text(plain(m, true)) == want }) {
			return false
		}
	}
	return true
}

// identities are the values in v that look like names of records: leaves of keys that end in id, key, name and the
// like, by their path without indexes.
func identities(v any) map[string][]string {
	out := map[string][]string{}
	walk(v, "", func(path, key string, leaf any) {
		if s, ok := scalar(leaf); ok && s != "" && identityKey(key) {
			out[path] = append(out[path], s)
		}
	})
	return out
}

// walk visits the leaves of v; path has [] for any index, and key is the innermost name.
func walk(v any, path string, visit func(path, key string, leaf any)) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(v) {
			p := path + "." + k
			if _, nested := v[k].([]any); nested {
				p += "[]"
			}
			walkUnder(v[k], p, k, visit)
		}
	case []any:
		for _, e := range v {
			walk(e, path, visit)
		}
	default:
		visit(path, "", v)
	}
}

func walkUnder(v any, path, key string, visit func(path, key string, leaf any)) {
	switch v := v.(type) {
	case map[string]any:
		walk(v, path, visit)
	case []any:
		for _, e := range v {
			walkUnder(e, path, key, visit)
		}
	default:
		visit(path, key, v)
	}
}

// scalar is a string or an integer as text.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), !strings.ContainsAny(v.String(), ".eE")
	}
	return "", false
}

var identityWords = []string{"id", "uuid", "guid", "key", "name", "number", "no", "ref", "reference", "code", "slug", "uri", "url", "path", "sku", "handle", "email", "username", "title"}

func identityKey(key string) bool {
	w := words(key)
	return len(w) > 0 && slices.Contains(identityWords, singular(w[len(w)-1]))
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
