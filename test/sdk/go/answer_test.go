package sdk

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"
)

func TestText(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		both(t, func(t *testing.T, streamed bool) {
			const want = "Grüße, 世界 \"1\" 🎉\nand a second line"
			op := theRig.op()
			got, tape, err := c.ask(t.Context(), streamed, call{op: op, prompt: "say it", script: `{"text":"Gr\u00fc\u00dfe, \u4e16\u754c \"1\" \ud83c\udf89\nand a second line"}`})
			if err != nil {
				t.Fatal(err)
			}
			if got.text != want {
				t.Errorf("text %q, want %q", got.text, want)
			}
			if n := theRig.counts(t, op); n.Calls != 1 || n.Effects != 1 || tape.attempts() != 1 {
				t.Errorf("%d attempts of the client, %+v upstream, want 1 each", tape.attempts(), n)
			}
			if !theRig.direct() && tape.last().header.Get("Holdfast-Intent") == "" {
				t.Error("no Holdfast-Intent header")
			}
		})
	})
}

func TestTool(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		both(t, func(t *testing.T, streamed bool) {
			got, _, err := c.ask(t.Context(), streamed, call{op: theRig.op(), prompt: "weather", tool: true, script: toolScript("")})
			if err != nil {
				t.Fatal(err)
			}
			if got.call == nil || got.call.name != toolName || !sameJSON(t, got.call.args, toolArgs) {
				t.Errorf("call %+v, want %s(%s)", got.call, toolName, toolArgs)
			}
		})
	})
}

// toolScript makes the simulator call the tool; more is added to the step, such as `,"fault":"cut:3"`.
func toolScript(more string) string {
	args := `{"city":"Z\u00fcrich \"Altstadt\"","days":3,"units":{"temperature":"C"}}` // a header takes ASCII only
	return `{"tool":"` + toolName + `","tool_args":` + args + more + `}`
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Errorf("not JSON: %v: %s", err, a)
		return false
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}

// TestCredential sends each client's own credential on where the gateway has none configured (semantics 44).
func TestCredential(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		op := theRig.op()
		_, tape, err := c.ask(t.Context(), false, call{op: op, prompt: "who am I"})
		if err != nil {
			t.Fatal(err)
		}
		calls := theRig.calls(t, op)
		if len(calls) != 1 {
			t.Fatalf("%d calls upstream, want 1", len(calls))
		}
		for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
			if sent := tape.last().request.Get(name); sent != "" && calls[0].Headers[name] != fingerprint(sent) {
				t.Errorf("%s arrived as %q, want the client's own", name, calls[0].Headers[name])
			}
		}
	})
}

// TestPrefix: the provider's name may stand in front of its paths (interface.md §2).
func TestPrefix(t *testing.T) {
	needGateway(t)
	chat, responses := openaiClients(theRig.url + "/openai")
	for _, c := range []client{chat, responses, anthropicClient(theRig.url + "/anthropic"), geminiClient(theRig.url + "/gemini")} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, streamed bool) {
				got, _, err := c.ask(t.Context(), streamed, call{op: theRig.op(), prompt: "by name", script: `{"text":"found"}`})
				if err != nil || got.text != "found" {
					t.Errorf("%q, %v", got.text, err)
				}
			})
		})
	}
}

func TestEmbeddings(t *testing.T) {
	t.Run("openai", func(t *testing.T) {
		t.Parallel()
		sdk := newOpenAI(theRig.url)
		res, err := sdk.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
			Model: "text-embedding-3-small", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"one", "two"}},
		}, openaiOptions(call{op: theRig.op()})...)
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Data) != 2 || len(res.Data[0].Embedding) == 0 || len(res.Data[1].Embedding) == 0 {
			t.Errorf("embeddings: %d vectors", len(res.Data))
		}
	})
	t.Run("gemini", func(t *testing.T) {
		t.Parallel()
		res, err := newGemini(theRig.url).Models.EmbedContent(t.Context(), "gemini-embedding-001", genai.Text("one"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Embeddings) != 1 || len(res.Embeddings[0].Values) == 0 {
			t.Errorf("embeddings: %d vectors", len(res.Embeddings))
		}
	})
}

func TestCountTokens(t *testing.T) {
	t.Run("anthropic", func(t *testing.T) {
		t.Parallel()
		sdk := newAnthropic(theRig.url)
		res, err := sdk.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{
			Model: anthropicModel, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("how long"))},
		})
		if err != nil || res.InputTokens <= 0 {
			t.Errorf("tokens %+v, %v", res, err)
		}
	})
	t.Run("gemini", func(t *testing.T) {
		t.Parallel()
		res, err := newGemini(theRig.url).Models.CountTokens(t.Context(), geminiModel, genai.Text("how long"), nil)
		if err != nil || res.TotalTokens <= 0 {
			t.Errorf("tokens %+v, %v", res, err)
		}
	})
}

func TestModels(t *testing.T) {
	t.Run("openai", func(t *testing.T) {
		t.Parallel()
		sdk := newOpenAI(theRig.url)
		page, err := sdk.Models.List(t.Context())
		if err != nil || len(page.Data) == 0 || page.Data[0].ID == "" {
			t.Errorf("models %+v, %v", page, err)
		}
	})
	t.Run("anthropic", func(t *testing.T) {
		t.Parallel()
		sdk := newAnthropic(theRig.url)
		page, err := sdk.Models.List(t.Context(), anthropic.ModelListParams{})
		if err != nil || len(page.Data) == 0 || page.Data[0].ID == "" {
			t.Errorf("models %+v, %v", page, err)
		}
	})
	t.Run("gemini", func(t *testing.T) {
		t.Parallel()
		page, err := newGemini(theRig.url).Models.List(t.Context(), nil)
		if err != nil || len(page.Items) == 0 || page.Items[0].Name == "" {
			t.Errorf("models %+v, %v", page, err)
		}
	})
}

// TestStoredResponse reads a response again by its id.
func TestStoredResponse(t *testing.T) {
	sdk := newOpenAI(theRig.url)
	in := call{op: theRig.op(), prompt: "keep this"}
	made, err := sdk.Responses.New(t.Context(), responsesParams(in), openaiOptions(in)...)
	if err != nil {
		t.Fatal(err)
	}
	read, err := sdk.Responses.Get(t.Context(), made.ID, responses.ResponseGetParams{})
	if err != nil {
		t.Fatal(err)
	}
	if read.OutputText() != made.OutputText() || made.OutputText() == "" {
		t.Errorf("read %q, made %q", read.OutputText(), made.OutputText())
	}
}
