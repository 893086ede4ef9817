package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a client chose is shown to an operator: it must not write to the terminal in its own name.
func TestCleanDisarms(t *testing.T) {
	for in, want := range map[string]string{
		"gpt-5":                  "gpt-5",
		"\x1b[2J\x1b]0;owned\a":  "?[2J?]0;owned?",
		"a\nb\r\tc":              "a?b??c",
		"zero\u200bwidth\u202eX": "zero?width?X",
		"bad\xffutf8":            "bad\ufffdutf8",
		"日本語":                    "日本語",
	} {
		if got := clean(in, 0); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := clean("abcdef", 4); got != "abc…" {
		t.Errorf("%q", got)
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0ms", 999 * time.Millisecond: "999ms", 1500 * time.Millisecond: "1.5s", 59 * time.Second: "59s",
		61 * time.Second: "1m01s", 59*time.Minute + 59*time.Second: "59m59s", 25 * time.Hour: "25h00m", 49 * time.Hour: "2d01h", 90 * 24 * time.Hour: "90d00h",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
	in := noon.Add(time.Minute)
	if got := ago(&in, noon); got != "in 1m00s" || ago(nil, noon) != "–" {
		t.Error(got)
	}
}

func TestEachLine(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	var got []string
	err := eachLine(strings.NewReader("a\n"+long+"\n\nb"), 100_000, func(n int, line []byte, err error) error {
		if errors.Is(err, errLongLine) {
			line = []byte("LONG")
		}
		got = append(got, fmt.Sprintf("%d:%s", n, strings.TrimSpace(string(line))))
		return nil
	})
	if want := "1:a 2:LONG 3: 4:b"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("%v, %v, want %s", err, got, want)
	}
	stop := errors.New("stop")
	if err := eachLine(strings.NewReader("a\nb"), 10, func(int, []byte, error) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}

func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := replaceFile(path, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return broken
	})
	if b, _ := os.ReadFile(path); !errors.Is(err, broken) || string(b) != "old" {
		t.Errorf("%v, %q", err, b)
	}
	if err := replaceFile(path, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }); err != nil {
		t.Error(err)
	}
	b, _ := os.ReadFile(path)
	names, _ := os.ReadDir(dir)
	if string(b) != "new" || len(names) != 1 {
		t.Errorf("%q, %d files", b, len(names))
	}
}

func TestMomentAfter(t *testing.T) {
	for prefix, want := range map[string]string{
		"01a22a4b-b30f-7000-9cce": "01a22a4b-b311",
		"01a22a4b-b30f":           "01a22a4b-b311",
		"01a22a4b":                "01a22a4c-0001",
		"01a22a":                  "01a22b00-0001",
		"ffffffff-ffff":           "ffffffff-ffff",
		"fffffffffffe":            "ffffffff-ffff",
		"------":                  "ffffffff-ffff",
	} {
		if got := momentAfter(prefix); got != want {
			t.Errorf("%s: %s, want %s", prefix, got, want)
		}
	}
}
