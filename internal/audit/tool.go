package audit

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Hint is what a tool's annotation says. Absent is not false: the specification's default for readOnlyHint is the
// same, but only one of the two is a statement by the server's author.
type Hint string

const (
	HintAbsent Hint = "absent"
	HintTrue   Hint = "true"
	HintFalse  Hint = "false"
)

// Hints are a tool's annotations as listed.
type Hints struct {
	ReadOnly    Hint `json:"readOnlyHint"`
	Idempotent  Hint `json:"idempotentHint"`
	Destructive Hint `json:"destructiveHint"`
}

// tool is one tool of the server.
type tool struct {
	name   string
	words  []string
	hints  Hints
	schema *schema
	vetted bool // seen to do nothing but read, or to lie
	lies   bool // it says that it only reads, and does not
}

func newTool(t *mcp.Tool, raw map[string]json.RawMessage) *tool {
	hint := func(name string) Hint {
		switch string(raw[name]) {
		case "true":
			return HintTrue
		case "false":
			return HintFalse
		}
		return HintAbsent
	}
	return &tool{
		name: t.Name, words: words(t.Name), schema: newSchema(t.InputSchema),
		hints: Hints{hint("readOnlyHint"), hint("idempotentHint"), hint("destructiveHint")},
	}
}

// writes reports whether the tool is audited.
func (t *tool) writes() bool { return t.hints.ReadOnly != HintTrue || t.lies }

// reads reports whether it is called to look.
func (t *tool) reads() bool { return (t.hints.ReadOnly == HintTrue || t.presumedReader()) && !t.lies }

// Verbs by what a tool so named does to records. A name is a guess, and used where a wrong one costs a trial only.
var (
	readVerbs    = []string{"get", "list", "read", "search", "find", "describe", "show", "count", "query", "fetch", "view", "lookup", "status", "stat", "stats", "dump", "inspect", "peek", "history", "snapshot", "export", "check", "info"}
	createVerbs  = []string{"create", "add", "new", "register", "insert", "post", "open", "make", "submit", "place", "book", "schedule", "record", "log", "append", "send", "write", "upload", "save", "store", "issue", "start", "enqueue", "push", "import", "invite", "publish", "order", "buy", "pay", "charge", "reserve", "put", "upsert", "emit", "notify"}
	destroyVerbs = []string{"delete", "remove", "destroy", "drop", "purge", "clear", "reset", "wipe", "cancel", "revoke", "archive", "close", "unregister", "truncate", "erase", "flush", "release", "pop", "dequeue", "consume", "take", "detach", "unlink", "void", "refund", "trash"}
	moveVerbs    = []string{"move", "rename", "transfer", "swap", "copy"}
)

func (t *tool) has(verbs []string) bool {
	return slices.ContainsFunc(t.words, func(w string) bool { return slices.Contains(verbs, w) })
}

// first is whether the name begins with one of the verbs.
func (t *tool) first(verbs []string) bool {
	return len(t.words) > 0 && slices.Contains(verbs, t.words[0])
}

// presumedReader is a tool that does not say what it is and is named like a read: it may be called to look, and is
// audited nevertheless.
func (t *tool) presumedReader() bool {
	return t.hints.ReadOnly == HintAbsent && t.first(readVerbs) && !t.has(createVerbs) && !t.has(destroyVerbs)
}

// order puts the tools that make records before those that change, move and remove them.
func (t *tool) order() int {
	switch {
	case t.has(destroyVerbs):
		return 3
	case t.has(moveVerbs):
		return 2
	case t.first(createVerbs):
		return 0
	}
	return 1
}

// words splits a name at punctuation and at changes of case, in lower case: "createTicket_id" is create, ticket, id.
func words(name string) []string {
	var out []string
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 {
			out = append(out, strings.ToLower(word.String()))
			word.Reset()
		}
	}
	lower := false
	for _, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter || lower && r >= 'A' && r <= 'Z' {
			flush()
		}
		if letter {
			word.WriteRune(r)
		}
		lower = r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
	}
	flush()
	return out
}

// singular is a crude stem: enough to see that tickets hold a ticket.
func singular(w string) string {
	switch {
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		return w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "xes"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "shes"):
		return w[:len(w)-2]
	case strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") && !strings.HasSuffix(w, "is") && len(w) > 3:
		return w[:len(w)-1]
	}
	return w
}

func sameWord(a, b string) bool { return singular(a) == singular(b) }
