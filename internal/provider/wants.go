package provider

import "github.com/holdfast-ai/holdfast/internal/provider/jsonview"

// jsonForms are where requests ask for JSON, by the path to what names the form.
var jsonForms = [...][]string{{"response_format", "type"}, {"text", "format", "type"}, {"output_format", "type"}, {"output_config", "format", "type"},
	{"generationConfig", "responseMimeType"}, {"generation_config", "response_mime_type"},
	{"generationConfig", "responseSchema"}, {"generationConfig", "responseJsonSchema"}, {"generation_config", "response_schema"}, {"generation_config", "response_json_schema"}}

// wantsJSON says that an answer is asked for that no plain text is.
func wantsJSON(doc jsonview.Value) bool {
	for _, path := range jsonForms {
		if v := doc.Path(path...); v.Filled() && !v.Is("text") && !v.Is("text/plain") {
			return true
		}
	}
	return false
}

// both is a member of a request by either of the spellings that Gemini takes.
func both(doc jsonview.Value, camel, snake string) jsonview.Value {
	if v := doc.Get(camel); v != nil {
		return v
	}
	return doc.Get(snake)
}

// wantsMore says that an answer is asked for which holds something else than one text.
func wantsMore(doc jsonview.Value) bool {
	config := both(doc, "generationConfig", "generation_config")
	candidates := both(config, "candidateCount", "candidate_count")
	return forcesTool(doc) || !onlyText(doc.Get("modalities")) || !onlyText(both(config, "responseModalities", "response_modalities")) ||
		candidates.Set() && candidates.Int() > 1
}

// forcesTool says that the answer has to call a tool.
func forcesTool(doc jsonview.Value) bool {
	choice := doc.Get("tool_choice")
	switch kind := choice.Get("type"); {
	case choice.Is("required"):
		return true
	case !choice.IsObject(), kind.Is("auto"), kind.Is("none"):
	case kind.Is("allowed_tools"):
		if choice.Get("mode").Is("required") || choice.Path("allowed_tools", "mode").Is("required") {
			return true
		}
	default: // any, or a tool by its name
		return true
	}
	gemini := both(both(doc, "toolConfig", "tool_config"), "functionCallingConfig", "function_calling_config").Get("mode")
	return gemini.Is("ANY") || doc.Get("function_call").IsObject()
}

// onlyText says of modalities that they are none but text, as where there are none said.
func onlyText(modalities jsonview.Value) bool {
	text := true
	each(modalities, func(m jsonview.Value) { text = text && (m.Is("text") || m.Is("TEXT") || m.Is("Text")) })
	return text
}
