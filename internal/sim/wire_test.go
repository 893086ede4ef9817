package sim

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

var update = flag.Bool("update", false, "write the golden files")

// weather is a tool as each wire spells it.
const (
	weatherSchema = `{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":2},"unit":{"enum":["C","F"]}},"required":["city","days"]}`
	chatTools     = `"tools":[{"type":"function","function":{"name":"get_weather","parameters":` + weatherSchema + `}}]`
	respTools     = `"tools":[{"type":"function","name":"get_weather","parameters":` + weatherSchema + `}]`
	anthTools     = `"tools":[{"name":"get_weather","input_schema":` + weatherSchema + `}]`
	gemTools      = `"tools":[{"functionDeclarations":[{"name":"get_weather","parametersJsonSchema":` + weatherSchema + `}]}]`
	chatHello     = `"messages":[{"role":"system","content":"s"},{"role":"user","content":"hello"}]`
	anthHello     = `"max_tokens":64,"messages":[{"role":"user","content":[{"type":"text","text":"hello"}]}]`
	gemHello      = `"contents":[{"role":"user","parts":[{"text":"hello"}]}]`
)

// TestWire holds the exact bytes of each endpoint. They were read by openai-go 3.99, anthropic-sdk-go 1.84 and
// go-genai 1.77 when the golden files were made.
func TestWire(t *testing.T) {
	anthropic := []string{"Anthropic-Version", "2023-06-01"}
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
	}{
		{"chat", "POST", "/v1/chat/completions", `{"model":"gpt-5",` + chatHello + `}`, nil},
		{"chat-n", "POST", "/v1/chat/completions", `{"model":"gpt-5","n":2,` + chatHello + `}`, nil},
		{"chat-stream", "POST", "/v1/chat/completions", `{"model":"gpt-5","stream":true,` + chatHello + `}`, nil},
		{"chat-stream-usage", "POST", "/v1/chat/completions", `{"model":"gpt-5","stream":true,"stream_options":{"include_usage":true},` + chatHello + `}`, nil},
		{"chat-tool", "POST", "/v1/chat/completions", `{"model":"gpt-5","tool_choice":"required",` + chatTools + `,` + chatHello + `}`, nil},
		{"chat-tool-stream", "POST", "/v1/chat/completions", `{"model":"gpt-5","stream":true,"tool_choice":{"type":"function","function":{"name":"get_weather"}},` + chatTools + `,` + chatHello + `}`, nil},
		{"chat-tool-unasked", "POST", "/v1/chat/completions", `{"model":"gpt-5",` + chatTools + `,` + chatHello + `}`, nil},
		{"chat-json", "POST", "/v1/chat/completions", `{"model":"gpt-5","response_format":{"type":"json_schema","json_schema":{"name":"w","schema":` + weatherSchema + `}},` + chatHello + `}`, nil},
		{"chat-azure", "POST", "/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21", `{"model":"gpt-4o",` + chatHello + `}`, nil},
		{"chat-error", "POST", "/v1/chat/completions", `{"model":"sim:429",` + chatHello + `}`, nil},
		{"chat-error-event", "POST", "/v1/chat/completions", `{"model":"sim:error:2","stream":true,` + chatHello + `}`, nil},
		{"chat-invalid", "POST", "/v1/chat/completions", `{"model":`, nil},
		{"chat-no-model", "POST", "/v1/chat/completions", `{` + chatHello + `}`, nil},
		{"responses", "POST", "/v1/responses", `{"model":"gpt-5","input":"hello"}`, nil},
		{"responses-stream", "POST", "/v1/responses", `{"model":"gpt-5","stream":true,"input":[{"role":"user","content":[{"type":"input_text","text":"hello"}]}]}`, nil},
		{"responses-tool", "POST", "/v1/responses", `{"model":"gpt-5","input":"please get_weather",` + respTools + `}`, nil},
		{"responses-tool-stream", "POST", "/v1/responses", `{"model":"gpt-5","stream":true,"tool_choice":"required","input":"hello",` + respTools + `}`, nil},
		{"responses-error-event", "POST", "/v1/responses", `{"model":"sim:error:4","stream":true,"input":"hello"}`, nil},
		{"responses-missing", "GET", "/v1/responses/resp_none", "", nil},
		{"embeddings", "POST", "/v1/embeddings", `{"model":"text-embedding-3-small","input":["a","b"],"dimensions":3}`, nil},
		{"embeddings-base64", "POST", "/v1/embeddings", `{"model":"text-embedding-3-small","input":"a","encoding_format":"base64"}`, nil},
		{"openai-models", "GET", "/v1/models", "", nil},
		{"openai-model", "GET", "/v1/models/gpt-5", "", nil},
		{"messages", "POST", "/v1/messages", `{"model":"claude-sonnet-5",` + anthHello + `}`, anthropic},
		{"messages-stream", "POST", "/v1/messages", `{"model":"claude-sonnet-5","stream":true,` + anthHello + `}`, anthropic},
		{"messages-tool", "POST", "/v1/messages", `{"model":"claude-sonnet-5","tool_choice":{"type":"tool","name":"get_weather"},` + anthTools + `,` + anthHello + `}`, anthropic},
		{"messages-tool-stream", "POST", "/v1/messages", `{"model":"claude-sonnet-5","stream":true,"tool_choice":{"type":"any"},` + anthTools + `,` + anthHello + `}`, anthropic},
		{"messages-error", "POST", "/v1/messages", `{"model":"sim:529",` + anthHello + `}`, anthropic},
		{"messages-error-event", "POST", "/v1/messages", `{"model":"sim:error:4","stream":true,` + anthHello + `}`, anthropic},
		{"messages-no-max", "POST", "/v1/messages", `{"model":"claude-sonnet-5","messages":[{"role":"user","content":"x"}]}`, anthropic},
		{"count-tokens", "POST", "/v1/messages/count_tokens", `{"model":"claude-sonnet-5","messages":[{"role":"user","content":"x"}]}`, anthropic},
		{"anthropic-models", "GET", "/v1/models", "", anthropic},
		{"gemini", "POST", "/v1beta/models/gemini-2.5-flash:generateContent", `{` + gemHello + `}`, nil},
		{"gemini-sse", "POST", "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", `{` + gemHello + `}`, nil},
		{"gemini-array", "POST", "/v1beta/models/gemini-2.5-flash:streamGenerateContent", `{` + gemHello + `}`, nil},
		{"gemini-tool", "POST", "/v1beta/models/gemini-2.5-flash:generateContent", `{"toolConfig":{"functionCallingConfig":{"mode":"ANY"}},` + gemTools + `,` + gemHello + `}`, nil},
		{"gemini-tool-sse", "POST", "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", `{"toolConfig":{"functionCallingConfig":{"mode":"ANY"}},` + gemTools + `,` + gemHello + `}`, nil},
		{"gemini-error", "POST", "/v1beta/models/sim:503:generateContent", `{` + gemHello + `}`, nil},
		{"gemini-error-array", "POST", "/v1beta/models/sim:503:streamGenerateContent", `{` + gemHello + `}`, nil},
		{"gemini-error-event", "POST", "/v1beta/models/sim:error:2:streamGenerateContent?alt=sse", `{` + gemHello + `}`, nil},
		{"gemini-error-element", "POST", "/v1beta/models/sim:error:2:streamGenerateContent", `{` + gemHello + `}`, nil},
		{"gemini-embed", "POST", "/v1beta/models/gemini-embedding-001:embedContent", `{"content":{"parts":[{"text":"a"}]}}`, nil},
		{"gemini-embed-batch", "POST", "/v1beta/models/gemini-embedding-001:batchEmbedContents", `{"requests":[{"content":{"parts":[{"text":"a"}]}},{"content":{"parts":[{"text":"b"}]}}]}`, nil},
		{"gemini-count", "POST", "/v1beta/models/gemini-2.5-flash:countTokens", `{` + gemHello + `}`, nil},
		{"gemini-models", "GET", "/v1beta/models", "", nil},
		{"tool", "POST", "/tools/billing/charges", `{"customer":"c-9","amount":9007199254740993}`, []string{"Idempotency-Key", "k1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, Config{}) // its own, so that every execution is the first
			resp, body := send(t, s, c.method, c.path, c.body, c.header...)
			golden(t, c.name, resp, body)
		})
	}
}

func golden(t *testing.T, name string, resp *http.Response, body []byte) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", resp.Status)
	for _, h := range slices.Sorted(maps.Keys(resp.Header)) {
		if h != "Date" {
			fmt.Fprintf(&b, "%s: %s\n", h, strings.Join(resp.Header[h], ", "))
		}
	}
	b.WriteString("\n" + strings.ReplaceAll(string(body), "\r\n", "␍␊\n")) // line ends that editors would spoil
	file := filepath.Join("testdata", "golden", name+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (write it with -update)", err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestStoredResponses holds the calls that reconcilers make on a response's id.
func TestStoredResponses(t *testing.T) {
	s := start(t, Config{})
	_, first := send(t, s, "POST", "/v1/responses", `{"model":"gpt-5","input":"hello"}`)
	id := field(&Effect{Body: first}, "id")
	if _, again := send(t, s, "GET", "/v1/responses/"+id, ""); string(again) != string(first) {
		t.Errorf("read again: %s; want %s", again, first)
	}
	_, whole := send(t, s, "GET", "/v1/responses/"+id+"?stream=true", "")
	_, rest := send(t, s, "GET", "/v1/responses/"+id+"?stream=true&starting_after=3", "")
	if !strings.HasSuffix(string(whole), string(rest)) || !strings.Contains(string(rest), `"sequence_number":4`) ||
		strings.Contains(string(rest), `"sequence_number":3`) {
		t.Errorf("resumed stream: %s", rest)
	}
	if resp, _ := send(t, s, "DELETE", "/v1/responses/"+id, ""); resp.StatusCode != 200 {
		t.Errorf("delete: %s", resp.Status)
	}
	if resp, _ := send(t, s, "GET", "/v1/responses/"+id, ""); resp.StatusCode != 404 {
		t.Errorf("read after delete: %s", resp.Status)
	}
	if got := s.Counts("").Effects; got != 1 {
		t.Errorf("reading had effects: %d in all", got)
	}
}

// TestStoredCompletions lists those that were stored, by metadata and in pages, as OpenAI documents it.
func TestStoredCompletions(t *testing.T) {
	s := start(t, Config{})
	var ids []string
	for i := range 5 {
		body := fmt.Sprintf(`{"model":"gpt-5","store":%v,"metadata":{"n":"%d","all":"yes"},"messages":[{"role":"user","content":"hello"}]}`, i != 1, i)
		_, answer := send(t, s, "POST", chatPath, body)
		if i != 1 { // one that is not stored is not there
			ids = append(ids, field(&Effect{Body: answer}, "id"))
		}
	}
	var seen []string
	more, after := true, ""
	for pages := 0; more; pages++ {
		_, body := send(t, s, "GET", chatPath+"?metadata[all]=yes&limit=3"+after, "")
		list := gjson.ParseBytes(body)
		for _, x := range list.Get("data").Array() {
			seen = append(seen, x.Get("id").Str)
		}
		more, after = list.Get("has_more").Bool(), "&after="+list.Get("last_id").Str
		if pages > 1 || list.Get("object").Str != "list" || list.Get("first_id").Str != list.Get("data.0.id").Str {
			t.Fatalf("page %d: %s", pages, body)
		}
	}
	if diff := cmp.Diff(ids, seen); diff != "" {
		t.Error(diff)
	}
	_, body := send(t, s, "GET", chatPath+"?metadata%5Bn%5D=3&order=desc", "")
	if list := gjson.ParseBytes(body); list.Get("data.#").Int() != 1 || list.Get("data.0.metadata.n").Str != "3" || list.Get("has_more").Bool() {
		t.Errorf("by metadata: %s", body)
	}
	for _, query := range []string{"?metadata[n]=1", "?metadata[n]=9", "?metadata[other]=3", "?model=gpt-4o"} {
		if _, body := send(t, s, "GET", chatPath+query, ""); gjson.GetBytes(body, "data.#").Int() != 0 {
			t.Errorf("%s: %s", query, body)
		}
	}
	if resp, _ := send(t, s, "GET", chatPath+"?after=chatcmpl-none", ""); resp.StatusCode != 404 {
		t.Errorf("behind one that is not there: %s", resp.Status)
	}
	if got := s.Counts("").Effects; got != 5 {
		t.Errorf("%d effects: reading has none", got)
	}
}

// TestBackgroundResponse is queued, then in progress, then complete.
func TestBackgroundResponse(t *testing.T) {
	s := start(t, Config{})
	_, body := send(t, s, "POST", "/v1/responses", `{"model":"gpt-5","background":true,"input":"hello"}`)
	id := field(&Effect{Body: body}, "id")
	states := []string{field(&Effect{Body: body}, "status")}
	for range 3 {
		_, body = send(t, s, "GET", "/v1/responses/"+id, "")
		states = append(states, field(&Effect{Body: body}, "status"))
	}
	if diff := cmp.Diff([]string{"queued", "in_progress", "completed", "completed"}, states); diff != "" {
		t.Error(diff)
	}
}

// TestExecutionsDiffer: the same request twice gives two answers that can be told apart, in text and id.
func TestExecutionsDiffer(t *testing.T) {
	s := start(t, Config{})
	for path, body := range map[string]string{
		chatPath:       chatBody("hello", false),
		"/v1/messages": `{"model":"m",` + anthHello + `}`,
		"/v1beta/models/gemini-2.5-flash:generateContent": `{` + gemHello + `}`,
		"/charges": `{}`,
	} {
		_, one := send(t, s, "POST", path, body)
		_, two := send(t, s, "POST", path, body)
		if string(one) == string(two) {
			t.Errorf("%s: two executions look alike: %s", path, one)
		}
	}
}
