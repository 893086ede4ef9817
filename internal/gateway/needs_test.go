package gateway_test

import (
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/internal/gateway"
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
	`{"messages":[{"content":[{"type":"document","source":{"type":"file","file_id":"f_1"}}]}]}`:               {Held: "file_id"},
	`{"contents":[{"parts":[{"fileData":{"fileUri":"https://…"}}]}]}`:                                         {Held: "fileUri", Images: true},
	`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"…","signature":"Eq…"}]}]}`:    {Held: "thinking"},
	`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"…"}]}]}`:                      {},
	`{"messages":[{"role":"assistant","content":[{"type":"redacted_thinking","data":"Em…"}]}]}`:               {Held: "redacted_thinking"},
	`{"messages":[{"content":[{"type":"tool_use","input":{"file_id":"f","signature":"s","type":"image"}}]}]}`: {},
	`{"contents":[{"parts":[{"functionCall":{"name":"f","args":{"file_id":"f"}}}]}]}`:                         {},
	`{"input":[{"type":"item_reference","id":"rs_1"}]}`:                                                       {Held: "item_reference"},
	`{"input":[{"type":"reasoning","id":"rs_1","summary":[]}]}`:                                               {Held: "reasoning"},
	`{"prompt":{"id":"pmpt_1"}}`: {Held: "prompt"},
	`{"container":"c_1"}`:        {Held: "container"},
	`{"tools":[{"type":"web_search_20250305","name":"web_search"}]}`:                               {Tools: true, Hosted: "web_search_20250305"},
	`{"tools":[{"type":"custom","name":"f"},{"name":"g","input_schema":{}}]}`:                      {Tools: true},
	`{"tools":[{"functionDeclarations":[{}]},{"googleSearch":{}}]}`:                                {Tools: true, Hosted: "googleSearch"},
	`{"tools":[{"type":"function"}],"parallel_tool_calls":true}`:                                   {Tools: true, Parallel: true},
	`{"mcp_servers":[{"url":"https://x.test"}]}`:                                                   {Tools: true, Hosted: "mcp_servers"},
	`{"tools":[],"tools":[{"type":"function"}]}`:                                                   {Tools: true},
	`{"tools":[{"type":"function"}],"tools":[]}`:                                                   {Tools: true},
	`{"tools":[],"tools":[{"type":"web_search"}]}`:                                                 {Tools: true, Hosted: "web_search"},
	`{"tools":[{"type":"function","type":"web_search"}]}`:                                          {Tools: true, Hosted: "web_search"},
	`{"mcp_servers":[],"mcp_servers":[{"url":"https://x.test"}]}`:                                  {Tools: true, Hosted: "mcp_servers"},
	`{"response_format":{"type":"text"},"response_format":{"type":"json_schema"}}`:                 {Schema: true},
	`{"response_format":{"type":"text","type":"json_schema"}}`:                                     {Schema: true},
	`{"generationConfig":{},"generationConfig":{"responseSchema":{}}}`:                             {Schema: true},
	`{"parallel_tool_calls":false,"tools":[{"type":"function"}],"parallel_tool_calls":true}`:       {Tools: true, Parallel: true},
	`{"input":[{"type":"message","type":"reasoning","id":"rs_1"}]}`:                                {Held: "reasoning"},
	`{"messages":[{"content":[{"type":"thinking","signature":"","signature":"Eq…"}]}]}`:            {Held: "thinking"},
	`{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"…"}}]}]}`: {Media: true},
	`{"messages":[{"role":"user","content":[{"type":"video_url","video_url":{"url":"x"}}]}]}`:      {Media: true},
	`{"modalities":["text","audio"],"audio":{"voice":"alloy","format":"wav"}}`:                     {Media: true},
	`{"modalities":["text"]}`:                                      {},
	`{"generationConfig":{"responseModalities":["TEXT","IMAGE"]}}`: {Media: true},
	`{"messages":[{"role":"assistant","audio":{"id":"audio_1"}}]}`: {Held: "audio"},
	`{"web_search_options":{}}`:                                    {Hosted: "web_search_options"},
	`{"input":"x","background":true}`:                              {Held: "background"},
	`{"input":"x","background":false}`:                             {},
	``:                                                             {},
	`null`:                                                         {},
	`[1]`:                                                          {},
	`{"tools":`:                                                    {},
	"--boundary\r\nfile_id":                                        {},
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
