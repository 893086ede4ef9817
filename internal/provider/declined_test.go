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

func TestHoldsRefusal(t *testing.T) {
	for body, want := range map[string]bool{
		`{"message":{"content":null,"refusal":"I cannot."}}`:                                      true,
		`{"message":{"content":null, "refusal" : "I cannot."}}`:                                   true,
		`{"message":{"content":"hi","refusal":null}}`:                                             false,
		`{"message":{"content":"hi","refusal": ""}}`:                                              false,
		`{"content":[{"type":"refusal"}]}`:                                                        true,
		`{"content":[{"type" :` + "\n\t" + `"refusal","refusal":""}]}`:                            true,
		`{"stop_reason":"refusal"}`:                                                               true,
		"data: {\"type\" : \"response.refusal.delta\",\"delta\":\"I\"}\n\n":                       true,
		`{"message":{"content":"say \"type\":\"refusal\" and \"refusal\":\"x\"","refusal":null}}`: false,
		`{"content":"refusal"}`:                                                                   true, // a text of that one word: it is not kept, and that is all
		`["refusal"]`:                                                                             false,
		``:                                                                                        false,
		`"refusal"`:                                                                               false,
		`"refusal":`:                                                                              false,
		`{"content":"a refusal","x":1}`:                                                           false,
	} {
		if got := provider.HoldsRefusal([]byte(body)); got != want {
			t.Errorf("%s: %v", body, got)
		}
	}
}

func FuzzDeclined(f *testing.F) {
	f.Add([]byte(`{"choices":[{"finish_reason":"content_filter"}]}`))
	f.Add([]byte("data: {\"response\":{\"response\":{}}}\n\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		provider.Declined(body)
		provider.HoldsRefusal(body)
		provider.DeclinedStream(provider.SSE, body)
		provider.DeclinedStream(provider.JSONArray, body)
	})
}
