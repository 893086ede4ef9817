// Package redistest runs real Redis servers for tests, and stops, freezes and restarts them.
package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Required names the environment variable under which a missing Redis fails a test instead of skipping it.
const Required = "HOLDFAST_TEST_REDIS"

// Server is a Redis of one test's own, which ends with it.
type Server struct {
	bin, dir, port string
	cmd            *exec.Cmd
	out            *bytes.Buffer
	ended          chan struct{}
	args           []string
}

const (
	startTries = 3 // the port that was free may be taken meanwhile
	startWait  = 60 * time.Second
)

// Start serves an empty Redis on a port of loopback; further arguments are redis-server's own. Without Redis on the machine the
// test is skipped, or fails where the environment says that it must be there.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		bin, err = exec.LookPath("valkey-server")
	}
	if err != nil {
		if os.Getenv(Required) != "" {
			t.Fatalf("there is no Redis on this machine, and %s says that it must be there", Required)
		}
		t.Skip("there is no Redis on this machine: this test asks a real server (apt-get install redis-server; ./test.sh does so)")
	}
	s := &Server{bin: bin, dir: t.TempDir(), out: &bytes.Buffer{}, args: args}
	for try := 1; ; try++ {
		if s.port, err = freePort(); err == nil {
			err = s.serve()
		}
		if err == nil {
			break
		}
		if try == startTries {
			t.Fatalf("%v:\n%s", err, s.out)
		}
	}
	t.Cleanup(func() { s.Continue(t); s.Stop(t) })
	return s
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

// serve starts the server and waits until it answers.
func (s *Server) serve() error {
	args := append([]string{"--port", s.port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no"}, s.args...)
	s.cmd = exec.Command(s.bin, args...)
	s.out.Reset()
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	if err := s.cmd.Start(); err != nil {
		return err
	}
	cmd, ended := s.cmd, make(chan struct{})
	s.ended = ended
	go func() { _ = cmd.Wait(); close(ended) }() // how it ended stands in its output
	for over := time.Now().Add(startWait); time.Now().Before(over); {
		if s.ping() == nil {
			return nil
		}
		select {
		case <-ended:
			return errors.New("redis-server ended as soon as it was started")
		case <-time.After(10 * time.Millisecond):
		}
	}
	_ = s.cmd.Process.Kill()
	<-ended
	return fmt.Errorf("redis-server did not answer within %s", startWait)
}

// ping asks for this very process, so that another one on the same port is no answer.
func (s *Server) ping() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // it was only asked
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := c.Write([]byte("INFO server\r\n")); err != nil {
		return err
	}
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(buf[:n], []byte("-NOAUTH")) && !bytes.Contains(buf[:n], []byte("process_id:"+strconv.Itoa(s.cmd.Process.Pid)+"\r\n")) {
		return errors.New("another server answers on this port")
	}
	return nil
}

// Addr is where it listens, URL the same as an address with database 0.
func (s *Server) Addr() string { return "127.0.0.1:" + s.port }

// URL is its address.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

// Stop kills it, as kill -9 does; its port refuses then. One that does not run stays as it is.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.ended
}

// Restart serves on the same port again, with nothing in it: it keeps no file.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop(t)
	if err := s.serve(); err != nil {
		t.Fatalf("%v:\n%s", err, s.out)
	}
}

// Freeze stops its process in the middle of whatever it does: connections stay, and nothing is answered until Continue.
func (s *Server) Freeze(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Continue ends Freeze.
func (s *Server) Continue(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("%v to redis-server: %v", sig, err)
	}
}

// Do asks one command of it, in words, and returns the answer as it comes.
func (s *Server) Do(t testing.TB, command string) string {
	t.Helper()
	c, err := net.DialTimeout("tcp", s.Addr(), startWait)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // it was only asked
	if _, err = c.Write([]byte(command + "\r\n")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64<<10)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

// Await asks a command until its answer contains a text.
func (s *Server) Await(t testing.TB, command, text string) {
	t.Helper()
	for over := time.Now().Add(startWait); time.Now().Before(over); time.Sleep(10 * time.Millisecond) {
		if strings.Contains(s.Do(t, command), text) {
			return
		}
	}
	t.Fatalf("%s does not say %s", command, text)
}
