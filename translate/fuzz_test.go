package translate

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func FuzzOpenAIRequest(f *testing.F)    { fuzzRequest(f, OpenAIChat, "openai") }
func FuzzAnthropicRequest(f *testing.F) { fuzzRequest(f, AnthropicMessages, "anthropic") }

// fuzzRequest: whatever comes is translated to a request that is JSON, the same each time, or refused with a reason.
func fuzzRequest(f *testing.F, from API, client string) {
	seeds, err := filepath.Glob("testdata/" + client + "/*/request.json")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds, %v", err)
	}
	for _, name := range seeds {
		f.Add(read(f, name))
	}
	for _, m := range mismatches {
		if m.from == from {
			f.Add([]byte(m.body))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, to := range []API{OpenAIChat, AnthropicMessages, GeminiGenerate} {
			if !Can(from, to) {
				continue
			}
			c, err := Request(from, to, body, options(to))
			if err != nil {
				if !errors.Is(err, ErrMismatch) && !errors.Is(err, ErrMalformed) {
					t.Fatalf("error %v", err)
				}
				continue
			}
			if !json.Valid(c.Body) {
				t.Fatalf("not JSON: %s", c.Body)
			}
			if len(c.Body) > 8*len(body)+4096 {
				t.Fatalf("%d bytes became %d", len(body), len(c.Body))
			}
			if !Can(to, from) {
				continue
			}
			if _, err := Request(to, from, c.Body, options(from)); errors.Is(err, ErrMalformed) {
				t.Fatalf("what was written cannot be read: %v: %s", err, c.Body)
			}
		}
	})
}

func FuzzFromOpenAI(f *testing.F)    { fuzzStream(f, OpenAIChat) }
func FuzzFromAnthropic(f *testing.F) { fuzzStream(f, AnthropicMessages) }
func FuzzFromGemini(f *testing.F)    { fuzzStream(f, GeminiGenerate) }

// fuzzStream: whatever comes, the client gets whole events of its API, the same however the bytes are cut, and an end, an
// error, or neither where the answer was cut; never two of them.
func fuzzStream(f *testing.F, to API) {
	var list []entry
	if err := json.Unmarshal(read(f, filepath.Join(streams, "index.json")), &list); err != nil {
		f.Fatal(err)
	}
	for _, e := range list {
		if recorded[e.API] != to || e.Format != "sse" {
			continue
		}
		if info, err := os.Stat(filepath.Join(streams, e.File)); err == nil && info.Size() < 8<<10 {
			f.Add(read(f, filepath.Join(streams, e.File)), uint8(7))
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte, n uint8) {
		for _, from := range []API{OpenAIChat, AnthropicMessages} {
			if !Can(from, to) {
				continue
			}
			c := newCall(t, from, to)
			whole, wholeErr := feed(c, stream, max(1, len(stream)))
			if cut, err := feed(c, stream, int(n)+1); cut != whole || (err == nil) != (wholeErr == nil) {
				t.Fatalf("cut: %q, %v; whole: %q, %v", cut, err, whole, wholeErr)
			}
			got := listen(t, from, whole)
			if (wholeErr == nil) != got.Ended || got.Ended && got.Error != "" || errors.Is(wholeErr, ErrCut) && got.Error != "" {
				t.Fatalf("error %v, told %+v", wholeErr, got)
			}
			_, _ = c.Answer(stream)
		}
	})
}
