package crash

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
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
	if err := json.Unmarshal(out, &report); err != nil || !report.AsPromised || len(report.Operations) != 7 {
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

// TestDemoInterrupted presses Ctrl-C while it plays, then closes the pipe that it writes to: nothing is left running.
func TestDemoInterrupted(t *testing.T) {
	for name, end := range map[string]func(*exec.Cmd, io.Closer) error{
		"Ctrl-C":      func(cmd *exec.Cmd, _ io.Closer) error { return cmd.Process.Signal(os.Interrupt) },
		"closed pipe": func(_ *exec.Cmd, out io.Closer) error { return out.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			for try := 1; ; try++ {
				ids, interrupted := broken(t, end)
				for _, pid := range ids {
					if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
						t.Errorf("process %d is still there: %v", pid, err)
					}
				}
				if interrupted {
					return
				}
				if try == 20 { // it may have been over before we were there
					t.Fatal("it did not notice")
				}
			}
		})
	}
}

// broken runs the demo until it names its processes, ends it, and waits.
func broken(t *testing.T, end func(*exec.Cmd, io.Closer) error) (ids []int, interrupted bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "demo")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(out)
	for in.Scan() && ids == nil {
		for _, id := range processes.FindStringSubmatch(in.Text()) {
			if pid, err := strconv.Atoi(id); err == nil {
				ids = append(ids, pid)
			}
		}
	}
	if err := end(cmd, out); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	err = cmd.Wait()
	if len(ids) != 2 {
		t.Fatal("it names no processes")
	}
	return ids, err != nil
}
