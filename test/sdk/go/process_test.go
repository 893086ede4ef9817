package sdk

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// process is a gateway of a test's own: one that is filled up, or killed.
type process struct {
	url, admin string
	pid        int
	kill       func() // kill -9; returns when the process is gone
}

var serveUp = regexp.MustCompile(`holdfast is up.* listen=([^ ]+) admin=([^ ]+)`)

// startGateway starts a gateway in front of the simulator. The store outlives it in dir.
func startGateway(t *testing.T, dir, config string) *process {
	t.Helper()
	needGateway(t)
	if theRig.exe == "" {
		t.Skip("HOLDFAST does not name the program")
	}
	file := filepath.Join(dir, "holdfast.yaml")
	if err := os.WriteFile(file, []byte("env: test\n"+config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(theRig.exe, "serve", "--config", file, "--store", "sqlite:"+filepath.Join(dir, "store.db"),
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--upstream", "openai="+theRig.sim+"/v1", "--upstream", "anthropic="+theRig.sim, "--upstream", "gemini="+theRig.sim)
	for _, v := range os.Environ() { // a provider's key would replace the clients' own
		if !strings.Contains(v, "_API_KEY=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	up, gone := make(chan []string, 1), make(chan struct{})
	go func() {
		defer close(gone)
		for in := bufio.NewScanner(log); in.Scan(); {
			if m := serveUp.FindStringSubmatch(in.Text()); m != nil {
				up <- m
			}
		}
		_ = cmd.Wait() // killed, in the end
	}()
	p := &process{pid: cmd.Process.Pid, kill: func() { _ = cmd.Process.Kill(); <-gone }}
	t.Cleanup(p.kill)
	select {
	case m := <-up:
		p.url, p.admin = "http://"+m[1], "http://"+m[2]
	case <-gone:
		t.Fatal("the gateway ended before it was up")
	case <-time.After(30 * time.Second):
		t.Fatal("the gateway did not come up")
	}
	return p
}
