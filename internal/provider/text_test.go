package provider

import (
	"testing"

	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ endpoint, body, want string }{
		{wire.Chat, `{"choices":[{"message":{"role":"assistant","content":"a\u00e4\n"}},{"message":{"content":"second"}}]}`, "aä\n"},
		{wire.Chat, `{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"image_url"},{"type":"text","text":"b"}]}}]}`, "ab"},
		{wire.Chat, `{"choices":[{"message":{"content":null,"refusal":"No."}}]}`, "No."},
		{wire.Chat, `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"1"}]}}]}`, ""},
		{wire.Responses, `{"output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]},{"type":"message","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}]}]}`, "ab"},
		{wire.Responses, `{"output":[{"type":"message","content":[{"type":"refusal","refusal":"No."}]}]}`, "No."},
		{wire.Messages, `{"content":[{"type":"thinking","thinking":"hm","text":"not this"},{"type":"text","text":"a"},{"type":"tool_use","name":"t"},{"type":"text","text":"b"}]}`, "ab"},
		{wire.Generate, `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"a"},{"functionCall":{}},{"text":"b"}]}},{"content":{"parts":[{"text":"second"}]}}]}`, "ab"},
		{wire.Chat, `{"choices":"none"}`, ""},
		{wire.Messages, `[`, ""},
		{wire.Embeddings, `{"data":[]}`, ""},
	} {
		if got := Text(&Call{Endpoint: c.endpoint}, []byte(c.body)); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.endpoint, c.body, got, c.want)
		}
	}
}
