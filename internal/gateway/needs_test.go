package gateway_test

import (
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
)

// needs are bodies of the three APIs, with what each asks of whoever answers it.
var needs = map[string]fallback.Needs{
	`{"model":"m","messages":[{"role":"user","content":"image_url file_id"}]}`:                              {},
	`{"tools":[{"type":"function","function":{"parameters":{"properties":{"file_id":{"type":"image"}}}}}]}`: {Tools: true},
	`{"tools":[],"functions":[]}`:                                                                  {},
	`{"functions":[{"name":"f"}]}`:                                                                 {Tools: true},
	`{"response_format":{"type":"json_schema","json_schema":{}}}`:                                  {Schema: true},
	`{"response_format":{"type":"json_object"}}`:                                                   {},
	`{"text":{"format":{"type":"json_schema"}}}`:                                                   {Schema: true},
	`{"output_format":{"type":"json_schema","schema":{}}}`:                                         {Schema: true},
	`{"generationConfig":{"responseSchema":{"type":"object"}}}`:                                    {Schema: true},
	`{"generation_config":{"response_json_schema":{}}}`:                                            {Schema: true},
	`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:…"}}]}]}`: {Images: true},
	`{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"image","source":{"type":"base64"}}]}]}]}`: {Images: true},
	`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]}`:                                            {Images: true},
	`{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"…"}}]}]}`:                                             {Images: true},
	`{"previous_response_id":"resp_1","input":"go on"}`:                                                                         {Held: "previous_response_id"},
	`{"previous_response_id":null,"conversation":"","cachedContent":""}`:                                                        {},
	`{"conversation":{"id":"c"}}`:                                                                             {Held: "conversation"},
	`{"input":[{"type":"reasoning","encrypted_content":"gAAA"}]}`:                                             {Held: "encrypted_content"},
	`{"contents":[{"parts":[{"text":"x","thoughtSignature":"sig"}]}]}`:                                        {Held: "thoughtSignature"},
	`{"messages":[{"content":[{"type":"document","source":{"type":"file","file_id":"f_1"}}]}]}`:               {Held: "file_id", Files: true},
	`{"contents":[{"parts":[{"fileData":{"fileUri":"https://…"}}]}]}`:                                         {Held: "fileUri", Other: "fileData"},
	`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"…","signature":"Eq…"}]}]}`:    {Held: "thinking"},
	`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"…"}]}]}`:                      {},
	`{"messages":[{"role":"assistant","content":[{"type":"redacted_thinking","data":"Em…"}]}]}`:               {Held: "redacted_thinking"},
	`{"messages":[{"content":[{"type":"tool_use","input":{"file_id":"f","signature":"s","type":"image"}}]}]}`: {},
	`{"contents":[{"parts":[{"functionCall":{"name":"f","args":{"file_id":"f"}}}]}]}`:                         {},
	`{"input":[{"type":"item_reference","id":"rs_1"}]}`:                                                       {Held: "item_reference"},
	`{"input":[{"type":"reasoning","id":"rs_1","summary":[]}]}`:                                               {Held: "reasoning"},
	`{"prompt":{"id":"pmpt_1"}}`: {Held: "prompt"},
	`{"container":"c_1"}`:        {Held: "container"},
	`{"tools":[{"type":"web_search_20250305","name":"web_search"}]}`:          {Tools: true, Hosted: "web_search_20250305"},
	`{"tools":[{"type":"custom","name":"f"},{"name":"g","input_schema":{}}]}`: {Tools: true},
	`{"tools":[{"functionDeclarations":[{}]},{"googleSearch":{}}]}`:           {Tools: true, Hosted: "googleSearch"},
	`{"tools":[{"type":"function"}],"parallel_tool_calls":true}`:              {Tools: true, Parallel: true},
	`{"mcp_servers":[{"url":"https://x.test"}]}`:                              {Tools: true, Hosted: "mcp_servers"},

	// A tool whose schema is to be kept, wherever its API says so; a parameter of that name is none.
	`{"tools":[{"type":"function","function":{"name":"f","strict":true}}]}`:                                     {Tools: true, Strict: true},
	`{"tools":[{"type":"function","function":{"name":"f","strict":false,"parameters":{"strict":true}}}]}`:       {Tools: true},
	`{"tools":[{"type":"function","name":"f","strict":null},{"type":"function","name":"g","strict":true}]}`:     {Tools: true, Strict: true},
	`{"tools":[{"name":"f","strict":true,"input_schema":{}}]}`:                                                  {Tools: true, Strict: true},
	`{"tools":[{"name":"f","input_schema":{"strict":true}}]}`:                                                   {Tools: true},
	`{"tools":[{"functionDeclarations":[{}]}],"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"}}}`:     {Tools: true, Strict: true},
	`{"tools":[{"function_declarations":[{}]}],"tool_config":{"function_calling_config":{"mode":"VALIDATED"}}}`: {Tools: true, Strict: true},
	`{"toolConfig":{"functionCallingConfig":{"mode":"AUTO"},"retrievalConfig":{"mode":"VALIDATED"}}}`:           {},
	`{"tools":[{"type":"function","function":{"strict":true,"strict":false},"function":{"name":"f"}}]}`:         {Tools: true, Strict: true},
	`{"tools":[{"name":"f","strict":true,"strict":false}],"tools":[]}`:                                          {Tools: true, Strict: true},
	`{"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED","mode":"AUTO"}},"tool_config":{}}`:              {Strict: true},

	// What is said twice is asked if either asks it.
	`{"tools":[],"tools":[{"type":"function"}]}`:                                                             {Tools: true},
	`{"tools":[{"type":"web_search"}],"tools":[]}`:                                                           {Tools: true, Hosted: "web_search"},
	`{"tools":[{"type":"function","type":"web_search"}]}`:                                                    {Tools: true, Hosted: "web_search"},
	`{"t\u006fols":[{"type":"function"}]}`:                                                                   {Tools: true},
	`{"mcp_servers":[],"mcp_servers":[{"url":"https://x.test"}]}`:                                            {Tools: true, Hosted: "mcp_servers"},
	`{"response_format":{"type":"text"},"response_format":{"type":"json_schema"}}`:                           {Schema: true},
	`{"response_format":{"type":"text","type":"json_schema"}}`:                                               {Schema: true},
	`{"generation_config":{"temperature":0},"generationConfig":{},"generationConfig":{"responseSchema":{}}}`: {Schema: true},
	`{"messages":[],"messages":[{"content":[{"type":"image_url"}]}]}`:                                        {Images: true},
	`{"messages":[{"content":"x","content":[{"type":"text","type":"image_url"}]}]}`:                          {Images: true},
	`{"previous_response_id":null,"previous_response_id":"resp_1"}`:                                          {Held: "previous_response_id"},
	`{"parallel_tool_calls":true,"parallel_tool_calls":false,"functions":[{}]}`:                              {Tools: true, Parallel: true},

	// Every modality of the three APIs, in what is asked and in what is to be answered.
	`{"messages":[{"content":[{"type":"input_audio","input_audio":{}}]}]}`:                                                      {Audio: true},
	`{"messages":[{"content":[{"type":"video_url","video_url":{}}]}]}`:                                                          {Video: true},
	`{"messages":[{"content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,x"}}]}]}`:                         {Files: true},
	`{"input":[{"content":[{"type":"input_file","file_data":"data:application/pdf;base64,x"}]}]}`:                               {Files: true},
	`{"input":[{"type":"function_call_output","output":[{"type":"input_image"}]}]}`:                                             {Images: true},
	`{"messages":[{"content":[{"type":"document","source":{"type":"text","data":"x"}}]}]}`:                                      {Files: true},
	`{"messages":[{"content":[{"type":"document","source":{"content":[{"type":"image"}]}}]}]}`:                                  {Files: true, Images: true},
	`{"contents":[{"parts":[{"inline_data":{"mime_type":"audio/wav","data":"x"}}]}]}`:                                           {Audio: true},
	`{"contents":{"parts":[{"inlineData":{"mimeType":"application/pdf"},"videoMetadata":{"fps":1}}]}}`:                          {Files: true, Video: true},
	`{"contents":[{"parts":[{"functionResponse":{"response":{"text":1},"parts":[{"inlineData":{"mimeType":"video/mp4"}}]}}]}]}`: {Video: true},
	`{"modalities":["text"],"generationConfig":{"responseModalities":["TEXT"]}}`:                                                {},
	`{"modalities":["text","audio"]}`:                       {Other: "an answer as audio"},
	`{"audio":{"voice":"alloy"}}`:                           {Other: "audio"},
	`{"generationConfig":{"responseModalities":["IMAGE"]}}`: {Other: "an answer as image"},
	`{"generation_config":{"speech_config":{"voice":1}}}`:   {Other: "speech_config"},
	`{"messages":[{"content":[{"type":"hologram"}]}]}`:      {Other: "hologram"},
	`{"input":[{"type":"dream"}]}`:                          {Other: "dream"},
	`{"contents":[{"parts":[{"hologram":{"x":1}}]}]}`:       {Other: "hologram"},
	`{"messages":[{"content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},{"type":"tool_use","id":"t","caller":{"type":"direct"}}]}]}`: {},

	// What a provider keeps, or runs.
	`{"web_search_options":{}}`: {Hosted: "web_search_options"},
	`{"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}}`: {Hosted: "context_management"},
	`{"background":true}`:  {Held: "background"},
	`{"background":false}`: {},
	`{"messages":[{"role":"assistant","audio":{"id":"audio_1"}}]}`:                                                     {Held: "audio"},
	`{"messages":[{"content":[{"type":"server_tool_use","name":"web_search"}]}]}`:                                      {Held: "server_tool_use"},
	`{"messages":[{"content":[{"type":"web_search_tool_result","content":[{"type":"web_search_result"}]}]}]}`:          {Held: "web_search_tool_result"},
	`{"input":[{"type":"code_interpreter_call","code":"1"}]}`:                                                          {Held: "code_interpreter_call"},
	`{"input":[{"type":"function_call","arguments":"{}"},{"type":"function_call_output","output":"1"}]}`:               {},
	`{"contents":[{"parts":[{"executableCode":{"code":"1"}}]}]}`:                                                       {Held: "executableCode"},
	`{"guided_json":{"type":"object"}}`:                                                                                {Schema: true},
	`{"response_format":{"type":"json_object","schema":{"type":"object"}}}`:                                            {Schema: true},
	`{"response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{"file_id":{"type":"string"}}}}}}`: {Schema: true},
	``:                      {},
	`null`:                  {},
	`[1]`:                   {},
	`{"tools":`:             {},
	"--boundary\r\nfile_id": {},
}

func TestNeeds(t *testing.T) {
	for body, want := range needs {
		if got := gateway.NeedsOf([]byte(body)); got != want {
			t.Errorf("%s: %+v, want %+v", body, got, want)
		}
	}
}

// Any body is read without a panic, and to the same effect twice.
func FuzzNeeds(f *testing.F) {
	for body := range needs {
		f.Add([]byte(body))
	}
	f.Add([]byte(strings.Repeat(`{"a":[`, 5000)))
	f.Fuzz(func(t *testing.T, body []byte) {
		if a, b := gateway.NeedsOf(body), gateway.NeedsOf(body); a != b {
			t.Errorf("%+v, then %+v", a, b)
		}
	})
}

// How long a request and its answer may be is read with the same care: of what is said twice the most counts.
func TestTokensOfWhatIsSaidTwice(t *testing.T) {
	for body, want := range map[string]int64{
		`{}`:                                  4096,
		`{"max_tokens":10}`:                   10,
		`{"max_tokens":10,"max_tokens":9000}`: 9000,
		`{"max_tokens":9000,"max_tokens":10}`: 9000,
		`{"max_tokens":10,"n":1,"n":3}`:       30,
		`{"generationConfig":{"maxOutputTokens":"7"},"generation_config":{"max_output_tokens":70,"candidate_count":2}}`: 140,
		`{"max_tokens":-1,"max_completion_tokens":null,"n":"x"}`:                                                        4096,
	} {
		if _, out := gateway.Tokens("chat.completions", []byte(body), &policy.Tier{}); out != want {
			t.Errorf("%s: %d, want %d", body, out, want)
		}
	}
}
