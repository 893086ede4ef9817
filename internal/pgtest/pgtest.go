// Package pgtest runs real Postgres servers for tests.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Required names the environment variable under which a missing Postgres fails a test instead of skipping it.
const Required = "HOLDFAST_TEST_POSTGRES"

// Server is a Postgres of one test's own, which ends with it.
type Server struct {
	bin, dir       string
	settings       []string
	addr, password string
	cmd            *exec.Cmd
	out            *bytes.Buffer
	ended          chan struct{}
}

// Superuser is the user that owns everything on a Server.
const Superuser = "admin"

const (
	startTries = 3 // the port that was free may be taken meanwhile
	startWait  = 60 * time.Second
)

// Start makes a cluster in a folder of its own and serves it on a port of loopback. Without Postgres on the machine the test is skipped, or
// fails where the environment says that it must be there.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := Serve()
	switch {
	case errors.Is(err, ErrNone) && os.Getenv(Required) == "":
		t.Skipf("%v: this test asks a real server (apt-get install postgresql; ./test.sh does so)", err)
	case err != nil:
		t.Fatalf("%v (%s=%q)", err, Required, os.Getenv(Required))
	}
	t.Cleanup(s.Close)
	return s
}

// ErrNone says that no Postgres is installed.
var ErrNone = errors.New("there is no Postgres on this machine")

// Serve is Start for what has no test of its own, as the tests of a package together. settings are added to those of the server's command line.
// Whoever calls it closes the server.
func Serve(settings ...string) (_ *Server, err error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-pg-")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir, settings: settings, password: "secret-of-" + filepath.Base(dir), out: &bytes.Buffer{}}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir) // of a temporary folder nothing depends
		}
	}()
	if err := s.initialise(); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		if err = s.listen(); err == nil {
			err = s.serve()
		}
		if err == nil {
			return s, nil
		}
		if try == startTries {
			return nil, fmt.Errorf("%w:\n%s", err, s.out)
		}
	}
}

// Close ends the server and removes what it kept.
func (s *Server) Close() {
	s.Stop()
	_ = os.RemoveAll(s.dir) // of a temporary folder nothing depends
}

// programs is the folder of initdb and postgres: that of the path, else the newest that Debian keeps outside of it.
func programs() (string, error) {
	if found, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(found), nil
	}
	all, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(all) == 0 {
		return "", ErrNone
	}
	newest := slices.MaxFunc(all, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(newest), nil
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0: an odd name is the oldest
	return n
}

func (s *Server) initialise() error {
	bin, dir := s.bin, s.dir
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte(s.password), 0o600); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"), "-U", Superuser, "-A", "scram-sha-256", "--pwfile", secret,
		"-E", "UTF8", "--locale=C", "--no-sync")
	if err := unprivileged(cmd, dir, secret); err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w:\n%s", err, out)
	}
	return nil
}

// listen chooses a port that is free.
func (s *Server) listen() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.addr = l.Addr().String()
	return l.Close()
}

// serve starts the server and waits until it answers.
func (s *Server) serve() error {
	_, port, _ := net.SplitHostPort(s.addr) // net made it
	s.cmd = exec.Command(filepath.Join(s.bin, "postgres"), "-D", filepath.Join(s.dir, "data"), "-p", port, "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=")
	for _, setting := range s.settings {
		s.cmd.Args = append(s.cmd.Args, "-c", setting)
	}
	s.out.Reset()
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	if err := unprivileged(s.cmd, s.dir); err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.ended = make(chan struct{})
	go func() { _ = s.cmd.Wait(); close(s.ended) }() // how it ended stands in its output
	for over := time.Now().Add(startWait); time.Now().Before(over); {
		if c, err := pgx.Connect(context.Background(), s.DSN("postgres")); err == nil {
			return c.Close(context.Background())
		}
		select {
		case <-s.ended:
			return errors.New("postgres ended as soon as it was started")
		case <-time.After(50 * time.Millisecond):
		}
	}
	s.Stop()
	return fmt.Errorf("postgres did not answer within %s", startWait)
}

// Stop is Postgres's fast shutdown: connections are ended, nothing is lost.
func (s *Server) Stop() {
	_ = s.cmd.Process.Signal(os.Interrupt) // it may have ended
	select {
	case <-s.ended:
	case <-time.After(startWait):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}

// Crash ends the server without a word to anybody: what was not on the disk is lost.
func (s *Server) Crash() {
	_ = s.cmd.Process.Signal(syscall.SIGQUIT) // it may have ended
	<-s.ended
}

// Restart serves the same data at the same address again, after Stop or Crash.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.serve(); err != nil {
		t.Fatalf("%v:\n%s", err, s.out)
	}
}

// Encrypt has the server offer TLS with a certificate and its key, both as PEM.
func (s *Server) Encrypt(t testing.TB, certificate, key []byte) {
	t.Helper()
	data := filepath.Join(s.dir, "data")
	names := []string{filepath.Join(data, "server.crt"), filepath.Join(data, "server.key")}
	for i, pem := range [][]byte{certificate, key} {
		if err := os.WriteFile(names[i], pem, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unprivileged(exec.Command(s.bin), names...); err != nil { // for the files' sake
		t.Fatal(err)
	}
	s.Exec(t, "postgres", "ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()")
}

// DSN is the address of a database on s for its superuser, password included.
func (s *Server) DSN(database string) string { return s.As(Superuser, s.password, database) }

// As is the address of a database on s for another user.
func (s *Server) As(user, password, database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(user, password), Host: s.addr, Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// Password is the superuser's, for tests that look for it where it must not be.
func (s *Server) Password() string { return s.password }

// Exec runs statements as the superuser, one after the other.
func (s *Server) Exec(t testing.TB, database string, statements ...string) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, s.DSN(database))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	for _, q := range statements {
		if _, err := c.Exec(ctx, q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// Lock holds a table against every reader until the function it returns is called.
func (s *Server) Lock(t testing.TB, database, table string) (unlock func()) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, s.DSN(database))
	if err == nil {
		_, err = c.Exec(ctx, "BEGIN; LOCK TABLE "+pgx.Identifier{table}.Sanitize()+" IN ACCESS EXCLUSIVE MODE")
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}
