package idempotency

import (
	"slices"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/canon"
)

// Field is one entry of the published list: something of a request's body that does not count (semantics 16).
type Field struct {
	API    API
	Path   string // members by name, [] for each element of an array
	What   What
	Roles  []string // What is Ends: of which messages; empty: always. "none" is a message without a role
	Reason string
}

// What of a field does not count.
type What string

const (
	Whole  What = "the field"
	Rest   What = "all of it but what is named below it"
	Named  What = "nothing: it counts"
	Ends   What = "white space at both ends"
	Schema What = "the field, if schema_version is set"
)

// Published returns the list. docs/keys.md shows it to users; a test holds the two equal.
func Published() []Field { return slices.Clone(published) }

const (
	tracing   = "tracing data of the caller's own; a new trace must not make a new operation"
	routing   = "a hint for the provider's prompt cache: changes price and speed, not the answer"
	transport = "belongs to the message, not to the call: progress tokens, trace ids"
	prompt    = "templates and editors leave them; no model is asked something else by them"
	versioned = "the workflow's schema_version stands for it"
)

var published = []Field{
	{Chat, "metadata", Whole, nil, tracing},
	{Chat, "prompt_cache_key", Whole, nil, routing},
	{Chat, "messages[].content[].cache_control", Whole, nil, routing},
	{Chat, "messages[].content", Ends, []string{"system", "developer", "user"}, prompt},
	{Chat, "response_format.json_schema.schema", Schema, nil, versioned},

	{Responses, "metadata", Whole, nil, tracing},
	{Responses, "prompt_cache_key", Whole, nil, routing},
	{Responses, "instructions", Ends, nil, prompt},
	{Responses, "input", Ends, nil, prompt},
	{Responses, "input[].content", Ends, []string{"system", "developer", "user"}, prompt},
	{Responses, "text.format.schema", Schema, nil, versioned},

	{Messages, "metadata", Rest, nil, tracing},
	{Messages, "metadata.user_id", Named, nil, "keeps two end users' answers apart, like OpenAI's user"},
	{Messages, "cache_control", Whole, nil, routing},
	{Messages, "tools[].cache_control", Whole, nil, routing},
	{Messages, "system[].cache_control", Whole, nil, routing},
	{Messages, "messages[].content[].cache_control", Whole, nil, routing},
	{Messages, "messages[].content[].content[].cache_control", Whole, nil, routing},
	{Messages, "messages[].content[].source.content[].cache_control", Whole, nil, routing},
	{Messages, "system", Ends, nil, prompt},
	{Messages, "messages[].content", Ends, []string{"system", "user"}, prompt},
	{Messages, "output_format.schema", Schema, nil, versioned},
	{Messages, "output_config.format.schema", Schema, nil, versioned},

	{Generate, "labels", Whole, nil, tracing},
	{Generate, "systemInstruction.parts", Ends, nil, prompt},
	{Generate, "system_instruction.parts", Ends, nil, prompt},
	{Generate, "contents[].parts", Ends, []string{"none", "user"}, prompt},
	{Generate, "generationConfig.responseSchema", Schema, nil, versioned},
	{Generate, "generationConfig.responseJsonSchema", Schema, nil, versioned},
	{Generate, "generation_config.response_schema", Schema, nil, versioned},
	{Generate, "generation_config.response_json_schema", Schema, nil, versioned},

	{Converse, "requestMetadata", Whole, nil, tracing},
	{Converse, "system", Ends, nil, prompt},
	{Converse, "messages[].content", Ends, []string{"user"}, prompt},

	{Ollama, "messages[].content", Ends, []string{"system", "user"}, prompt},
	{Ollama, "format", Schema, nil, versioned},

	{Tool, "_meta", Whole, nil, transport},

	{Message, "id", Whole, nil, "JSON-RPC's number of the message"},
	{Message, "_meta", Whole, nil, transport},
	{Message, "params._meta", Whole, nil, transport},
}

// rules makes the canonicaliser's rules for one format. nil: everything counts.
func rules(api API, ignore [][]string, schemaVersion bool) *canon.Rule {
	root := &canon.Rule{}
	for _, f := range published {
		if f.API == api && (f.What != Schema || schemaVersion) {
			f.add(root)
		}
	}
	for _, path := range ignore {
		drop(root, path)
	}
	if len(root.Members) == 0 {
		return nil
	}
	return root
}

func (f *Field) add(root *canon.Rule) {
	rule, parent := root, root
	for _, step := range strings.Split(f.Path, ".") {
		name, isArray := strings.CutSuffix(step, "[]")
		parent, rule = rule, rule.Get(name)
		if isArray {
			if rule.Each == nil {
				rule.Each = &canon.Rule{}
			}
			parent, rule = rule, rule.Each
		}
	}
	switch f.What {
	case Whole, Schema:
		rule.Drop = true
	case Rest:
		rule.Others = true
	case Ends:
		rule.Text = true
		for _, role := range f.Roles {
			parent.Roles = append(parent.Roles, strings.TrimSuffix(role, "none"))
		}
	}
}

// drop leaves out what a policy's ignore names. Its paths pass through arrays, however deep: messages.name is the
// name of every message.
func drop(rule *canon.Rule, path []string) {
	if rule.Each == nil {
		rule.Each = rule
	}
	if rule.Each != rule {
		drop(rule.Each, path)
	}
	sub := rule.Get(path[0])
	if len(path) == 1 {
		sub.Drop = true
		return
	}
	drop(sub, path[1:])
}
