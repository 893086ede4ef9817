// Package proc runs holdfast's own commands as child processes, for what only real processes show: a kill -9.
package proc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Command says what to run.
type Command struct {
	Exe  string   // the holdfast executable
	Args []string // after the command's name
	Env  []string // beside this process's own
	Dir  string   // working folder; "": this process's own
	// Log, when set, gets what the child writes while it runs.
	Log io.Writer
}

// Process is a running child.
type Process struct {
	// URL is where it serves, Admin where its admin API is (serve only).
	URL, Admin string

	cmd    *exec.Cmd
	done   chan struct{}
	output tail
}

// ErrDied says that the child ended before it served.
var ErrDied = errors.New("the process ended before it was up")

var (
	simUp   = regexp.MustCompile(`simulator on (http://[^ ]+) `)
	proxyUp = regexp.MustCompile(`reverse proxy on (http://[^ ]+) `)
	serveUp = regexp.MustCompile(`holdfast is up.* listen=([^ ]+) admin=([^ ]+)`)
)

// Sim starts `holdfast sim` on a free port and waits until it serves.
func Sim(c Command) (*Process, error) {
	p, m, err := start(c, "sim", simUp)
	if err != nil {
		return nil, err
	}
	p.URL = m[1]
	return p, nil
}

// ReverseProxy starts the reference of `holdfast bench` on a free port and waits until it serves.
func ReverseProxy(c Command) (*Process, error) {
	p, m, err := start(c, "bench reverse-proxy", proxyUp)
	if err != nil {
		return nil, err
	}
	p.URL = m[1]
	return p, nil
}

// Serve starts `holdfast serve` on free ports and waits until both accept, recovery behind it. The error wraps
// ErrDied when the child ended first; then it has been waited for.
func Serve(c Command) (*Process, error) {
	p, m, err := start(c, "serve", serveUp)
	if err != nil {
		return nil, err
	}
	p.URL, p.Admin = "http://"+m[1], "http://"+m[2]
	return p, nil
}

// ServeFor starts `holdfast serve` and kills it after d, whether it serves by then or not.
func ServeFor(c Command, d time.Duration) error {
	p, _, err := launch(c, "serve", serveUp)
	if err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.done:
	}
	p.Kill()
	return nil
}

// start launches a command and waits for the line by which it says that it is up; m is what up finds in it.
func start(c Command, verb string, up *regexp.Regexp) (p *Process, m []string, err error) {
	p, found, err := launch(c, verb, up)
	if err != nil {
		return nil, nil, err
	}
	m, err = p.await(found)
	return p, m, err
}

func launch(c Command, verb string, up *regexp.Regexp) (*Process, <-chan []string, error) {
	args := append(strings.Fields(verb), "--listen", "127.0.0.1:0")
	if verb == "serve" {
		args = append(args, "--admin", "127.0.0.1:0")
	}
	cmd := exec.Command(c.Exe, append(args, c.Args...)...)
	cmd.Dir, cmd.Env = c.Dir, append(os.Environ(), c.Env...)
	dieWithParent(cmd)
	p := &Process{cmd: cmd, done: make(chan struct{})}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start %s %s: %w", c.Exe, verb, err), r.Close(), w.Close())
	}
	_ = w.Close() // the child has its own
	found := make(chan []string, 1)
	go p.watch(r, c.Log, up, found)
	return p, found, nil
}

// watch reads what the child writes until it has ended.
func (p *Process) watch(r *os.File, log io.Writer, up *regexp.Regexp, found chan<- []string) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		line := in.Text()
		p.output.add(line)
		if log != nil {
			_, _ = fmt.Fprintln(log, line)
		}
		if m := up.FindStringSubmatch(line); m != nil {
			select {
			case found <- m:
			default:
			}
		}
	}
	_, _ = io.Copy(io.Discard, r)
	_ = r.Close()
	_ = p.cmd.Wait() // how it ended is in ProcessState
	close(p.done)
}

// upPatience bounds the wait for a child to serve.
const upPatience = 2 * time.Minute

func (p *Process) await(up <-chan []string) ([]string, error) {
	timer := time.NewTimer(upPatience)
	defer timer.Stop()
	select {
	case m := <-up:
		return m, nil
	case <-p.done:
		return nil, fmt.Errorf("%w (%s)\n%s", ErrDied, p.cmd.ProcessState, p.Output())
	case <-timer.C:
		p.Kill()
		return nil, fmt.Errorf("the process was not up within %s\n%s", upPatience, p.Output())
	}
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ID is the process id.
func (p *Process) ID() int { return p.cmd.Process.Pid }

// Kill is kill -9, and waits for the end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// Stop asks the process to end, kills it after patience, and returns an error unless it ended well by itself.
func (p *Process) Stop(patience time.Duration) error {
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.Kill() // a system without signals
		return nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Kill()
	}
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("%s\n%s", p.cmd.ProcessState, p.Output())
	}
	return nil
}

// Output is the end of what the process wrote.
func (p *Process) Output() string { return p.output.String() }

// tail keeps the last lines of an output.
type tail struct {
	mu    sync.Mutex
	lines []string
}

const tailLines = 50

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == tailLines {
		t.lines = t.lines[:copy(t.lines, t.lines[1:])]
	}
	t.lines = append(t.lines, line)
}

// String joins the lines.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}
