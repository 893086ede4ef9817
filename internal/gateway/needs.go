package gateway

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/fallback"
)

// schemaFields are where requests ask for an answer of a schema; those that have another form there say so with their type.
var schemaFields = []string{"generationConfig.responseSchema", "generationConfig.responseJsonSchema", "generation_config.response_schema",
	"generation_config.response_json_schema"}

var schemaTypes = []string{"response_format.type", "text.format.type", "output_format.type", "output_config.format.type"}

// imageTypes are the types of content parts that are images.
var imageTypes = map[string]bool{"image_url": true, "input_image": true, "image": true}

// mediaTypes are those of parts that are to be heard or watched.
var mediaTypes = map[string]bool{"input_audio": true, "audio_url": true, "audio": true, "video_url": true, "input_video": true, "video": true}

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

// needsOf reads from a request's body what it asks of whoever answers it, but for its format and its size. Of a member that is there twice
// readers take the first or the last: each counts.
func needsOf(body []byte) (n fallback.Needs) {
	doc := gjson.ParseBytes(body)
	n.Tools = has(doc, filled, "tools") || has(doc, filled, "functions") || has(doc, filled, "mcp_servers")
	n.Hosted = hostedTool(doc)
	n.Parallel = n.Tools && has(doc, func(v gjson.Result) bool { return v.Type == gjson.True }, "parallel_tool_calls")
	n.Schema = has(doc, gjson.Result.Exists, schemaFields...) || has(doc, func(v gjson.Result) bool { return v.Str == "json_schema" }, schemaTypes...)
	switch {
	case has(doc, gjson.Result.Exists, "prompt.id"):
		n.Held = "prompt"
	case has(doc, func(v gjson.Result) bool { return v.Type == gjson.True }, "background"):
		n.Held = "background" // its answer is asked for by an id, there
	}
	members(doc, func(key string, value gjson.Result) bool {
		if key != "tools" && key != "functions" { // whose schemas have members of any name
			look(key, value, &n, needsDepth)
		}
		return true
	})
	n.Media = n.Media || has(doc, speaks, "modalities", "generationConfig.responseModalities", "generation_config.response_modalities")
	return n
}

// members goes through the members of an object, or of an array.
func members(v gjson.Result, f func(key string, value gjson.Result) bool) {
	v.ForEach(func(key, value gjson.Result) bool { return f(key.Str, value) })
}

// has reports whether a member that one of the paths leads to, however often it is there, is so.
func has(v gjson.Result, so func(gjson.Result) bool, paths ...string) (found bool) {
	for _, path := range paths {
		name, rest, deeper := strings.Cut(path, ".")
		if !v.IsObject() {
			return false
		}
		members(v, func(key string, value gjson.Result) bool {
			switch {
			case key != name:
			case deeper:
				found = has(value, so, rest)
			default:
				found = so(value)
			}
			return !found
		})
		if found {
			return true
		}
	}
	return false
}

// speaks reports whether a list of modalities has another one than text.
func speaks(list gjson.Result) (found bool) {
	members(list, func(_ string, v gjson.Result) bool {
		found = !strings.EqualFold(v.Str, "text")
		return !found
	})
	return found
}

// hostedTool names a tool that the provider itself runs, or knows by its type alone; "" without one.
func hostedTool(doc gjson.Result) (name string) {
	members(doc, func(key string, value gjson.Result) bool {
		switch {
		case key == "mcp_servers" && filled(value), key == "web_search_options" && value.Exists():
			name = key
		case key == "tools":
			members(value, func(_ string, tool gjson.Result) bool {
				name = hosted(tool)
				return name == ""
			})
		}
		return name == ""
	})
	return name
}

// hosted is the name of a tool that is none of the client's own functions.
func hosted(tool gjson.Result) (name string) {
	ours, own := false, "" // own: Gemini's, which have no type
	members(tool, func(key string, value gjson.Result) bool {
		switch key {
		case "type":
			if value.Str != "function" && value.Str != "custom" && value.Str != "" {
				name = value.Str
			}
			ours = ours || value.Str != ""
		case "name", "function":
			ours = true
		case "functionDeclarations", "function_declarations":
		default:
			own = key
		}
		return true
	})
	if name == "" && !ours && tool.IsObject() {
		return own
	}
	return name
}

// look finds images, sounds and what a provider keeps, at any depth but in what tools are told and say.
func look(key string, v gjson.Result, n *fallback.Needs, depth int) {
	switch {
	case depth == 0:
		return
	case heldFields[key] && filled(v):
		n.Held = key
	case imageFields[key] && filled(v), key == "type" && imageTypes[v.Str]:
		n.Images = true
	case key == "type" && mediaTypes[v.Str]:
		n.Media = true
	case key == "audio" && has(v, filled, "id"):
		n.Held = key
	}
	if !v.IsObject() && !v.IsArray() {
		return
	}
	message := false
	if v.IsObject() {
		message = lookKind(v, n)
	}
	members(v, func(name string, value gjson.Result) bool {
		if arguments[name] && value.IsObject() && !message {
			return true
		}
		look(name, value, n, depth-1)
		return true
	})
}

// lookKind finds what only its provider can read, by what type an object says that it is, and reports whether that is a message.
func lookKind(v gjson.Result, n *fallback.Needs) (message bool) {
	members(v, func(key string, kind gjson.Result) bool {
		if key == "type" {
			message = message || kind.Str == "message"
			if has(v, filled, sealed[kind.Str]...) {
				n.Held = kind.Str
			}
		}
		return true
	})
	return message
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
