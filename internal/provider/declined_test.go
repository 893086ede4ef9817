package provider_test

import (
	"testing"

	"github.com/holdfast-ai/holdfast/internal/provider"
)

func TestDeclined(t *testing.T) {
	for doc, want := range map[string]bool{
		`{"choices":[{"finish_reason":"content_filter","message":{"content":null}}]}`:                  true,
		`{"choices":[{"finish_reason":"stop","message":{"content":null,"refusal":"I cannot."}}]}`:      true,
		`{"choices":[{"finish_reason":"stop","message":{"content":"content_filter"}}]}`:                false,
		`{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}`:                     true,
		`{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}`:                  false,
		`{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}`: true,
		`{"type":"message","stop_reason":"refusal","content":[]}`:                                      true,
		`{"type":"message_delta","delta":{"stop_reason":"refusal"}}`:                                   true,
		`{"type":"message","stop_reason":"end_turn"}`:                                                  false,
		`{"promptFeedback":{"blockReason":"SAFETY"}}`:                                                  true,
		`{"candidates":[{"finishReason":"PROHIBITED_CONTENT"}]}`:                                       true,
		`{"candidates":[{"finishReason":"STOP"}]}`:                                                     false,
		`{"choices":"x","candidates":{},"delta":1}`:                                                    false,
		``: false, `[`: false, `null`: false,
	} {
		if got := provider.Declined([]byte(doc)); got != want {
			t.Errorf("%s: %v", doc, got)
		}
		if got := provider.DeclinedStream(provider.SSE, []byte("event: x\ndata: "+doc+"\n\n")); got != want {
			t.Errorf("event %s: %v", doc, got)
		}
		if doc != "" && doc != "[" && provider.DeclinedStream(provider.JSONArray, []byte("["+doc+"]")) != want {
			t.Errorf("element %s", doc)
		}
	}
}

func FuzzDeclined(f *testing.F) {
	f.Add([]byte(`{"choices":[{"finish_reason":"content_filter"}]}`))
	f.Add([]byte("data: {\"response\":{\"response\":{}}}\n\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		provider.Declined(body)
		provider.DeclinedStream(provider.SSE, body)
		provider.DeclinedStream(provider.JSONArray, body)
	})
}
