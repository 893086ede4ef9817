package sdk

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// recording is an entry of the corpus's index.
type recording struct {
	File   string `json:"file"`
	API    string `json:"api"`
	Format string `json:"format"`
	Ends   string `json:"ends"`
	Text   string `json:"text"`
}

// limits are complete recordings that a client cannot read with or without a gateway, and why.
var limits = map[string]string{
	"anthropic-messages anthropic-text-cr.sse":        "splits lines at LF only",
	"openai-chat openai-chat-error-null-ok.sse":       "takes any error field for an error, null too",
	"openai-chat mistral-reasoning-array-content.sse": "hands out an array of parts as its JSON text",
}

func recordings(t *testing.T, api string) []recording {
	t.Helper()
	dir := os.Getenv("HOLDFAST_STREAMS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "internal", "provider", "testdata", "streams")
	}
	b, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []recording
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(r recording) bool { return r.API != api || r.Format != "sse" })
	if len(all) == 0 {
		t.Fatalf("no recordings of %s in %s", api, dir)
	}
	return all
}

// TestCorpus plays every recording through the matching client: a complete one gives the index's text, one that
// ends in an error or is cut raises, after the same text.
func TestCorpus(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		for _, r := range recordings(t, c.wire) {
			t.Run(r.File, func(t *testing.T) {
				if r.Ends == "complete" {
					playComplete(t, c, r)
					return
				}
				needGateway(t)
				playBroken(t, c, r, fmt.Sprintf(`{"stream":%q,"event_ms":5}`, r.File))
				playBroken(t, c, r, fmt.Sprintf(`{"stream":%q,"event_ms":5,"cut":{"at":"event","n":1000000,"how":"fin"}}`, r.File))
			})
		}
	})
}

func playComplete(t *testing.T, c client, r recording) {
	in := call{op: theRig.op(), prompt: "play " + r.File, script: fmt.Sprintf(`{"stream":%q}`, r.File)}
	got, _, err := c.ask(t.Context(), true, in)
	if reason, known := limits[c.name+" "+r.File]; known {
		if err == nil && got.text == r.Text {
			t.Errorf("reads it now; take it out of the list: %s", reason)
		}
		return
	}
	if err != nil {
		t.Errorf("complete, yet: %v", err)
	}
	// Go strings keep invalid bytes, the index has U+FFFD for each.
	if string([]rune(got.text)) != r.Text {
		t.Errorf("text %s, want %s", excerpt(got.text), excerpt(r.Text))
	}
}

func playBroken(t *testing.T, c client, r recording, script string) {
	in := call{op: theRig.op(), prompt: "play " + r.File, script: script}
	got, tape, err := c.ask(t.Context(), true, in)
	if err == nil {
		t.Errorf("%s, yet no error; text %s; wire: %s", r.Ends, excerpt(got.text), tail(tape.last().bytes()))
	} else if got.text == "" && c.fault(err).status >= 500 {
		return // the break came together with the first content: nothing was visible yet (semantics 22)
	}
	if got.text != r.Text {
		t.Errorf("text %s, want %s; error %v; wire: %s", excerpt(got.text), excerpt(r.Text), err, tail(tape.last().bytes()))
	}
}

func excerpt(s string) string {
	if len(s) > 100 {
		return fmt.Sprintf("%q… (%d bytes)", s[:100], len(s))
	}
	return fmt.Sprintf("%q", s)
}

func tail(b []byte) string { return fmt.Sprintf("%q", b[max(0, len(b)-400):]) }
