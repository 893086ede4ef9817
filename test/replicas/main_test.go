package replicas

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// binary is holdfast as all tests here run it: built so that it can be broken on purpose, and beat faster.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "holdfast-replicas-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binary = os.Getenv("HOLDFAST_TEST_BINARY"); binary != "" {
		return m.Run() // built before, with -tags mutant
	}
	binary = filepath.Join(dir, "holdfast")
	build := exec.Command("go", "build", "-tags", "mutant", "-o", binary, "../../cmd/holdfast")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// full says that the whole programme is asked for.
func full() bool { return os.Getenv("HOLDFAST_FULL") != "" }

// seed is the run's random seed: HOLDFAST_SEED repeats the choices of an earlier run.
func seed(t *testing.T) uint64 {
	t.Helper()
	s := uint64(time.Now().UnixNano())
	if v := os.Getenv("HOLDFAST_SEED"); v != "" {
		var err error
		if s, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatalf("HOLDFAST_SEED: %v", err)
		}
	}
	t.Logf("HOLDFAST_SEED=%d", s)
	return s
}

// patience bounds every wait for something that must come. Nothing is ever judged by how long it took.
const patience = 3 * time.Minute

// until waits for something that must come to be.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ticker.C:
		case <-limit.C:
			t.Fatalf("it did not come to this within %s: %s", patience, what)
		}
	}
}

// pause waits a moment between two looks at the same thing.
func (r *rig) pause() { <-time.After(20 * time.Millisecond) }
