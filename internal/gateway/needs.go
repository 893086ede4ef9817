package gateway

import (
	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/fallback"
)

// schemaFields are where requests ask for an answer of a schema; those that have another form there say so with their type.
var schemaFields = []string{"generationConfig.responseSchema", "generationConfig.responseJsonSchema", "generation_config.response_schema",
	"generation_config.response_json_schema"}

var schemaTypes = []string{"response_format.type", "text.format.type", "output_format.type", "output_config.format.type"}

// imageTypes are the types of content parts that are images.
var imageTypes = map[string]bool{"image_url": true, "input_image": true, "image": true}

// imageFields hold images, or files, in Gemini's parts.
var imageFields = map[string]bool{"inlineData": true, "inline_data": true, "fileData": true, "file_data": true}

// heldFields name what a provider keeps for a request, or has sealed for itself: no other has it, or can read it.
var heldFields = map[string]bool{"previous_response_id": true, "conversation": true, "file_id": true, "fileUri": true, "file_uri": true,
	"thoughtSignature": true, "thought_signature": true, "encrypted_content": true, "cachedContent": true, "cached_content": true,
	"container": true, "item_reference": true}

// sealed are parts of a history that only the provider that wrote them can read, by their type, with the member that says so:
// Anthropic's signed thoughts, OpenAI's reasoning by its id, references to what it keeps, audio that it gave an id.
var sealed = map[string][]string{"thinking": {"signature"}, "redacted_thinking": {"data"}, "reasoning": {"id", "encrypted_content"}, "item_reference": {"id"},
	"compaction": {"encrypted_content", "id"}}

// arguments hold what a model wrote for a tool, and what tools say: members of any name.
var arguments = map[string]bool{"input": true, "arguments": true, "args": true, "functionCall": true, "function_call": true, "functionResponse": true,
	"function_response": true, "metadata": true}

// needsDepth bounds how deep a body is looked into: a part of a message stands at five, one in a tool's result at seven.
const needsDepth = 12

// needsOf reads from a request's body what it asks of whoever answers it, but for its format and its size.
func needsOf(body []byte) (n fallback.Needs) {
	doc := gjson.ParseBytes(body)
	n.Tools = filled(doc.Get("tools")) || filled(doc.Get("functions")) || filled(doc.Get("mcp_servers"))
	n.Hosted = hostedTool(doc)
	n.Parallel = n.Tools && doc.Get("parallel_tool_calls").Type == gjson.True
	for _, path := range schemaFields {
		n.Schema = n.Schema || doc.Get(path).Exists()
	}
	for _, path := range schemaTypes {
		n.Schema = n.Schema || doc.Get(path).Str == "json_schema"
	}
	if doc.Get("prompt.id").Exists() {
		n.Held = "prompt"
	}
	doc.ForEach(func(key, value gjson.Result) bool {
		if key.Str != "tools" && key.Str != "functions" { // whose schemas have members of any name
			look(key.Str, value, &n, needsDepth)
		}
		return true
	})
	return n
}

// hostedTool names a tool that the provider itself runs, or knows by its type alone; "" without one.
func hostedTool(doc gjson.Result) (name string) {
	if filled(doc.Get("mcp_servers")) {
		return "mcp_servers"
	}
	if doc.Get("web_search_options").Exists() {
		return "web_search_options"
	}
	doc.Get("tools").ForEach(func(_, tool gjson.Result) bool {
		kind := tool.Get("type").Str
		switch {
		case kind != "" && kind != "function" && kind != "custom":
			name = kind
		case kind == "" && !tool.Get("name").Exists() && !tool.Get("function").Exists() && tool.IsObject(): // Gemini's
			tool.ForEach(func(key, _ gjson.Result) bool {
				if key.Str != "functionDeclarations" && key.Str != "function_declarations" {
					name = key.Str
				}
				return true
			})
		}
		return name == ""
	})
	return name
}

// look finds images and what a provider keeps, at any depth but in what tools are told and say.
func look(key string, v gjson.Result, n *fallback.Needs, depth int) {
	switch {
	case depth == 0:
		return
	case heldFields[key] && filled(v):
		n.Held = key
	case imageFields[key] && filled(v), key == "type" && imageTypes[v.Str]:
		n.Images = true
	}
	if !v.IsObject() && !v.IsArray() {
		return
	}
	kind := ""
	if v.IsObject() {
		kind = v.Get("type").Str
		for _, member := range sealed[kind] {
			if filled(v.Get(member)) {
				n.Held = kind
			}
		}
	}
	v.ForEach(func(name, value gjson.Result) bool {
		if arguments[name.Str] && value.IsObject() && kind != "message" {
			return true
		}
		look(name.Str, value, n, depth-1)
		return true
	})
}

// filled says that a member is there and says something.
func filled(v gjson.Result) bool {
	switch {
	case v.Type == gjson.Null, v.Type == gjson.String && v.Str == "":
		return false
	case v.IsArray():
		return v.Get("0").Exists()
	}
	return v.Exists()
}
