package signal_test

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/signal"
)

func TestExplainFile(t *testing.T) {
	f, err := os.Open("testdata/signals.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var ids []string
	err = signal.ExplainFile(f, func(id string, s signal.Signal) error {
		ids = append(ids, id)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := corpus(t)
	if len(ids) != len(want) || ids[0] != want[0].ID || ids[len(ids)-1] != want[len(want)-1].ID {
		t.Errorf("%d ids, want %d in the file's order", len(ids), len(want))
	}
}

func TestExplainFileRefuses(t *testing.T) {
	for name, c := range map[string]struct{ in, say string }{
		"no JSON":      {"\n{\"id\":\"a\",\"http_status\":429}\nnope\n", "line 3"},
		"bad base64":   {`{"id":"a","http_status":500,"body":"§","body_encoding":"base64"}`, `body of "a"`},
		"bad encoding": {`{"id":"a","http_status":500,"body":"","body_encoding":"utf-16"}`, "use utf-8 or base64"},
		"bad header":   {`{"id":"a","http_status":500,"headers":{"x":{"y":1}}}`, `header "x"`},
		"bad time":     {`{"id":"a","received_at":"yesterday"}`, "line 1"},
	} {
		err := signal.ExplainFile(strings.NewReader(c.in), func(string, signal.Signal) error { return nil })
		if !errors.Is(err, signal.ErrLine) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v, want ErrLine saying %q", name, err, c.say)
		}
	}
	long := `{"id":"` + strings.Repeat("x", 5<<20)
	if err := signal.ExplainFile(strings.NewReader(long), nil); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a line without end: %v", err)
	}
	stop := errors.New("stop")
	n := 0
	err := signal.ExplainFile(strings.NewReader("{\"http_status\":429}\n{\"http_status\":429}\n"), func(string, signal.Signal) error { n++; return stop })
	if !errors.Is(err, stop) || n != 1 {
		t.Errorf("emit's error: %v after %d", err, n)
	}
}

// Headers may be lists, as net/http keeps them.
func TestParseAnswerHeaderLists(t *testing.T) {
	_, a, err := signal.ParseAnswer([]byte(`{"id":"x","http_status":429,"headers":{"Retry-After":["7"]},"phase":"before_first_token"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := waitOf(t, signal.Classify(a)); got != "7000" {
		t.Errorf("%s ms, want 7000", got)
	}
}

// The log keeps signals as JSON; they come back as they were.
func TestJSONRoundTrip(t *testing.T) {
	for _, c := range corpus(t) {
		_, a, err := signal.ParseAnswer(c.line)
		if err != nil {
			t.Fatal(err)
		}
		first, err := json.Marshal(signal.Classify(a))
		if err != nil {
			t.Fatal(err)
		}
		var back signal.Signal
		if err := json.Unmarshal(first, &back); err != nil {
			t.Fatal(err)
		}
		if second, _ := json.Marshal(back); string(first) != string(second) {
			t.Errorf("%s:\n%s\n%s", c.ID, first, second)
		}
	}
}

// Anyone may import this package: it rests on the standard library alone.
func TestImports(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, im := range f.Imports {
			if path, _ := strconv.Unquote(im.Path.Value); strings.Contains(path, ".") {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}
