package sim

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// index is what a recording's index says beside what recorded keeps.
type index struct {
	File   string `json:"file"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func readIndex(t *testing.T) []index {
	t.Helper()
	b, err := builtin.ReadFile("testdata/corpus/index.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []index
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestStreamsAreByteIdentical over a real socket, by the hash in the index.
func TestStreamsAreByteIdentical(t *testing.T) {
	s := start(t, Config{})
	for _, e := range readIndex(t) {
		script(t, s, Rule{Steps: []Step{{Stream: e.File}}})
		resp, body := send(t, s, "POST", chatPath, chatBody("x", true))
		sum := sha256.Sum256(body)
		if len(body) != e.Bytes || hex.EncodeToString(sum[:]) != e.SHA256 {
			t.Errorf("%s: %d bytes, want %d, or another hash", e.File, len(body), e.Bytes)
		}
		if want := s.corpus.stream(e.File).ContentType; resp.Header.Get("Content-Type") != want {
			t.Errorf("%s: content type %q, want %q", e.File, resp.Header.Get("Content-Type"), want)
		}
	}
}

// writes records the pieces that a handler writes.
type writes struct {
	*httptest.ResponseRecorder
	pieces []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.pieces = append(w.pieces, string(p))
	return w.ResponseRecorder.Write(p)
}

// TestWriteSplits: the pieces are those of the index, so that a test meets the same awkward boundaries.
func TestWriteSplits(t *testing.T) {
	s := New(Config{})
	defer s.Close()
	if err := s.load(); err != nil {
		t.Fatal(err)
	}
	split := 0
	for file, r := range s.corpus.streams {
		script(t, s, Rule{Steps: []Step{{Stream: file}}})
		w := &writes{ResponseRecorder: httptest.NewRecorder()}
		s.ServeHTTP(w, httptest.NewRequest("POST", chatPath, strings.NewReader(chatBody("x", true))))
		data := w.Body.String()
		var want []string
		for i, at := range r.Splits {
			from := 0
			if i > 0 {
				from = r.Splits[i-1]
			}
			want = append(want, data[from:at])
		}
		if len(want) == 0 {
			continue
		}
		split++
		if rest := data[r.Splits[len(r.Splits)-1]:]; rest != "" {
			want = append(want, rest)
		}
		if diff := cmp.Diff(want, w.pieces); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
	if split == 0 {
		t.Error("no recording of the built-in selection has write_splits")
	}
}

// TestCutRecording: a cut after event n is one in a recording too, whatever line ends it has.
func TestCutRecording(t *testing.T) {
	s := start(t, Config{})
	for _, e := range readIndex(t) {
		r := s.corpus.stream(e.File)
		if r.Format != "sse" || len(r.Splits) > 0 {
			continue
		}
		data, err := r.from.(interface {
			ReadFile(string) ([]byte, error)
		}).ReadFile(r.File)
		if err != nil {
			t.Fatal(err)
		}
		events := splitEvents(data, "sse")
		if !bytes.Equal(bytes.Join(events, nil), data) {
			t.Fatalf("%s: the events do not make up the file", e.File)
		}
		if len(events) < 3 {
			continue
		}
		script(t, s, Rule{Steps: []Step{{Stream: e.File, Cut: &Cut{At: AtEvent, N: 2, How: Fin}}}})
		_, body, err := try(s, "POST", chatPath, chatBody("x", true))
		if err == nil || !bytes.Equal(body, bytes.Join(events[:2], nil)) {
			t.Errorf("%s: got %q and %v", e.File, body, err)
		}
	}
}

// TestSignals: each playable failure arrives with its status, its headers and its body, compressed or not.
func TestSignals(t *testing.T) {
	s := start(t, Config{})
	for id, f := range s.corpus.signals {
		if f.playable() != nil {
			continue
		}
		script(t, s, Rule{Steps: []Step{{Signal: id}}})
		if f.Status == 0 {
			playTransport(t, s, f)
			continue
		}
		req := rawPost(chatPath, chatBody("x", false), "Connection", "close")
		got, _ := talk(t, s, req)
		head, body, _ := strings.Cut(string(got), "\r\n\r\n")
		want, err := f.bytes()
		if err != nil {
			t.Fatal(err)
		}
		if body != string(want) {
			t.Errorf("%s: body %q, want %q", id, body, want)
		}
		checkHead(t, f, head)
	}
}

func checkHead(t *testing.T, f *failure, head string) {
	t.Helper()
	status, lines, _ := strings.Cut(head, "\r\n")
	if !strings.HasPrefix(status, "HTTP/1.1 "+string(appendJSON(nil, f.Status))+" ") {
		t.Errorf("%s: %s", f.ID, status)
	}
	got := map[string]string{}
	for line := range strings.SplitSeq(lines, "\r\n") {
		name, v, _ := strings.Cut(line, ": ")
		got[strings.ToLower(name)] = v
	}
	delete(got, "connection")
	want := map[string]string{}
	for name, v := range f.Headers {
		want[name] = strings.TrimSpace(v)
	}
	delete(want, "connection")
	if _, ok := want["content-length"]; !ok {
		delete(got, "content-length") // a body on HTTP/1.1 needs one
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: headers -want +got:\n%s", f.ID, diff)
	}
}

// playTransport plays a failure that is not an answer; a stall is left by the client.
func playTransport(t *testing.T, s *Server, f *failure) {
	t.Helper()
	st := s.corpus.expand(Step{Signal: f.ID})
	if st.Cut != nil && st.Cut.How == Stall {
		return // as TestStall
	}
	got, end := talk(t, s, rawPost(chatPath, chatBody("x", false), "Connection", "close"))
	_, body, _ := strings.Cut(string(got), "\r\n\r\n")
	switch {
	case st.Status != 0:
		if !bytes.HasPrefix(got, []byte("HTTP/1.1 417 ")) {
			t.Errorf("%s: %q", f.ID, got)
		}
	case st.Raw != "":
		if len(got) != f.Transport.Bytes || bytes.HasPrefix(got, []byte("HTTP/")) {
			t.Errorf("%s: %q", f.ID, got)
		}
	case len(body) != f.Transport.Bytes:
		t.Errorf("%s: %d bytes of body, want %d", f.ID, len(body), f.Transport.Bytes)
	case strings.Contains(f.Transport.Error, "RESET") && end != "reset", f.Transport.Error == "EOF" && end != "eof":
		t.Errorf("%s: ended in %s", f.ID, end)
	}
}

// TestOwnRecordings: folders that the user names are read, and a name that leaves the folder is refused.
func TestOwnRecordings(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write("index.json", `[{"file":"mine.sse","format":"sse","content_type":"text/event-stream","write_splits":[3]}]`)
	write("mine.sse", "data: {}\n\n")
	signals := write("signals.jsonl", `{"id":"mine","http_status":418,"headers":{"x-a":"b"},"body":"H4sI","body_encoding":"base64"}`+"\n")
	s := start(t, Config{Streams: dir, Signals: signals, Script: Script{Rules: []Rule{
		{Steps: []Step{{Stream: "mine"}, {Signal: "mine"}}},
	}}})
	if _, body := send(t, s, "POST", chatPath, chatBody("x", true)); string(body) != "data: {}\n\n" {
		t.Errorf("stream: %q", body)
	}
	if resp, body := send(t, s, "POST", chatPath, chatBody("x", true)); resp.StatusCode != 418 || string(body) != "\x1f\x8b\x08" || resp.Header.Get("X-A") != "b" {
		t.Errorf("signal: %s %q", resp.Status, body)
	}
	write("index.json", `[{"file":"../secret","format":"sse"}]`)
	if err := New(Config{Streams: dir}).Start(); err == nil {
		t.Error("a file outside the folder was accepted")
	}
}

var _ http.ResponseWriter = (*writes)(nil)
