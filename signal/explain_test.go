package signal_test

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/signal"
)

func TestParseAnswerRefuses(t *testing.T) {
	for name, c := range map[string]struct{ in, say string }{
		"no JSON":      {`nope`, "invalid character"},
		"bad base64":   {`{"id":"a","http_status":500,"body":"§","body_encoding":"base64"}`, `body of "a"`},
		"bad encoding": {`{"id":"a","http_status":500,"body":"","body_encoding":"utf-16"}`, "use utf-8 or base64"},
		"bad header":   {`{"id":"a","http_status":500,"headers":{"x":{"y":1}}}`, `header "x"`},
		"bad time":     {`{"id":"a","received_at":"yesterday"}`, "parsing time"},
	} {
		if _, _, err := signal.ParseAnswer([]byte(c.in)); !errors.Is(err, signal.ErrLine) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v, want ErrLine saying %q", name, err, c.say)
		}
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
