package crash

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestDemo runs what the README tells a newcomer to run.
func TestDemo(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), binary, "demo", "--once")
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"Every figure is as promised", "charged 20 times", "outcome_unknown", "intents resolve"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	left, err := os.ReadDir(strings.TrimPrefix(cmd.Env[len(cmd.Env)-1], "TMPDIR="))
	if err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

func TestDemoJSON(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), binary, "demo", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Operations []struct {
			Name           string
			Calls, Effects int64
		}
		AsPromised bool `json:"as_promised"`
	}
	if err := json.Unmarshal(out, &report); err != nil || !report.AsPromised || len(report.Operations) != 5 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDemoNoticesADefect runs it with a gateway that is broken on purpose: the verdict is no mere text.
func TestDemoNoticesADefect(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), binary, "demo")
	cmd.Env = append(os.Environ(), "HOLDFAST_MUTANT=lease-frees-dispatched")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "NOT AS PROMISED") {
		t.Errorf("%v\n%s", err, out)
	}
}

var processes = regexp.MustCompile(`gateway, process (\d+) ─► provider, process (\d+)`)

// TestDemoInterrupted presses Ctrl-C while it plays: nothing is left running.
func TestDemoInterrupted(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), binary, "demo")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ids []string
	in := bufio.NewScanner(out)
	for in.Scan() && ids == nil {
		if m := processes.FindStringSubmatch(in.Text()); m != nil {
			ids = m[1:]
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}
	}
	for in.Scan() { // until it ends
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it did not notice")
	}
	if len(ids) != 2 {
		t.Fatal("it names no processes")
	}
	for _, id := range ids {
		pid, err := strconv.Atoi(id)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is still there: %v", pid, err)
		}
	}
}
