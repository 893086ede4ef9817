package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// Explained is what a recorded stream says, in the field names of a corpus's index.
type Explained struct {
	File        string          `json:"file"`
	Kind        string          `json:"kind,omitempty"`
	Provider    string          `json:"provider,omitempty"`
	API         string          `json:"api,omitempty"`
	Format      string          `json:"format"`
	ContentType string          `json:"content_type,omitempty"`
	Events      int             `json:"events"`
	First       int             `json:"first_visible_token_event_index"`
	Ends        End             `json:"ends"`
	Terminal    *string         `json:"terminal_marker"`
	Finish      *string         `json:"finish_reason"`
	Usage       *ExplainedUsage `json:"usage"`
	Tool        bool            `json:"tool_side_effect_started"`
	Text        string          `json:"text"`
	Reasoning   string          `json:"reasoning_text"`
	Bytes       int64           `json:"bytes"`
	SHA256      string          `json:"sha256"`
}

// ExplainedUsage has the counts that are known.
type ExplainedUsage struct {
	Input     *int64 `json:"input,omitempty"`
	Output    *int64 `json:"output,omitempty"`
	Cached    *int64 `json:"cached,omitempty"`
	Reasoning *int64 `json:"reasoning,omitempty"`
}

// Unsupported is the line of a stream whose format or API is not read.
type Unsupported struct {
	File        string `json:"file"`
	Unsupported string `json:"unsupported"`
}

// Recording names a recorded stream and what it is an answer of.
type Recording struct {
	File        string `json:"file"`
	Kind        string `json:"kind"`
	Provider    string `json:"provider"`
	API         string `json:"api"`
	Format      string `json:"format"` // sse, json_array, …
	ContentType string `json:"content_type"`
}

// ErrIndex says that an index is not of the corpus's form.
var ErrIndex = errors.New(`not an index of streams; it must be a JSON list of objects with "file", "provider", "api" and "format"`)

// ExplainIndex reads every stream that the index lists, relative to it, and emits an Explained or Unsupported
// for each, in order. Of the index it takes only what a Recording holds. An entry that cannot be read stops
// nothing: the error at the end, an errors.Join, names each with its number from 1.
func ExplainIndex(path string, emit func(any) error) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("%s: %w (%w)", path, ErrIndex, err)
	}
	var bad []error
	for i, entry := range list {
		line, err := explainEntry(filepath.Dir(path), entry)
		if err != nil {
			bad = append(bad, fmt.Errorf("%s: entry %d: %w", path, i+1, err))
			continue
		}
		if err := emit(line); err != nil {
			return err
		}
	}
	return errors.Join(bad...)
}

func explainEntry(dir string, entry json.RawMessage) (any, error) {
	var r Recording
	if err := json.Unmarshal(entry, &r); err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrIndex, err)
	}
	line, err := explainFile(dir, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.File, err)
	}
	return line, nil
}

func explainFile(dir string, r Recording) (any, error) {
	if !filepath.IsLocal(r.File) {
		return nil, fmt.Errorf("%w: a file must lie beside the index", ErrIndex)
	}
	if !r.supported() {
		return Unsupported{File: r.File, Unsupported: r.Format}, nil
	}
	f, err := os.Open(filepath.Join(dir, r.File))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Explain(r, f)
}

func (r Recording) supported() bool {
	return r.Format == SSE.String() && r.call().Endpoint != "" || r.Format == JSONArray.String()
}

// call is the request that r answers. The API decides; a provider's own default where it is not named.
func (r Recording) call() Call {
	switch strings.TrimPrefix(r.API, "/v1/") {
	case wire.Chat, "chat/completions", "completions":
		return Call{Wire: OpenAI, Endpoint: wire.Chat}
	case wire.Responses:
		return Call{Wire: OpenAI, Endpoint: wire.Responses}
	case wire.Messages:
		return Call{Wire: Anthropic, Endpoint: wire.Messages}
	case wire.StreamGenerate, wire.Generate:
		return Call{Wire: Gemini, Endpoint: wire.StreamGenerate}
	}
	return Call{}
}

// Explain reads one recorded stream.
func Explain(r Recording, body io.Reader) (Explained, error) {
	var t wire.Transcript
	call := r.call()
	s := newTranscribed(&call, r.Format, &t)
	hash := sha256.New()
	size, err := io.Copy(io.MultiWriter(hash, feedWriter{s}), body)
	if err != nil {
		return Explained{}, err
	}
	ends := s.Close()
	p := s.Progress()
	return Explained{
		File: r.File, Kind: r.Kind, Provider: r.Provider, API: r.API, Format: r.Format, ContentType: r.ContentType,
		Events: p.Events, First: p.FirstVisible, Ends: ends,
		Terminal: orNull(p.Terminal), Finish: orNull(p.Finish), Usage: explainUsage(p.Usage), Tool: p.ToolStarted,
		Text: string(t.Text), Reasoning: string(t.Reasoning),
		Bytes: size, SHA256: hex.EncodeToString(hash.Sum(nil)),
	}, nil
}

func newTranscribed(call *Call, format string, t *wire.Transcript) Stream {
	if format == JSONArray.String() {
		return newArrayStream(Limits{}, t)
	}
	return newSSEStream(grammarOf(call), Limits{}, t)
}

type feedWriter struct{ Stream }

func (w feedWriter) Write(p []byte) (int, error) {
	if err := w.Feed(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func explainUsage(u Usage) *ExplainedUsage {
	if !u.Known() {
		return nil
	}
	return &ExplainedUsage{count(u.Input), count(u.Output), count(u.Cached), count(u.Reasoning)}
}

func count(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}
