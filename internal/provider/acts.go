package provider

import (
	"strconv"

	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
)

// acts is the one table of what makes a provider act in the world, rather than only answer (semantics 2). It
// returns where the request's member key says so, or "".
//
// Hosted tools that only read or compute (web and file search, code interpreters, image generation) are not in
// it: repeating them costs money and changes nothing.
func acts(key string, val jsonview.Value) string {
	switch key {
	case "tools":
		return actingTool(val)
	case "mcp_servers": // Anthropic
		if val.Filled() {
			return key
		}
	case "conversation": // OpenAI appends the turn to it
		if val.Filled() {
			return key
		}
	}
	return ""
}

func actingTool(tools jsonview.Value) string {
	for i, a := 0, tools.Array(); ; i++ {
		tool, ok := a.Next()
		if !ok {
			return ""
		}
		if what := toolActs(tool); what != "" {
			return "tools[" + strconv.Itoa(i) + "]." + what
		}
	}
}

// toolActs looks at every member, repeated ones too: which of them the provider takes is not ours to guess.
func toolActs(tool jsonview.Value) string {
	what, asks, runs := "", false, false
	for o := tool.Object(); ; {
		key, val, ok := o.Next()
		if !ok {
			break
		}
		switch string(key) {
		case "type":
			for _, kind := range [...]string{"mcp", "connector"} { // OpenAI's, Mistral's
				if val.Is(kind) {
					what = "type=" + kind
				}
			}
		case "mcpServers", "mcp_servers": // Gemini
			if val.Filled() {
				what = string(key)
			}
		case "require_approval":
			asks, runs = asks || val.Is("always"), runs || !val.Is("always")
		}
	}
	if asks && !runs {
		return ""
	}
	return what
}
