package degrade

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// binary is holdfast as all tests here run it.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "holdfast-degrade-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "holdfast")
	args := []string{"build", "-o", binary, "../../cmd/holdfast"}
	if os.Getenv("HOLDFAST_MUTANT") != "" {
		args = append([]string{"build", "-tags", "mutant"}, args[1:]...)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// requests is how many a test sends: 10,000 in the whole programme, a tenth of it in every run.
func requests() int {
	if os.Getenv("HOLDFAST_FULL") != "" {
		return 10_000
	}
	return 1_000
}

// report shows a run's table: in the test's log, and in the file that HOLDFAST_REPORT names.
func report(t *testing.T, format string, args ...any) {
	t.Helper()
	text := fmt.Sprintf(format, args...)
	t.Log(text)
	name := os.Getenv("HOLDFAST_REPORT")
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(f, text); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

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
