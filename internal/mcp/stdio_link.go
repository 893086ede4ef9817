package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/internal/budget"
)

// stdioLink is a server that runs as a child process.
type stdioLink struct {
	to    receiver
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.ReadCloser
	max   int64
	mem   *budget.Bytes
	queue chan *letter
	over  chan struct{} // closed when the process has ended
	stop  chan struct{} // closed when nothing more is written
	once  sync.Once
	all   sync.WaitGroup
}

// letter is one line on its way to the child. What was begun cannot be taken back: the child may have read it.
type letter struct {
	line  []byte
	state atomic.Int32
	done  chan error
}

const (
	letterWaits = iota
	letterBegun
	letterWithdrawn
)

// command says what to run, and with which of this process's own environment. An empty Dir is its folder.
type command struct {
	Command
	inherit func() []string
}

// plainEnv is what a server of the configuration inherits: enough to run, and none of the gateway's secrets. The rest is for
// the server's env: to say. (The official clients hand on much the same.)
func plainEnv() []string {
	var out []string
	for _, name := range [...]string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "TMP", "TEMP", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "USERNAME",
		"HOMEDRIVE", "HOMEPATH", "SYSTEMROOT", "SYSTEMDRIVE", "PROGRAMFILES", "PATHEXT", "COMSPEC", "PROCESSOR_ARCHITECTURE"} {
		if v, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+v)
		}
	}
	return out
}

func noEnv() []string { return nil }

func startStdio(c command, max int64, mem *budget.Bytes, stderr io.Writer, to receiver) (*stdioLink, error) {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.Dir, cmd.Stderr = append(c.inherit(), c.Env...), c.Dir, stderr
	cmd.WaitDelay = closePatience
	ownGroup(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Args[0], err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", c.Args[0], err), in.Close())
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Args[0], err)
	}
	l := &stdioLink{to: to, cmd: cmd, in: in, out: out, max: max, mem: mem, queue: make(chan *letter, 64), over: make(chan struct{}), stop: make(chan struct{})}
	l.all.Go(l.write)
	l.all.Go(l.read)
	return l, nil
}

// send implements link. Its context bounds the wait for a child that does not read.
func (l *stdioLink) send(ctx context.Context, o outgoing) error {
	x := &letter{line: append(oneLine(o.raw), '\n'), done: make(chan error, 1)}
	select {
	case l.queue <- x:
	case <-l.stop:
		return &sendError{err: errServerEnded}
	case <-ctx.Done():
		return &sendError{err: context.Cause(ctx)}
	}
	select {
	case err := <-x.done:
		return err
	case <-l.stop:
		return x.withdraw(errServerEnded)
	case <-ctx.Done():
		return x.withdraw(context.Cause(ctx))
	}
}

func (x *letter) withdraw(why error) error {
	if x.state.CompareAndSwap(letterWaits, letterWithdrawn) {
		return &sendError{err: why}
	}
	select {
	case err := <-x.done:
		return err
	default:
		return &sendError{sent: true, err: why}
	}
}

func (l *stdioLink) write() {
	for {
		select {
		case <-l.stop:
			return
		case x := <-l.queue:
			if !x.state.CompareAndSwap(letterWaits, letterBegun) {
				continue
			}
			if n, err := l.in.Write(x.line); err != nil {
				x.done <- &sendError{sent: n > 0, err: fmt.Errorf("%w: %w", errServerEnded, err)}
				continue
			}
			x.done <- nil
		}
	}
}

// read hands on what the child says until it ends.
func (l *stdioLink) read() {
	in := newLines(l.out, l.max)
	in.count = &intake{mem: l.mem}
	defer in.count.end()
	for {
		line, err := in.next()
		var big *oversized
		switch {
		case err == nil:
			l.to.received(line, 0, 0)
			continue
		case errors.As(err, &big):
			if id, err := strconv.ParseInt(string(big.id()), 10, 64); err == nil {
				l.to.unanswered(id, &sendError{sent: true, err: big})
			}
			continue
		}
		break
	}
	l.halt()
	err := l.cmd.Wait()
	close(l.over)
	why := errServerEnded
	if err != nil {
		why = fmt.Errorf("%w: %w", errServerEnded, err)
	}
	l.to.lost(&sendError{sent: true, err: why})
}

func (l *stdioLink) halt() { l.once.Do(func() { close(l.stop) }) }

func (l *stdioLink) negotiated(string) {}
func (l *stdioLink) listen()           {}
func (l *stdioLink) credential(string) {}

// closePatience is how long a server may take to end when its input ends, and again when it is told to.
const closePatience = 2 * time.Second

// close is the shutdown that MCP asks for: end of input, then a request to end, then force.
func (l *stdioLink) close() {
	l.halt()
	_ = l.in.Close() // it may have ended
	timer := time.NewTimer(closePatience)
	defer timer.Stop()
	for _, end := range []func(*exec.Cmd){askToEnd, forceToEnd} {
		select {
		case <-l.over:
		case <-timer.C:
			end(l.cmd)
			timer.Reset(closePatience)
			continue
		}
		break
	}
	<-l.over
	l.all.Wait()
}
