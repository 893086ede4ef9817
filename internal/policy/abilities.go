package policy

// ability is a set of what a model can do.
type ability uint8

const (
	tools    ability = 1 << iota // calls functions
	images                       // takes them in
	schema                       // keeps a JSON schema that its answer is given
	parallel                     // calls several functions at once
)

// abilities are what the providers' documentation says that models of the price list can do, as of PricesAsOf:
//
//   - OpenAI: developers.openai.com/api/docs/models/NAME (features, modalities) and the guides to function calling and structured
//     outputs ("gpt-4o-mini and gpt-4o-2024-08-06 and later"). Of the pro models none is listed for a schema. gpt-6-astra takes
//     functions by /v1/responses alone, so that they are not listed for it.
//   - Anthropic: platform.claude.com/docs, structured outputs ("Claude 4.5 and later models"), tool use, vision.
//   - Google: ai.google.dev/gemini-api/docs/models/NAME (supported data types, capabilities) and the guide to function calling.
//
// It holds what is documented, and no refusals: a model that learns something is not refused by a list of last year.
var abilities = listedFor(map[ability][]string{
	tools | images | schema | parallel: {
		"gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna", "gpt-5.5", "gpt-5.4", "gpt-5.4-mini", "gpt-5.4-nano", "gpt-5.2", "gpt-5.1",
		"gpt-5", "gpt-5-mini", "gpt-5-nano", "gpt-4.1", "gpt-4.1-mini", "gpt-4.1-nano", "gpt-4o", "gpt-4o-mini",
		"claude-fable-5-1", "claude-fable-5", "claude-mythos-5-1", "claude-mythos-5", "claude-opus-5", "claude-opus-4-8", "claude-opus-4-7",
		"claude-opus-4-6", "claude-opus-4-5", "claude-sonnet-5", "claude-sonnet-4-6", "claude-sonnet-4-5", "claude-haiku-4-5",
		"gemini-3.8-flash", "gemini-3.7-flash", "gemini-3.6-flash", "gemini-3.5-flash", "gemini-3.5-flash-lite", "gemini-3.1-pro-preview",
		"gemini-3.1-flash-lite", "gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite", "gemini-2.0-flash"},
	tools | images | parallel: {"gpt-4o-2024-05-13", "claude-opus-4-1", "claude-opus-4", "claude-sonnet-4", "claude-3-7-sonnet"},
	tools | images | schema:   {"o3", "o3-pro", "o4-mini", "o1", "o1-pro"}, // parallel_tool_calls is no parameter of theirs
	tools | schema:            {"o3-mini"},
	tools | images:            {"gpt-5.5-pro", "gpt-5.4-pro", "gpt-5.2-pro", "gpt-5-pro", "claude-3-5-haiku"},
	images | schema:           {"gpt-6-astra"},
})

func listedFor(groups map[ability][]string) map[string]ability {
	by := map[string]ability{}
	for able, names := range groups {
		for _, name := range names {
			by[name] = able
		}
	}
	return by
}

// able fills in what the list says of a model's name, and models does not.
func (m *Model) able(name string) {
	able, ok := listedAs(abilities, name)
	if !ok {
		return
	}
	yes := true
	fill := func(field **bool, a ability) {
		if *field == nil && able&a != 0 {
			*field = &yes
		}
	}
	fill(&m.Tools, tools)
	fill(&m.Images, images)
	fill(&m.JSONSchema, schema)
	fill(&m.ParallelTools, parallel)
}
