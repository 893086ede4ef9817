package mcpclient

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// setting is what run.sh gives: the program, and where npm put the servers.
type setting struct {
	holdfast, servers string
	dir               string // files of this run
	config            string
	gateway           string // URL
	everything        string // URL of the everything server over HTTP
}

var here setting

func TestMain(m *testing.M) {
	if effects := os.Getenv(modernEffects); effects != "" {
		modernStdio(effects)
		return
	}
	here = setting{holdfast: os.Getenv("HOLDFAST"), servers: os.Getenv("HOLDFAST_MCP_SERVERS")}
	if here.holdfast == "" || here.servers == "" {
		fmt.Fprintln(os.Stderr, "run test/mcp/run.sh: it names the program and the servers")
		os.Exit(2)
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// program is the command of a server.
func program(name string, args ...string) []string {
	return append([]string{"node", filepath.Join(here.servers, "@modelcontextprotocol", name, "dist", "index.js")}, args...)
}

func run(m *testing.M) (int, error) {
	var err error
	if here.dir, err = os.MkdirTemp("", "holdfast-mcp-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(here.dir)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := []<-chan struct{}{}
	defer func() {
		stop()
		for _, e := range ended {
			<-e
		}
	}()
	e, err := everythingServer(ctx)
	if err != nil {
		return 0, err
	}
	ended = append(ended, e)
	if err := configure(); err != nil {
		return 0, err
	}
	ready := filepath.Join(here.dir, "ready.json")
	e, err = start(ctx, []string{here.holdfast, "serve", "--config", here.config, "--ready-file", ready}, "holdfast is up")
	if err != nil {
		return 0, err
	}
	ended = append(ended, e)
	if here.gateway, err = listening(ready); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// listening reads where a gateway listens, once it does.
func listening(ready string) (string, error) {
	b, err := os.ReadFile(ready)
	for end := time.Now().Add(2 * time.Minute); err != nil && time.Now().Before(end); b, err = os.ReadFile(ready) {
		<-time.After(10 * time.Millisecond)
	}
	if err != nil {
		return "", err
	}
	var ports struct{ Listen string }
	err = json.Unmarshal(b, &ports)
	return "http://" + ports.Listen, err
}

// configure writes a configuration with each server, the everything server both ways.
func configure() error {
	files := filepath.Join(here.dir, "files")
	if err := os.Mkdir(files, 0o700); err != nil {
		return err
	}
	list := func(args []string) string {
		b, err := json.Marshal(args)
		if err != nil { // text always marshals
			return "[]"
		}
		return string(b)
	}
	here.config = filepath.Join(here.dir, "holdfast.yaml")
	return os.WriteFile(here.config, fmt.Appendf(nil, `
env: test
listen: 127.0.0.1:0
admin: 127.0.0.1:0
store: "sqlite:%s"
mcp:
  servers:
    everything-stdio: {command: %s}
    everything-http: {url: %q}
    files: {command: %s}
    memory: {command: %s, env: {MEMORY_FILE_PATH: %q}}
`, filepath.Join(here.dir, "holdfast.db"), list(program("server-everything", "stdio")), here.everything,
		list(program("server-filesystem", files)), list(program("server-memory")), filepath.Join(here.dir, "memory.jsonl")), 0o600)
}

// everythingServer starts the server that speaks HTTP. It cannot take a free port itself, and one that is looked for may be
// somebody else's a moment later: then another is.
func everythingServer(ctx context.Context) (ended <-chan struct{}, err error) {
	for range 3 {
		var port string
		if port, err = freePort(); err != nil {
			return nil, err
		}
		here.everything = "http://127.0.0.1:" + port + "/mcp"
		ended, err = start(ctx, program("server-everything", "streamableHttp"), "listening on port", "PORT="+port)
		if err == nil || !strings.Contains(err.Error(), "EADDRINUSE") {
			return ended, err
		}
	}
	return nil, err
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// start runs a program until ctx ends, and returns once it has said that it is up.
func start(ctx context.Context, args []string, up string, env ...string) (<-chan struct{}, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), env...)
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	w.Close()
	ready, done := make(chan struct{}), make(chan struct{})
	var said strings.Builder
	go func() {
		in, told := bufio.NewScanner(r), false
		for in.Scan() {
			if strings.Contains(in.Text(), up) && !told {
				told = true
				close(ready)
			}
			if !told {
				said.WriteString(in.Text() + "\n")
			}
			if os.Getenv("HOLDFAST_VERBOSE") != "" {
				fmt.Fprintln(os.Stderr, in.Text())
			}
		}
		_ = cmd.Wait() // how it ended does not matter any more
		close(done)
	}()
	select {
	case <-ready:
		return done, nil
	case <-done:
		return nil, fmt.Errorf("%s ended: %s", args[0], said.String())
	case <-time.After(time.Minute):
		return nil, fmt.Errorf("%s is not up", args[0])
	}
}
