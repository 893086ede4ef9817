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

// heldFields name what a provider keeps for a request: no other has it.
var heldFields = map[string]bool{"previous_response_id": true, "conversation": true, "file_id": true, "fileUri": true, "file_uri": true,
	"thoughtSignature": true, "thought_signature": true, "encrypted_content": true, "cachedContent": true, "cached_content": true}

// needsDepth bounds how deep a body is looked into: a part of a message stands at five, one in a tool's result at seven.
const needsDepth = 12

// needsOf reads from a request's body what it asks of whoever answers it, but for its format and its size.
func needsOf(body []byte) (n fallback.Needs) {
	doc := gjson.ParseBytes(body)
	n.Tools = filled(doc.Get("tools")) || filled(doc.Get("functions"))
	for _, path := range schemaFields {
		n.Schema = n.Schema || doc.Get(path).Exists()
	}
	for _, path := range schemaTypes {
		n.Schema = n.Schema || doc.Get(path).Str == "json_schema"
	}
	doc.ForEach(func(key, value gjson.Result) bool {
		if key.Str != "tools" { // whose schemas have members of any name
			look(key.Str, value, &n, needsDepth)
		}
		return true
	})
	return n
}

// look finds images and what a provider keeps, at any depth.
func look(key string, v gjson.Result, n *fallback.Needs, depth int) {
	switch {
	case depth == 0:
		return
	case heldFields[key] && filled(v):
		n.Held = key
	case imageFields[key] && filled(v), key == "type" && imageTypes[v.Str]:
		n.Images = true
	}
	if v.IsObject() || v.IsArray() {
		v.ForEach(func(key, value gjson.Result) bool {
			look(key.Str, value, n, depth-1)
			return true
		})
	}
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
