package gateway_test

import (
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
)

// A file in a body is no text: it counts as one, in every place where the three APIs have files. Nor is a text without blanks a file,
// wherever it stands.
func TestFilesAndTextsAreMeasured(t *testing.T) {
	data := strings.Repeat("QUJD", 10_000)
	for form, file := range map[string]bool{
		`{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,DATA"}}]}]}`:                      true,
		`{"messages":[{"content":[{"type":"image_url","image_url":{"url" : "data:image/png;base64,D\/ATA"}}]}]}`:                  true,
		`{"input":[{"content":[{"type":"input_image","image_url":"data:image/png;base64,DATA"}]}]}`:                               true,
		`{"messages":[{"content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,DATA"}}]}]}`: true,
		`{"messages":[{"content":[{"type":"input_audio","input_audio":{"data":"DATA","format":"wav"}}]}]}`:                        true,
		`{"messages":[{"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"DATA"}}]}]}`:         true,
		`{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data": "DATA"}}]}]}`:                                       true,
		`{"contents":[{"parts":[{"inline_data":{"data":"DATA","mime_type":"image/png"}}]}]}`:                                      true,
		`{"messages":[{"role":"user","content":"DATA"}]}`:                                                                         false,
		`{"messages":[{"role":"user","content":"data:image/png;base64,DATA"}]}`:                                                   false,
		`{"messages":[{"content":[{"type":"text","text":"see \"url\":\"data:image/png;base64,DATA\""}]}]}`:                        false,
		`{"messages":[{"content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"DATA"}}]}]}`:       false,
		`{"messages":[{"content":[{"type":"tool_use","input":{"data":"DATA"}}]}]}`:                                                false,
		`{"messages":[{"tool_calls":[{"function":{"arguments":"{\"data\":\"DATA\",\"format\":1}"}}]}]}`:                           false,
		`DATA`: false,
	} {
		in, _ := gateway.Tokens("chat.completions", []byte(strings.Replace(form, "ATA", "ATA"+data, 1)), &policy.Tier{})
		if file != (in < 2000) {
			t.Errorf("%s: %d tokens", form, in)
		}
	}
}
