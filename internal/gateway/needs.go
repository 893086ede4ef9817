package gateway

import (
	"strings"

	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
)

// What a request asks of whoever answers it is read in one walk that looks at every member, repeated ones too: which of them a
// provider takes is not ours to guess, so that what any of them asks is asked.

// needsReader collects what a body asks.
type needsReader struct {
	n        fallback.Needs
	parallel bool
}

// place is where in a request a value stands.
type place uint8

const (
	elsewhere place = iota
	inTurns         // a list of turns, or of items
	inTurn
	inContent // a list of parts
	inPart
	inSource // what a document is made of
)

// needsDepth bounds how deep a body is looked into: a part of a message stands at five, one in a document in a tool's result at ten.
const needsDepth = 12

// needsOf reads from a request's body what it asks of whoever answers it, but for its format and its size.
func needsOf(body []byte) fallback.Needs {
	var r needsReader
	members(body, func(key string, v jsonview.Value) { r.top(key, v) })
	r.n.Parallel = r.parallel && r.n.Tools
	return r.n
}

// members calls f with every member of an object.
func members(v jsonview.Value, f func(key string, v jsonview.Value)) {
	var seen map[string]bool
	for o := v.Object(); ; {
		key, val, ok := o.Next()
		if !ok {
			return
		}
		if mutant.On("repeated-member-read-once") {
			if seen == nil {
				seen = map[string]bool{}
			}
			if seen[string(key)] {
				continue
			}
			seen[string(key)] = true
		}
		f(string(key), val)
	}
}

// elements calls f with every element of an array.
func elements(v jsonview.Value, f func(v jsonview.Value)) {
	for a := v.Array(); ; {
		val, ok := a.Next()
		if !ok {
			return
		}
		f(val)
	}
}

func (r *needsReader) top(key string, v jsonview.Value) {
	switch key {
	case "tools": // whose schemas have members of any name
		r.n.Tools = r.n.Tools || v.Filled()
		elements(v, r.tool)
	case "functions":
		r.n.Tools = r.n.Tools || v.Filled()
	case "toolConfig", "tool_config":
		members(v, r.calling)
		r.other(key, v)
	case "parallel_tool_calls":
		r.parallel = r.parallel || v.True()
	case "messages", "input", "contents", "systemInstruction", "system_instruction":
		r.look(key, v, inTurns, needsDepth)
	case "system", "instructions":
		r.look(key, v, inContent, needsDepth)
	case "response_format", "output_format":
		r.format(v)
	case "text", "output_config":
		members(v, func(key string, v jsonview.Value) {
			if key == "format" {
				r.format(v)
			}
		})
	case "generationConfig", "generation_config":
		members(v, r.generation)
	case "modalities":
		r.modalities(v)
	case "prompt", "background", "audio":
		r.whole(key, v)
	default:
		r.other(key, v)
	}
}

// whole reads members of one meaning each.
func (r *needsReader) whole(key string, v jsonview.Value) {
	switch {
	case key == "prompt" && !v.Get("id").Filled(), !v.Filled():
	case key == "audio":
		r.n.Other = key
	default: // a prompt that is kept there; what runs there in the background is asked for by its id
		r.n.Held = key
	}
}

func (r *needsReader) other(key string, v jsonview.Value) {
	if run := runs[key]; run && (v.Filled() || v.IsObject()) {
		r.n.Hosted = key
		r.n.Tools = r.n.Tools || key == "mcp_servers"
	}
	if schemaMembers[key] {
		r.n.Schema = r.n.Schema || v.Filled()
		return
	}
	if !arguments[key] {
		r.look(key, v, elsewhere, needsDepth)
	}
}

// tool finds a tool that the provider itself runs, or knows by its type alone, and one whose schema is to be kept.
func (r *needsReader) tool(tool jsonview.Value) {
	typed, own := false, ""
	members(tool, func(key string, v jsonview.Value) {
		switch key {
		case "type":
			typed = typed || v.Filled()
			if v.Filled() && !v.Is("function") && !v.Is("custom") {
				r.n.Hosted = v.String()
			}
		case "name":
			typed = true
		case "function":
			typed = true
			members(v, r.strict)
		case "strict": // of Responses, and of Anthropic
			r.strict(key, v)
		case "functionDeclarations", "function_declarations":
		default:
			own = key
		}
	})
	if !typed && own != "" { // Gemini's
		r.n.Hosted = own
	}
}

// strict reads whether a tool's schema is to be kept.
func (r *needsReader) strict(key string, v jsonview.Value) {
	r.n.Strict = r.n.Strict || key == "strict" && v.True()
}

// calling reads how Gemini is to call tools: VALIDATED keeps their schemas.
func (r *needsReader) calling(key string, v jsonview.Value) {
	if key != "functionCallingConfig" && key != "function_calling_config" {
		return
	}
	members(v, func(key string, v jsonview.Value) {
		r.n.Strict = r.n.Strict || key == "mode" && v.Is("VALIDATED")
	})
}

// format reads in which form an answer is wanted.
func (r *needsReader) format(v jsonview.Value) {
	members(v, func(key string, v jsonview.Value) {
		switch key {
		case "type":
			r.n.Schema = r.n.Schema || v.Filled() && !v.Is("text") && !v.Is("json_object")
		case "schema", "json_schema":
			r.n.Schema = r.n.Schema || v.Filled()
		}
	})
}

// generation reads Gemini's configuration, whose names come in two spellings.
func (r *needsReader) generation(key string, v jsonview.Value) {
	switch key {
	case "responseSchema", "response_schema", "responseJsonSchema", "response_json_schema", "responseFormat", "response_format":
		r.n.Schema = r.n.Schema || v.Set()
	case "responseModalities", "response_modalities":
		r.modalities(v)
	case "speechConfig", "speech_config", "imageConfig", "image_config", "translationConfig", "translation_config":
		if v.Filled() {
			r.n.Other = key
		}
	}
}

// modalities reads what an answer may be beside text.
func (r *needsReader) modalities(v jsonview.Value) {
	elements(v, func(v jsonview.Value) {
		if word := strings.ToLower(v.String()); word != "text" && word != "modality_unspecified" {
			r.n.Other = "an answer as " + word
		}
	})
}

// look finds content and what a provider keeps, at any depth but in what tools are told and say.
func (r *needsReader) look(key string, v jsonview.Value, at place, depth int) {
	if heldFields[key] && v.Filled() {
		r.n.Held = key
	}
	switch {
	case !v.IsArray() && !v.IsObject():
	case depth == 0:
		r.n.Other = "content nested deeper than it is read"
	case v.IsArray():
		elements(v, func(v jsonview.Value) { r.look("", v, at.element(), depth-1) })
	default:
		r.object(v, at.element(), depth)
	}
}

// element is the place of what a list holds. A single one may stand for a list.
func (p place) element() place {
	switch p {
	case inTurns:
		return inTurn
	case inContent:
		return inPart
	}
	return p
}

func (r *needsReader) object(v jsonview.Value, at place, depth int) {
	kind, typed := "", false
	if at == inTurn || at == inPart {
		members(v, func(key string, val jsonview.Value) {
			if key == "type" {
				kind, typed = val.String(), true
				r.kind(kind, v, at)
			}
		})
	}
	members(v, func(key string, val jsonview.Value) {
		switch {
		case at == inPart && r.member(key, val, typed), arguments[key] && val.IsObject():
			return
		case at == inTurn && keptMembers[key] && val.Filled():
			r.n.Held = key
		}
		r.look(key, val, within(at, key, kind), depth-1)
	})
}

// within is the place of a member.
func within(at place, key, kind string) place {
	switch {
	case at == inTurn && (key == "content" || key == "parts"):
		return inContent
	case at == inTurn && key == "output" && strings.HasSuffix(kind, "_call_output"), at == inPart && key == "content" && kind == "tool_result",
		at == inSource && key == "content":
		return inContent
	case at == inPart && key == "source":
		return inSource
	}
	return elsewhere
}

// kind reads what an item or a part is by its type. What nobody knows is never taken for text.
func (r *needsReader) kind(kind string, v jsonview.Value, at place) {
	kinds := partKinds
	if at == inTurn {
		kinds = itemKinds
	}
	what, known := kinds[kind]
	if !known && mutant.On("unknown-part-is-text") {
		return
	}
	switch {
	case !known:
		r.n.Other = kind
	case what == isSealed:
		for _, member := range seals {
			if v.Get(member).Filled() {
				r.n.Held = kind
			}
		}
	case what == isHeld:
		r.n.Held = kind
	default:
		r.medium(what)
	}
}

func (r *needsReader) medium(m medium) {
	switch m {
	case ofImage:
		r.n.Images = true
	case ofAudio:
		r.n.Audio = true
	case ofVideo:
		r.n.Video = true
	case ofFile:
		r.n.Files = true
	}
}

// member reads Gemini's parts, which say by their members what they are. It reports whether there is no more to be seen in it.
func (r *needsReader) member(key string, v jsonview.Value, typed bool) (done bool) {
	what, known := partMembers[key]
	switch {
	case !v.Filled():
	case !known && !typed:
		r.n.Other = key
	case what == isHeld:
		r.n.Held = key
	case what == byMIME && (v.IsObject() || !typed):
		r.mime(key, v)
	case what == ofTool:
		members(v, func(key string, v jsonview.Value) {
			if key == "parts" {
				r.look(key, v, inContent, needsDepth/2)
			}
		})
		return true
	default:
		r.medium(what)
	}
	return false
}

// mime reads what a blob is.
func (r *needsReader) mime(key string, v jsonview.Value) {
	said := false
	members(v, func(key string, v jsonview.Value) {
		if key != "mimeType" && key != "mime_type" || !v.Filled() {
			return
		}
		said = true
		kind, _, _ := strings.Cut(strings.ToLower(v.String()), "/")
		what, known := mediaTypes[kind]
		if !known {
			what = ofFile
		}
		r.medium(what)
	})
	if !said {
		r.n.Other = key
	}
}
