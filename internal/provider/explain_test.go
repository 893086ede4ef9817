package provider

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExplainIndexRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) string {
		path := filepath.Join(dir, "index.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, text := range []string{`{}`, `[`, `["x"]`, `[{"file":"../../etc/passwd","api":"messages","format":"sse"}]`, `[{"file":"/etc/passwd","api":"messages","format":"sse"}]`, `[{"format":"sse","api":"messages"}]`} {
		if err := ExplainIndex(write(text), func(any) error { return nil }); !errors.Is(err, ErrIndex) {
			t.Errorf("%s: %v", text, err)
		}
	}
	err := ExplainIndex(write(`[{"file":"none.sse","api":"messages","format":"sse"}]`), func(any) error { return nil })
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "none.sse") {
		t.Error(err)
	}
	var lines []any
	err = ExplainIndex(write(`[{"file":"a","api":"chat","format":"ndjson"},{"file":"b","api":"new","format":"sse"}]`), func(l any) error {
		lines = append(lines, l)
		return nil
	})
	if err != nil || len(lines) != 2 || lines[0] != (Unsupported{"a", "ndjson"}) || lines[1] != (Unsupported{"b", "sse"}) {
		t.Errorf("%v %v", lines, err)
	}
	lines = nil
	err = ExplainIndex(write(`[{"file":"none.sse","api":"messages","format":"sse"},7,{"file":"a","format":"ndjson"}]`), func(l any) error {
		lines = append(lines, l)
		return nil
	})
	if len(lines) != 1 || !errors.Is(err, os.ErrNotExist) || !errors.Is(err, ErrIndex) || !strings.Contains(err.Error(), "entry 2: ") {
		t.Errorf("%v %v", lines, err)
	}
	stop := errors.New("stop")
	if err := ExplainIndex(write(`[{"file":"a","format":"ndjson"}]`), func(any) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}
