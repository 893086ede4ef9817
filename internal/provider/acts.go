package provider

import (
	"bytes"
	"cmp"
	"slices"
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
	case "input": // OpenAI's
		return actingItem(val)
	}
	return ""
}

// actingItems are words without which no item acts, and how any of their letters may be written.
var actingItems = [][]byte{[]byte(`"tools"`), []byte("mcp_approval_response"), []byte(`\u00`)}

// actingItem finds items by which a response acts: tools that come with the conversation, and a person's word for a call that asked for it.
func actingItem(input jsonview.Value) string {
	if !slices.ContainsFunc(actingItems, func(word []byte) bool { return bytes.Contains(input, word) }) {
		return "" // nearly all: they are not walked through
	}
	for i, a := 0, input.Array(); ; i++ {
		item, ok := a.Next()
		if !ok {
			return ""
		}
		if what := itemActs(item); what != "" {
			return "input[" + strconv.Itoa(i) + "]." + what
		}
	}
}

func itemActs(item jsonview.Value) (what string) {
	approves, approved := false, false
	for o := item.Object(); ; {
		key, val, ok := o.Next()
		switch {
		case !ok && approves && approved:
			return "type=mcp_approval_response"
		case !ok:
			return what
		case string(key) == "type":
			approves = approves || val.Is("mcp_approval_response")
		case string(key) == "approve":
			approved = approved || val.True()
		case string(key) == "tools":
			what = cmp.Or(what, actingTool(val))
		}
	}
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
