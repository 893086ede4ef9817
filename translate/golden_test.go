package translate

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// clients and fars are the folders and the beginnings of the file names in testdata.
var (
	clients = map[string]API{"openai": OpenAIChat, "anthropic": AnthropicMessages}
	fars    = map[string]API{"openai": OpenAIChat, "anthropic": AnthropicMessages, "gemini": GeminiGenerate}
)

// options name a model of the far side that takes most of what can be asked, and fix what else would differ from run to run.
func options(to API) Options {
	models := map[API]string{OpenAIChat: "gpt-4.1", AnthropicMessages: "claude-sonnet-4-6", GeminiGenerate: "gemini-3.5-flash"}
	return Options{Model: models[to], Seed: "seed", Now: func() time.Time { return time.Unix(1764446400, 0) }}
}

// exchange is one golden case: a client's request and a far side's answer.
type exchange struct {
	dir, far string
	from, to API
	request  []byte
	answer   []byte
	stream   bool
}

func exchanges(t testing.TB) (all []exchange) {
	t.Helper()
	found, err := filepath.Glob("testdata/*/*/*.answer.*")
	if err != nil || len(found) < 30 {
		t.Fatalf("%d answers, %v", len(found), err)
	}
	for _, name := range found {
		dir := filepath.Dir(name)
		far, _, _ := strings.Cut(filepath.Base(name), ".")
		all = append(all, exchange{dir: dir, far: far, from: clients[filepath.Base(filepath.Dir(dir))], to: fars[far],
			request: read(t, dir+"/request.json"), answer: read(t, name), stream: strings.HasSuffix(name, ".sse")})
	}
	return all
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(read(t, name)), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func indented(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return append(out.Bytes(), '\n')
}

// feed translates a stream in pieces of n bytes.
func feed(c *Call, stream []byte, n int) (string, error) {
	var told strings.Builder
	e := c.Events()
	for len(stream) > 0 {
		b, err := e.Feed(stream[:min(n, len(stream))])
		told.Write(b)
		if err != nil {
			return told.String(), err
		}
		stream = stream[min(n, len(stream)):]
	}
	b, err := e.Close()
	told.Write(b)
	return told.String(), err
}

func TestGolden(t *testing.T) {
	for _, x := range exchanges(t) {
		t.Run(x.dir+"/"+x.far, func(t *testing.T) {
			c, err := Request(x.from, x.to, x.request, options(x.to))
			if err != nil {
				t.Fatal(err)
			}
			if c.Stream != x.stream {
				t.Fatalf("stream is %v", c.Stream)
			}
			prefix := x.dir + "/" + x.far
			golden(t, prefix+".sent.json", indented(t, c.Body))
			if !x.stream {
				told, err := c.Answer(x.answer)
				if err != nil {
					t.Fatal(err)
				}
				golden(t, prefix+".told.json", indented(t, told))
				return
			}
			told, err := feed(c, x.answer, len(x.answer))
			if failed := strings.HasSuffix(x.dir, "/error"); failed != errors.Is(err, ErrFault) || !failed && err != nil {
				t.Fatal(err)
			}
			golden(t, prefix+".told.sse", []byte(told))
		})
	}
}

// Texts travel as they were written: what a decoder would change is in no way touched.
func TestTextsAreVerbatim(t *testing.T) {
	const half, folded, digits = `"half \ud83d \u00e9 \/ \u2028"`, `"ﬁ é é \u0000"`, `{"n":12345678901234567890.10}`
	body := `{"model":"m","messages":[{"role":"system","content":` + half + `},{"role":"user","content":` + folded + `},` +
		`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"` + strings.ReplaceAll(digits, `"`, `\"`) + `"}}]},` +
		`{"role":"tool","tool_call_id":"a","content":` + half + `}],` + oneTool + `}`
	for _, to := range []API{AnthropicMessages, GeminiGenerate} {
		c, err := Request(OpenAIChat, to, []byte(body), options(to))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{half, folded, digits} {
			if !strings.Contains(string(c.Body), want) {
				t.Errorf("to %s: no %s in %s", to, want, c.Body)
			}
		}
	}
	c := newCall(t, OpenAIChat, AnthropicMessages)
	told, err := c.Answer([]byte(`{"type":"message","id":"m","content":[{"type":"text","text":` + half + `}],"stop_reason":"end_turn"}`))
	if err != nil || !strings.Contains(string(told), half) {
		t.Errorf("%s, %v", told, err)
	}
}
