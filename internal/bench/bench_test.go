package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/holdfast-ai/holdfast/internal/bench"
	"github.com/holdfast-ai/holdfast/internal/cli"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// child makes this test's executable the holdfast command, of which bench makes its processes.
const child = "HOLDFAST_BENCH_TEST_CHILD"

// otherQueue makes it a reference of bench queue.
const otherQueue = "HOLDFAST_BENCH_TEST_REFERENCE"

func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		os.Exit(cli.Main(os.Args[1:]))
	}
	if os.Getenv(otherQueue) != "" {
		os.Stdout.WriteString(`{"name":"another","submitted_per_second":10,"worked_per_second":5}`)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func tiny(t *testing.T, only ...string) bench.Config {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return bench.Config{Exe: exe, Env: []string{child + "=1"}, Dir: t.TempDir(), Only: only,
		OpenLedger: func(path string) (ledger.Ledger, error) {
			return sqlite.Open(context.Background(), sqlite.Config{Path: path})
		},
		Duration:    60 * time.Millisecond, // 3 rounds of 20 ms
		Connections: 3, IdleStreams: 5, History: 300}
}

// rows are the figures of every part; a part that measures and does not report them would go unnoticed.
var rows = map[string][]string{
	bench.Store: {"commit p50, one caller", "commits/s, one caller", "whole intents/s, 16 callers", "CPU per intent, 16 callers",
		"whole intents/s, 256 callers", "CPU per intent, 256 callers", "whole intents/s beside 300 settled", "listing 100 unknown beside 300 settled",
		"listing 100 due beside 300 settled"},
	bench.Generation:   plainRows,
	bench.Strict:       plainRows,
	bench.Streams:      append(append([]string{}, plainRows[:6]...), "added first chunk p50", plainRows[6]),
	bench.Read:         plainRows,
	bench.ReplayMemory: plainRows,
	bench.ReplayFile:   plainRows,
	bench.Bulk:         {"requests/s, 4 connections", "CPU per stream", "memory"},
	bench.Idle:         {"memory"},
}

var plainRows = []string{"requests/s, 3 connections", "CPU per request", "added p50, one connection", "added p99, one connection",
	"added p50, 1000/s", "added p99, 1000/s", "memory, 3 connections"}

func TestEveryRowIsThere(t *testing.T) {
	report, err := bench.Run(t.Context(), tiny(t))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, f := range report.Figures {
		got[f.Part] = append(got[f.Part], f.Name)
		sane(t, f)
	}
	if diff := cmp.Diff(rows, got); diff != "" {
		t.Error(diff)
	}
	judged(t, report)
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, part := range bench.Names() {
		if !strings.Contains(text.String(), "\n"+part+": ") {
			t.Errorf("no table of %s in\n%s", part, text.String())
		}
	}
	b, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var back bench.Report
	if err := json.Unmarshal(b, &back); err != nil || len(back.Figures) != len(report.Figures) {
		t.Errorf("%d figures came back, %v", len(back.Figures), err)
	}
}

// sane says nothing about speed: only that a figure was measured and stands beside its reference.
func sane(t *testing.T, f bench.Figure) {
	t.Helper()
	h, ref := float64(f.Holdfast), float64(f.Reference)
	switch {
	case runtime.GOOS != "linux" && (f.Unit == "MB" || strings.HasPrefix(f.Name, "CPU")):
		return // not measured there
	case math.IsNaN(h):
		t.Errorf("%s, %s: not measured", f.Part, f.Name)
	case f.ReferenceName != "" && math.IsNaN(ref) && !strings.HasPrefix(f.Name, "CPU"):
		t.Errorf("%s, %s: no reference", f.Part, f.Name)
	case f.Unit == "/s" && (h <= 0 || f.ReferenceName != "" && ref <= 0):
		t.Errorf("%s, %s: %v beside %v per second", f.Part, f.Name, h, ref)
	case f.Unit == "MB" && (h < 5 || ref < 2):
		t.Errorf("%s, %s: %v beside %v MB cannot be a process", f.Part, f.Name, h, ref)
	}
}

// judged checks that a target is met exactly when its figure says so, where that can be read off.
func judged(t *testing.T, r *bench.Report) {
	t.Helper()
	targets := 0
	for _, f := range r.Figures {
		if f.Target == "" {
			continue
		}
		targets++
		if f.Part == bench.Store && f.Name == "commit p50, one caller" && *f.Met != (f.Ratio <= 1.5) {
			t.Errorf("%s: ratio %v is met=%v", f.Name, f.Ratio, *f.Met)
		}
	}
	if targets < 15 {
		t.Errorf("only %d targets stand beside their figures", targets)
	}
}

func TestOnlyWhatIsAsked(t *testing.T) {
	report, err := bench.Run(t.Context(), tiny(t, bench.Read))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Figures {
		if f.Part != bench.Read {
			t.Errorf("%s was measured", f.Part)
		}
	}
	if _, err := bench.Run(t.Context(), tiny(t, "reads")); err == nil || !strings.Contains(err.Error(), bench.Read) {
		t.Errorf("an unknown part: %v", err)
	}
}

// beginning ends a run as soon as it has said a word.
type beginning struct {
	word string
	end  context.CancelCauseFunc
	seen bytes.Buffer
}

var errEnough = errors.New("enough")

func (b *beginning) Write(p []byte) (int, error) {
	b.seen.Write(p)
	if strings.Contains(b.seen.String(), b.word) {
		b.end(errEnough)
	}
	return len(p), nil
}

func TestAnInterruptedRunLeavesNothing(t *testing.T) {
	for _, c := range []struct {
		part, word string
		duration   time.Duration
	}{
		{bench.Store, "beside history", 60 * time.Millisecond},
		{bench.Read, "at full load", time.Hour}, // it must be the interruption that ends it
		{bench.ReplayFile, "on one connection", 60 * time.Millisecond},
		{bench.Bulk, bench.Bulk, time.Hour},
		{bench.Idle, "through holdfast", time.Hour},
	} {
		t.Run(c.part, func(t *testing.T) {
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			cfg := tiny(t, c.part)
			cfg.Duration, cfg.Progress = c.duration, &beginning{word: c.word, end: end}
			if _, err := bench.Run(ctx, cfg); !errors.Is(err, errEnough) {
				t.Errorf("it ended with %v", err)
			}
			left, err := filepath.Glob(filepath.Join(cfg.Dir, "*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// What bench queue prints is there, and what it promises of its own run is true of it.
func TestQueue(t *testing.T) {
	c := tiny(t)
	t.Setenv(otherQueue, "1")
	r, err := bench.Queue(t.Context(), bench.QueueConfig{Exe: c.Exe, Env: c.Env, Dir: c.Dir, Jobs: 400, Connections: 4, Interactive: 16, Reference: c.Exe, OpenLedger: c.OpenLedger})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	b := r.Beside
	if r.Reference == nil || r.Reference.Worked != 5 || r.Reference.Embedded.Worked != 5 || r.Embedded == nil || r.Embedded.Worked <= 0 || r.Worked <= 0 || r.Submitted < r.Worked || b == nil || b.Empty.P99 < b.Provider || b.Full.P99 < b.Provider || b.Ratio <= 0 ||
		b.Waiting[0] == 0 || b.Waiting[1] == 0 || b.Waiting[1] > b.Waiting[0] {
		t.Errorf("%+v\n%+v", r, b)
	}
	for _, word := range []string{"submitted", "worked", "another, in the same run", "empty queue", "p99 ratio"} {
		if !strings.Contains(text.String(), word) {
			t.Errorf("no %q in %s", word, text.String())
		}
	}
}
