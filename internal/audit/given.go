package audit

import (
	"encoding/json"
	"fmt"
	"strings"
)

const maxGiven = 64 // sets of arguments that are kept of a tool

// ParseArgs reads a JSON object of arguments by tool: an object, or a list of objects that are used in turn. The text
// {unique} in a string becomes a new word for each probe.
func ParseArgs(b []byte) (map[string][]Args, error) {
	v, err := parseJSON(b)
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	tools, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf(`an object is needed, by tool: {"create_ticket": {"title": "a {unique} title"}}`)
	}
	out := map[string][]Args{}
	for _, name := range sortedKeys(tools) {
		list, ok := tools[name].([]any)
		if !ok {
			list = []any{tools[name]}
		}
		for i, e := range list {
			args, ok := e.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s: set %d is not an object; write its arguments by name", name, i+1)
			}
			out[name] = append(out[name], args)
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("%s: no arguments; leave the tool out to have them made from its schema", name)
		}
	}
	return out, nil
}

// ParseTraffic reads recorded JSON-RPC messages, one a line, and keeps the arguments of each tools/call. Text before
// the first brace of a line (a time, a direction) is skipped, as are other messages.
func ParseTraffic(b []byte) (map[string][]Args, error) {
	out := map[string][]Args{}
	seen := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		at := strings.IndexAny(line, "{[")
		if at < 0 {
			continue
		}
		v, err := parseJSON([]byte(line[at:]))
		if err != nil {
			continue
		}
		for _, m := range messages(v) {
			name, args, ok := calledTool(m)
			if key := name + text(args); ok && !seen[key] && len(out[name]) < maxGiven {
				seen[key] = true
				out[name] = append(out[name], args)
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no tools/call in it; one JSON-RPC message a line is needed")
	}
	return out, nil
}

// messages are the objects in a line: a message, a batch, or a message wrapped once with notes about it.
func messages(v any) []map[string]any {
	switch v := v.(type) {
	case []any:
		var out []map[string]any
		for _, e := range v {
			out = append(out, messages(e)...)
		}
		return out
	case map[string]any:
		if _, ok := v["method"]; ok {
			return []map[string]any{v}
		}
		for _, e := range v {
			if s, ok := e.(string); ok && strings.Contains(s, callTool) {
				var inner any
				if json.Unmarshal([]byte(s), &inner) == nil {
					e = inner
				}
			}
			if m, ok := e.(map[string]any); ok && m["method"] != nil {
				return []map[string]any{m}
			}
		}
	}
	return nil
}

func calledTool(m map[string]any) (string, Args, bool) {
	params, _ := m["params"].(map[string]any)
	name, _ := params["name"].(string)
	if m["method"] != callTool || name == "" {
		return "", nil, false
	}
	args, ok := params["arguments"].(map[string]any)
	if !ok {
		args = Args{}
	}
	return name, args, true
}
