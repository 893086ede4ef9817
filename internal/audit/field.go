package audit

import (
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Classes of names. Like verbs, they are guesses whose cost is a trial.
var (
	pathWords   = []string{"path", "paths", "file", "files", "filename", "filepath", "dir", "directory", "folder", "source", "src", "destination", "dest", "dst"}
	targetWords = []string{"destination", "dest", "dst", "target", "to", "into"}
	refWords    = []string{"from", "to", "source", "target", "parent", "child", "owner", "sender", "receiver", "recipient", "account", "counter", "user", "customer", "item", "entity", "list", "queue", "device", "document", "doc", "note", "task", "ticket", "order", "product", "project", "assignee", "slot", "room", "topic", "channel", "wallet", "record", "resource", "object"}
	keyNames    = []string{"idempotency_key", "idempotencykey", "idempotency", "request_id", "requestid", "client_token", "clienttoken", "dedup_key", "dedupe_key", "deduplication_id", "client_request_id", "clientrequestid", "operation_id", "operationid", "op_id", "nonce", "transaction_id", "client_id_key", "dedup_id", "request_key", "once_key"}
	oldWords    = []string{"old", "search", "find", "match", "original", "before", "needle"}
	newWords    = []string{"new", "replace", "replacement", "after", "with"}
	textWords   = []string{"content", "contents", "body", "text", "message", "note", "comment", "description", "subject", "value", "data", "line", "entry", "amount", "quantity", "count", "reason", "summary", "observation", "observations"}
	moodWords   = []string{"dry", "preview", "simulate", "validate", "test", "noop"}
)

func anyWord(name string, list []string) bool {
	return slices.ContainsFunc(words(name), func(w string) bool { return slices.Contains(list, w) })
}

func pathLike(name string) bool { return anyWord(name, pathWords) }

// keyLike is a field by which the caller names one intention.
func keyLike(name string) bool {
	return slices.Contains(keyNames, strings.Join(words(name), "_")) || slices.Contains(keyNames, strings.ToLower(name))
}

// refLike is a field that names a record.
func refLike(name string) bool {
	w := words(name)
	if len(w) == 0 || keyLike(name) {
		return false
	}
	last := w[len(w)-1]
	if len(w) == 1 && last == "title" || last == "url" || last == "uri" {
		return false
	}
	return identityKey(name) || slices.Contains(refWords, singular(last)) || pathLike(name)
}

// mayRefer is a field whose value could be that of a record which exists.
func mayRefer(f field) bool {
	s := f.schema
	if s.kind == "array" && s.items != nil {
		s = s.items
	}
	switch s.kind {
	case "string", "integer", "":
	case "number":
		if !identityKey(f.name) {
			return false
		}
	default:
		return false
	}
	return len(s.fixed) == 0 && !keyLike(f.name) && !anyWord(f.name, textWords)
}

// namesItself is a field that names what the tool makes, rather than something that it needs.
func namesItself(t *tool, name string) bool {
	w := words(name)
	if len(w) == 0 {
		return true // a name of signs only leads to no record
	}
	if len(w) == 1 {
		return !slices.Contains(refWords, singular(w[0])) || slices.Contains(targetWords, w[0]) || pathLike(name) || mentions(t, w)
	}
	return mentions(t, w[:len(w)-1]) || slices.Contains([]string{"new", "full", "first", "last", "display", "user"}, w[0])
}

// guess is whether a field of a tool more likely names a record that exists.
func guess(t *tool, name string) bool {
	switch {
	case anyWord(name, newWords), !refLike(name):
		return false
	case t.has(moveVerbs) && pathLike(name):
		return !anyWord(name, targetWords)
	case t.has(createVerbs) && !t.has(destroyVerbs):
		return !namesItself(t, name)
	}
	return true
}

// coerce is v as the kind that a schema asks for.
func coerce(kind string, v any) (any, bool) {
	switch kind {
	case "string":
		s, ok := scalar(v)
		return s, ok
	case "integer", "number":
		switch v := v.(type) {
		case json.Number:
			return v, true
		case string:
			if _, err := strconv.ParseFloat(v, 64); err == nil {
				return json.Number(v), true
			}
			return nil, false
		case int, int64, float64:
			return v, true
		}
		return nil, false
	case "array":
		_, ok := v.([]any)
		return v, ok
	case "boolean":
		_, ok := v.(bool)
		return v, ok
	case "object":
		_, ok := v.(map[string]any)
		return v, ok
	}
	return v, v != nil
}

// within joins a path below a folder; a name without one stays a name.
func freshPath(t *tool, dirs []string, name, mark string) string {
	file := "holdfast-audit-" + mark
	if !anyWord(name, []string{"dir", "directory", "folder"}) && !mentions(t, []string{"directory", "folder", "dir"}) {
		file += ".txt"
	}
	if len(dirs) == 0 {
		return file
	}
	return path.Join(dirs[0], file)
}
