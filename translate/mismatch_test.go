package translate

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// A request that is the shortest its API takes, and to which the tables add one member.
const (
	openAIBase    = `{"model":"gpt-4.1","messages":[{"role":"user","content":"Hi"}]`
	anthropicBase = `{"model":"claude-sonnet-4-6","max_tokens":64,"messages":[{"role":"user","content":"Hi"}]`
)

// say is a request of one message.
func say(from API, message string) string {
	base := openAIBase
	if from == AnthropicMessages {
		base = anthropicBase
	}
	return strings.Replace(base, `[{"role":"user","content":"Hi"}]`, "["+message+"]", 1) + "}"
}

func plus(from API, member string) string {
	if from == AnthropicMessages {
		return anthropicBase + "," + member + "}"
	}
	return openAIBase + "," + member + "}"
}

const oneTool = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}]`
const oneClaudeTool = `"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}]`

// mismatches: what cannot be said, with the field that the error must name. to "" means every far side.
var mismatches = []struct {
	from, to API
	body     string
	field    string
}{
	{OpenAIChat, "", plus(OpenAIChat, `"n":2`), "n"},
	{OpenAIChat, "", plus(OpenAIChat, `"logprobs":true`), "logprobs"},
	{OpenAIChat, "", plus(OpenAIChat, `"top_logprobs":2`), "top_logprobs"},
	{OpenAIChat, "", plus(OpenAIChat, `"logit_bias":{"50256":-100}`), "logit_bias"},
	{OpenAIChat, "", plus(OpenAIChat, `"modalities":["text","audio"]`), "modalities"},
	{OpenAIChat, "", plus(OpenAIChat, `"audio":{"voice":"alloy","format":"wav"}`), "audio"},
	{OpenAIChat, "", plus(OpenAIChat, `"prediction":{"type":"content","content":"x"}`), "prediction"},
	{OpenAIChat, "", plus(OpenAIChat, `"web_search_options":{}`), "web_search_options"},
	{OpenAIChat, "", plus(OpenAIChat, `"moderation":{}`), "moderation"},
	{OpenAIChat, "", plus(OpenAIChat, `"verbosity":"low"`), "verbosity"},
	{OpenAIChat, "", plus(OpenAIChat, `"store":true,"metadata":{"a":"b"}`), "metadata"},
	{OpenAIChat, "", plus(OpenAIChat, `"store":true`), "store"},
	{OpenAIChat, "", plus(OpenAIChat, `"service_tier":"flex"`), "service_tier"},
	{OpenAIChat, "", plus(OpenAIChat, `"functions":[{"name":"f"}]`), "functions"},
	{OpenAIChat, "", plus(OpenAIChat, `"function_call":"auto"`), "function_call"},
	{OpenAIChat, "", plus(OpenAIChat, `"previous_response_id":"resp_1"`), "previous_response_id"},
	{OpenAIChat, "", plus(OpenAIChat, `"conversation":"conv_1"`), "conversation"},
	{OpenAIChat, "", plus(OpenAIChat, `"new_field":1`), "new_field"},
	{OpenAIChat, "", plus(OpenAIChat, `"Model":"x"`), "Model"}, // another name, not the same
	{OpenAIChat, "", plus(OpenAIChat, `"stream_options":{"new":1}`), "stream_options.new"},
	{OpenAIChat, "", plus(OpenAIChat, `"tools":[{"type":"custom","custom":{"name":"f"}}]`), "tools[0].type"},
	{OpenAIChat, "", plus(OpenAIChat, `"tools":[{"type":"web_search"}]`), "tools[0].type"},
	{OpenAIChat, "", plus(OpenAIChat, oneTool+`,"tool_choice":{"type":"allowed_tools","allowed_tools":{}}`), "tool_choice.type"},
	{OpenAIChat, "", plus(OpenAIChat, `"response_format":{"type":"grammar","grammar":"x"}`), "response_format.type"},
	{OpenAIChat, "", plus(OpenAIChat, `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":{},"additionalProperties":false,"not":{}}}}`), "response_format.json_schema.schema.not"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"user","name":"ann","content":"Hi"}`), "messages[0].name"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"user","content":""}`), "messages[0]"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"critic","content":"x"}`), "messages[0].role"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"function","name":"f","content":"x"}`), "messages[0].role"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"aa","format":"wav"}}]}`), "messages[0].content[0].type"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}`), "messages[0].content[0].file.file_id"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png","detail":"low"}}]}`), "messages[0].content[0].image_url.detail"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/tiff;base64,AAAA"}}]}`), "messages[0].content[0].image_url.url"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"user","content":"a"},{"role":"system","content":"b"},{"role":"user","content":"c"}`), "messages[1]"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"user","content":"a"},{"role":"assistant","content":"b"}`), "messages[1]"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"assistant","content":"a"},{"role":"user","content":"b"}`), "messages[0]"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"user","content":"a"},{"role":"assistant","audio":{"id":"audio_1"}},{"role":"user","content":"b"}`), "messages[1].audio"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"user","content":"a"},{"role":"assistant","content":"b","reasoning_content":"c"},{"role":"user","content":"b"}`), "messages[1].reasoning_content"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"user","content":"a"},{"role":"assistant","content":"b","annotations":[{"type":"url_citation"}]},{"role":"user","content":"b"}`), "messages[1].annotations"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{"}}]},{"role":"tool","tool_call_id":"c","content":"b"}`), "messages[1].tool_calls[0].function.arguments"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"[1]"}}]},{"role":"tool","tool_call_id":"c","content":"b"}`), "messages[1].tool_calls[0].function.arguments"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","type":"custom","custom":{}}]},{"role":"tool","tool_call_id":"c","content":"b"}`), "messages[1].tool_calls[0].type"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"user","content":"b"}`), "messages[2]"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"user","content":"a"},{"role":"tool","tool_call_id":"c","content":"b"}`), "messages[1]"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"d","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"b"}`), "messages[2]"},
	{OpenAIChat, "", say(OpenAIChat, `{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c\ud800","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c\ud800","content":"b"}`), "messages[1].tool_calls[0].id"},

	{OpenAIChat, AnthropicMessages, plus(OpenAIChat, `"seed":1`), "seed"},
	{OpenAIChat, AnthropicMessages, plus(OpenAIChat, `"frequency_penalty":0.1`), "frequency_penalty"},
	{OpenAIChat, AnthropicMessages, plus(OpenAIChat, `"presence_penalty":0.1`), "presence_penalty"},
	{OpenAIChat, AnthropicMessages, plus(OpenAIChat, `"temperature":1.2`), "temperature"},
	{OpenAIChat, AnthropicMessages, plus(OpenAIChat, `"temperature":0.2,"top_p":0.9`), "top_p"},
	{OpenAIChat, AnthropicMessages, plus(OpenAIChat, `"max_completion_tokens":0`), "max_completion_tokens"},
	{OpenAIChat, AnthropicMessages, plus(OpenAIChat, `"max_completion_tokens":5,"max_tokens":6`), "max_tokens"},
	{OpenAIChat, AnthropicMessages, plus(OpenAIChat, `"stop":["\n\n"]`), "stop"},
	{OpenAIChat, AnthropicMessages, plus(OpenAIChat, `"response_format":{"type":"json_object"}`), "response_format.type"},
	{OpenAIChat, AnthropicMessages, plus(OpenAIChat, `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":{}}}}`), "response_format.json_schema.schema"},
	{OpenAIChat, AnthropicMessages, plus(OpenAIChat, `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":{"a":{"type":"number","minimum":1}},"additionalProperties":false}}}`), "response_format.json_schema.schema.properties.a.minimum"},
	{OpenAIChat, AnthropicMessages, plus(OpenAIChat, `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":{"a":{"$ref":"#"}},"additionalProperties":false}}}`), "response_format.json_schema.schema"},
	{OpenAIChat, AnthropicMessages, plus(OpenAIChat, `"reasoning_effort":"minimal"`), "reasoning_effort"},
	{OpenAIChat, AnthropicMessages, plus(OpenAIChat, `"reasoning_effort":"low","tool_choice":"required",`+oneTool), "reasoning_effort"},
	{OpenAIChat, AnthropicMessages, plus(OpenAIChat, `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","anyOf":[{}]}}}]`), "tools[0]"},
	{OpenAIChat, AnthropicMessages, plus(OpenAIChat, `"tools":[{"type":"function","function":{"name":"a.b"}}]`), "tools[0]"},
	{OpenAIChat, AnthropicMessages, say(OpenAIChat, `{"role":"user","content":" \n"}`), "messages[0].content"},
	{OpenAIChat, AnthropicMessages, say(OpenAIChat, `{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"b"}`), "messages[1].tool_calls[0]"},

	{OpenAIChat, GeminiGenerate, plus(OpenAIChat, `"parallel_tool_calls":false,`+oneTool), "parallel_tool_calls"},
	{OpenAIChat, GeminiGenerate, plus(OpenAIChat, `"seed":4294967296`), "seed"},
	{OpenAIChat, GeminiGenerate, plus(OpenAIChat, `"presence_penalty":2`), "presence_penalty"},
	{OpenAIChat, GeminiGenerate, plus(OpenAIChat, `"reasoning_effort":"xhigh"`), "reasoning_effort"},
	{OpenAIChat, GeminiGenerate, plus(OpenAIChat, `"reasoning_effort":"none"`), "reasoning_effort"},
	{OpenAIChat, GeminiGenerate, plus(OpenAIChat, `"tools":[{"type":"function","function":{"name":"1st"}}]`), "tools[0]"},
	{OpenAIChat, GeminiGenerate, say(OpenAIChat, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}`), "messages[0].content[0].image_url.url"},
	{OpenAIChat, GeminiGenerate, say(OpenAIChat, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/gif;base64,AAAA"}}]}`), "messages[0].content[0].image_url.url"},
	{OpenAIChat, GeminiGenerate, plus(OpenAIChat, `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":{"a":{"const":1}}}}}`), "response_format.json_schema.schema.properties.a.const"},

	{AnthropicMessages, "", plus(AnthropicMessages, `"container":"c_1"`), "container"},
	{AnthropicMessages, "", plus(AnthropicMessages, `"diagnostics":{"previous_message_id":"msg_1"}`), "diagnostics"},
	{AnthropicMessages, "", plus(AnthropicMessages, `"context_management":{}`), "context_management"},
	{AnthropicMessages, "", plus(AnthropicMessages, `"mcp_servers":[]`), "mcp_servers"},
	{AnthropicMessages, "", plus(AnthropicMessages, `"inference_geo":"eu"`), "inference_geo"},
	{AnthropicMessages, "", plus(AnthropicMessages, `"speed":"fast"`), "speed"},
	{AnthropicMessages, "", plus(AnthropicMessages, `"new_field":1`), "new_field"},
	{AnthropicMessages, "", plus(AnthropicMessages, `"thinking":{"type":"new"}`), "thinking.type"},
	{AnthropicMessages, "", plus(AnthropicMessages, `"output_config":{"format":{"type":"xml"}}`), "output_config.format.type"},
	{AnthropicMessages, "", plus(AnthropicMessages, `"output_config":{"new":1}`), "output_config.new"},
	{AnthropicMessages, "", plus(AnthropicMessages, `"metadata":{"user_id":"a","team":"b"}`), "metadata.team"},
	{AnthropicMessages, "", plus(AnthropicMessages, `"tools":[{"type":"web_search_20250305","name":"web_search"}]`), "tools[0].type"},
	{AnthropicMessages, "", plus(AnthropicMessages, `"tools":[{"type":"bash_20250124","name":"bash"}]`), "tools[0].type"},
	{AnthropicMessages, "", plus(AnthropicMessages, `"tools":[{"name":"f","input_schema":{"type":"object"},"defer_loading":true}]`), "tools[0].defer_loading"},
	{AnthropicMessages, "", plus(AnthropicMessages, `"tools":[{"name":"f","input_schema":{"type":"object"},"input_examples":[{}]}]`), "tools[0].input_examples"},
	{AnthropicMessages, "", strings.Replace(plus(AnthropicMessages, `"top_p":1`), `"max_tokens":64`, `"max_tokens":0`, 1), "max_tokens"},
	{AnthropicMessages, "", say(AnthropicMessages, `{"role":"user","content":"a"},{"role":"assistant","content":"Prefill"}`), "messages[1]"},
	{AnthropicMessages, "", say(AnthropicMessages, `{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"c2ln"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}`), "messages[1].content[0].type"},
	{AnthropicMessages, "", say(AnthropicMessages, `{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}`), "messages[1].content[0].type"},
	{AnthropicMessages, "", say(AnthropicMessages, `{"role":"user","content":[{"type":"search_result","source":"s","title":"t","content":[]}]}`), "messages[0].content[0].type"},
	{AnthropicMessages, "", say(AnthropicMessages, `{"role":"user","content":[{"type":"text","text":"a","citations":[{"type":"char_location"}]}]}`), "messages[0].content[0].citations"},
	{AnthropicMessages, "", say(AnthropicMessages, `{"role":"user","content":[{"type":"document","citations":{"enabled":true},"source":{"type":"base64","media_type":"application/pdf","data":"AAAA"}}]}`), "messages[0].content[0].citations"},
	{AnthropicMessages, "", say(AnthropicMessages, `{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"a"}}]}`), "messages[0].content[0].source.type"},
	{AnthropicMessages, "", say(AnthropicMessages, `{"role":"user","content":[{"type":"document","source":{"type":"url","url":"https://example.com/a.pdf"}}]}`), "messages[0].content[0]"},
	{AnthropicMessages, "", say(AnthropicMessages, `{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"file_1"}}]}`), "messages[0].content[0].source.type"},
	{AnthropicMessages, "", say(AnthropicMessages, `{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/tiff","data":"AAAA"}}]}`), "messages[0].content[0]"},
	{AnthropicMessages, "", say(AnthropicMessages, `{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"text","text":"b"},{"type":"tool_result","tool_use_id":"t"}]}`), "messages[2].content[1]"},
	{AnthropicMessages, "", say(AnthropicMessages, `{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]}`), "messages[2].content[0].content[0].type"},
	{AnthropicMessages, "", say(AnthropicMessages, `{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"server_tool_use","id":"t","name":"web_search","input":{}}]},{"role":"user","content":"b"}`), "messages[1].content[0].type"},
	{AnthropicMessages, "", say(AnthropicMessages, `{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{},"caller":{"type":"code_execution_20260120"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}`), "messages[1].content[0].caller"},

	{AnthropicMessages, OpenAIChat, plus(AnthropicMessages, `"top_k":5`), "top_k"},
	{AnthropicMessages, OpenAIChat, plus(AnthropicMessages, `"stop_sequences":["a","b","c","d","e"]`), "stop_sequences"},
	{AnthropicMessages, OpenAIChat, plus(AnthropicMessages, `"thinking":{"type":"enabled","budget_tokens":2048}`), "thinking.budget_tokens"},
	{AnthropicMessages, OpenAIChat, plus(AnthropicMessages, `"output_config":{"effort":"low"}`), "output_config.effort"},
	{AnthropicMessages, OpenAIChat, plus(AnthropicMessages, `"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}}}`), "output_config.format.schema.properties.a"},
	{AnthropicMessages, OpenAIChat, plus(AnthropicMessages, `"tools":[{"name":"`+strings.Repeat("f", 65)+`","input_schema":{"type":"object"}}]`), "tools[0]"},
	{AnthropicMessages, OpenAIChat, say(AnthropicMessages, `{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}},{"type":"text","text":"behind"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}`), "messages[1].content[1]"},
	{AnthropicMessages, OpenAIChat, say(AnthropicMessages, `{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"`+strings.Repeat("t", 41)+`","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"`+strings.Repeat("t", 41)+`"}]}`), "messages[1].content[0].id"},

	{AnthropicMessages, GeminiGenerate, plus(AnthropicMessages, `"tool_choice":{"type":"auto","disable_parallel_tool_use":true},`+oneClaudeTool), "tool_choice.disable_parallel_tool_use"},
	{AnthropicMessages, GeminiGenerate, plus(AnthropicMessages, `"stop_sequences":["a","b","c","d","e","f"]`), "stop_sequences"},
	{AnthropicMessages, GeminiGenerate, plus(AnthropicMessages, `"thinking":{"type":"enabled","budget_tokens":2048}`), "thinking.budget_tokens"}, // 3.5 takes a level
	{AnthropicMessages, GeminiGenerate, say(AnthropicMessages, `{"role":"user","content":"a"},{"role":"system","content":"b"},{"role":"user","content":"c"}`), "messages[1]"},
	{AnthropicMessages, GeminiGenerate, say(AnthropicMessages, `{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}]}`), "messages[0].content[0]"},
}

func TestMismatch(t *testing.T) {
	for _, m := range mismatches {
		for _, to := range []API{OpenAIChat, AnthropicMessages, GeminiGenerate} {
			if !Can(m.from, to) || m.to != "" && m.to != to {
				continue
			}
			_, err := Request(m.from, to, []byte(m.body), options(to))
			var got *Mismatch
			if !errors.As(err, &got) || !errors.Is(err, ErrMismatch) {
				t.Errorf("to %s: %s: error %v", to, m.body, err)
				continue
			}
			if got.Field != m.field || got.Rule == "" || got.From != m.from || got.To != to {
				t.Errorf("to %s: %s: %v; want the field %s", to, m.body, err, m.field)
			}
		}
	}
}

func TestMalformed(t *testing.T) {
	for _, m := range []struct {
		from API
		body string
	}{
		{OpenAIChat, ``}, {OpenAIChat, `[]`}, {OpenAIChat, openAIBase}, {OpenAIChat, plus(OpenAIChat, `"stop":7`)},
		{OpenAIChat, plus(OpenAIChat, `"seed":1`) + "trailing"}, {OpenAIChat, "{\"model\":\"\xff\"}"},
		{OpenAIChat, plus(OpenAIChat, `"temperature":"hot"`)}, {OpenAIChat, plus(OpenAIChat, `"stream":1`)},
		{OpenAIChat, plus(OpenAIChat, `"user":"a","user":"b"`)}, // which of the two counts is unknown
		{OpenAIChat, `{"model":"m","messages":[]}`}, {OpenAIChat, say(OpenAIChat, `7`)}, {OpenAIChat, say(OpenAIChat, `{"content":"x"}`)},
		{OpenAIChat, say(OpenAIChat, `{"role":"user","content":7}`)}, {OpenAIChat, say(OpenAIChat, `{"role":"user","content":[{"type":"text"}]}`)},
		{OpenAIChat, say(OpenAIChat, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"a.png"}}]}`)},
		{OpenAIChat, plus(OpenAIChat, `"tools":[{"type":"function","function":{"name":"f","parameters":7}}]`)},
		{OpenAIChat, plus(OpenAIChat, `"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}]`)},
		{OpenAIChat, plus(OpenAIChat, `"tool_choice":"required"`)}, {OpenAIChat, plus(OpenAIChat, `"tool_choice":"sometimes"`)},
		{OpenAIChat, plus(OpenAIChat, oneTool+`,"tool_choice":{"type":"function","function":{"name":"g"}}`)},
		{OpenAIChat, plus(OpenAIChat, `"response_format":{"type":"json_schema","json_schema":{"name":"x"}}`)},
		{AnthropicMessages, `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`}, {AnthropicMessages, plus(AnthropicMessages, `"system":7`)},
		{AnthropicMessages, plus(AnthropicMessages, `"thinking":{"type":"enabled"}`)}, {AnthropicMessages, plus(AnthropicMessages, `"tools":[{"name":"f"}]`)},
		{AnthropicMessages, plus(AnthropicMessages, `"tool_choice":{"type":"maybe"}`)},
		{AnthropicMessages, say(AnthropicMessages, `{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"?"}}]}`)},
		{AnthropicMessages, say(AnthropicMessages, `{"role":"user","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]}`)},
		{AnthropicMessages, say(AnthropicMessages, `{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}]},{"role":"user","content":"b"}`)},
		{AnthropicMessages, say(AnthropicMessages, `{"role":"user","content":"a"},{"role":"system","content":[{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}]},{"role":"user","content":"b"}`)},
	} {
		if _, err := Request(m.from, GeminiGenerate, []byte(m.body), options(GeminiGenerate)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: error %v", m.body, err)
		}
	}
	if _, err := Request(GeminiGenerate, OpenAIChat, []byte("{}"), Options{}); !errors.Is(err, ErrDirection) {
		t.Errorf("error %v", err)
	}
	if _, err := Request(OpenAIChat, GeminiGenerate, []byte(openAIBase+"}"), Options{}); err == nil {
		t.Error("no model was named, and that was taken")
	}
}

// What only repeats a default, or says nothing about the answer, is no reason to refuse; the latter is reported.
func TestHarmless(t *testing.T) {
	for _, m := range []struct {
		from    API
		member  string
		dropped []string
	}{
		{OpenAIChat, `"n":1,"logprobs":false,"logit_bias":{},"modalities":[ "text" ],"verbosity":"medium","store":false,"service_tier":"auto"`, nil},
		{OpenAIChat, `"seed":null,"tools":[],"tool_choice":"none","parallel_tool_calls":false,"frequency_penalty":0,"response_format":{"type":"text"}`, nil},
		{OpenAIChat, `"prompt_cache_key":"k","prompt_cache_retention":"24h","metadata":{"a":"b"},"stream_options":{"include_obfuscation":false}`,
			[]string{"stream_options.include_obfuscation", "metadata", "prompt_cache_key", "prompt_cache_retention"}},
		{OpenAIChat, `"user":"u"`, []string{"user"}}, {OpenAIChat, `"safety_identifier":"u","user":"v"`, []string{"safety_identifier"}},
		{AnthropicMessages, `"cache_control":{"type":"ephemeral"},"service_tier":"standard_only","speed":"standard"`, []string{"service_tier", "cache_control"}},
		{AnthropicMessages, `"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}]`,
			[]string{"system[].cache_control"}},
		{AnthropicMessages, `"metadata":{"user_id":"u"},"thinking":{"type":"disabled"}`, []string{"metadata.user_id"}},
	} {
		c, err := Request(m.from, GeminiGenerate, []byte(plus(m.from, m.member)), options(GeminiGenerate))
		if err != nil {
			t.Errorf("%s: %v", m.member, err)
		} else if !slices.Equal(c.Dropped, m.dropped) {
			t.Errorf("%s: dropped %q", m.member, c.Dropped)
		}
	}
}
