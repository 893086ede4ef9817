package sim

import (
	"bytes"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
)

//go:embed testdata/corpus
var builtin embed.FS

// recorded is a recorded answer that is played byte for byte.
type recorded struct {
	File        string `json:"file"`
	Kind        string `json:"kind"`
	Provider    string `json:"provider"`
	Format      string `json:"format"`
	ContentType string `json:"content_type"`
	Splits      []int  `json:"write_splits,omitempty"`
	Note        string `json:"note"`
	from        fs.FS
}

// failure is a recorded failure.
type failure struct {
	ID        string            `json:"id"`
	Kind      string            `json:"kind"`
	Provider  string            `json:"provider"`
	Endpoint  string            `json:"endpoint"`
	Status    int               `json:"http_status"`
	Headers   map[string]string `json:"headers"`
	Encoding  string            `json:"body_encoding"`
	Body      string            `json:"body"`
	Phase     string            `json:"phase"`
	Transport *struct {
		Error string `json:"error"`
		Sent  string `json:"request_bytes_sent"`
		Bytes int    `json:"response_bytes"`
	} `json:"transport,omitempty"`
	Note string `json:"note"`
}

// corpus is every recording that can be named in a script. It does not change after load.
type corpus struct {
	streams map[string]*recorded
	signals map[string]*failure
}

func newCorpus() *corpus {
	return &corpus{streams: map[string]*recorded{}, signals: map[string]*failure{}}
}

// load reads the built-in selection, then what the user names; the same name again replaces.
func (c *corpus) load(streams, signals string) error {
	sub, err := fs.Sub(builtin, "testdata/corpus")
	if err != nil {
		return err
	}
	if err := c.readStreams(sub, "index.json"); err != nil {
		return err
	}
	lines, err := fs.ReadFile(sub, "signals.jsonl")
	if err != nil {
		return err
	}
	if err := c.readSignals(lines); err != nil {
		return err
	}
	if streams != "" {
		if err := c.readStreams(os.DirFS(streams), "index.json"); err != nil {
			return fmt.Errorf("sim: streams in %s: %w", streams, err)
		}
	}
	if signals != "" {
		lines, err := os.ReadFile(signals)
		if err != nil {
			return fmt.Errorf("sim: signals: %w", err)
		}
		if err := c.readSignals(lines); err != nil {
			return fmt.Errorf("sim: signals in %s: %w", signals, err)
		}
	}
	return nil
}

func (c *corpus) readStreams(from fs.FS, index string) error {
	b, err := fs.ReadFile(from, index)
	if err != nil {
		return err
	}
	var all []*recorded
	if err := json.Unmarshal(b, &all); err != nil {
		return fmt.Errorf("%s: %w", index, err)
	}
	for _, r := range all {
		r.from = from
		if !fs.ValidPath(r.File) {
			return fmt.Errorf("%s: file name %q leaves the folder", index, r.File)
		}
		c.streams[r.File] = r
	}
	return nil
}

func (c *corpus) readSignals(lines []byte) error {
	dec := json.NewDecoder(bytes.NewReader(lines))
	for dec.More() {
		f := &failure{}
		if err := dec.Decode(f); err != nil {
			return fmt.Errorf("byte %d: %w", dec.InputOffset(), err)
		}
		c.signals[f.ID] = f
	}
	return nil
}

// stream finds a recording by its file name, with or without the extension.
func (c *corpus) stream(name string) *recorded {
	if r := c.streams[name]; r != nil {
		return r
	}
	for _, file := range slices.Sorted(maps.Keys(c.streams)) {
		if file[:len(file)-len(path.Ext(file))] == name {
			return c.streams[file]
		}
	}
	return nil
}

func (c *corpus) signal(id string) *failure { return c.signals[id] }

// pieces reads the recording and cuts it where its index says, else after each event.
func (r *recorded) pieces() ([][]byte, error) {
	data, err := fs.ReadFile(r.from, r.File)
	if err != nil {
		return nil, fmt.Errorf("sim: recording: %w", err)
	}
	if len(r.Splits) == 0 {
		return splitEvents(data, r.Format), nil
	}
	var out [][]byte
	at := 0
	for _, next := range append(slices.Clone(r.Splits), len(data)) {
		if next < at || next > len(data) {
			return nil, fmt.Errorf("sim: recording %s: write_splits has %d after %d of %d bytes", r.File, next, at, len(data))
		}
		if next > at {
			out = append(out, data[at:next])
		}
		at = next
	}
	return out, nil
}

// splitEvents cuts after the blank line of each event, or after each line of NDJSON. Other formats stay whole.
func splitEvents(data []byte, format string) [][]byte {
	var out [][]byte
	for len(data) > 0 {
		n := len(data)
		switch format {
		case "sse":
			n = eventEnd(data)
		case "ndjson":
			if i := bytes.IndexByte(data, '\n'); i >= 0 {
				n = i + 1
			}
		}
		out = append(out, data[:n])
		data = data[n:]
	}
	return out
}

// eventEnd is the length of the first event with its blank line, for each of the three line ends of the grammar.
func eventEnd(data []byte) int {
	end := len(data)
	for _, blank := range [...]string{"\r\n\r\n", "\n\n", "\r\r"} {
		if i := bytes.Index(data, []byte(blank)); i >= 0 {
			end = min(end, i+len(blank))
		}
	}
	return end
}

func (f *failure) bytes() ([]byte, error) {
	if f.Encoding == "base64" {
		return base64.StdEncoding.DecodeString(f.Body)
	}
	return []byte(f.Body), nil
}

// playable refuses failures in which no server takes part.
func (f *failure) playable() error {
	if f.Status == 0 && f.Transport != nil && f.Transport.Sent == "none" && f.Transport.Error != "417 on Expect: 100-continue" {
		return fmt.Errorf("%w: signal %s (%s) happens before any server is reached; use a closed port", ErrScript, f.ID, f.Transport.Error)
	}
	if f.Status == 0 && f.Transport == nil {
		return fmt.Errorf("%w: signal %s has neither a status nor a transport error", ErrScript, f.ID)
	}
	return nil
}
