package holdfast

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/sim"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// served is an engine with ports, before a simulated provider.
type served struct {
	*Engine
	t    *testing.T
	sim  *sim.Server
	file string
	logs lines
}

// lines is a log that may be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func newServed(t *testing.T, watch bool) *served {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
	dir := t.TempDir()
	s := &served{t: t, sim: sim.New(sim.Config{}), file: filepath.Join(dir, "holdfast.yaml")}
	if err := s.sim.Start(); err != nil {
		t.Fatal(err)
	}
	s.write(s.yaml(1))
	store := filepath.Join(dir, "holdfast.db")
	var err error
	s.Engine, err = New(Config{File: s.file, Store: "sqlite:" + store, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Env: "test",
		Watch: watch, Logger: slog.New(slog.NewTextHandler(&s.logs, nil))})
	if err == nil {
		err = s.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := errors.Join(s.Stop(context.Background()), s.sim.Close()); err != nil {
			t.Error(err)
		}
		if found, err := sqlite.Verify(context.Background(), store); err != nil || len(found) > 0 {
			t.Errorf("store verify: %v %v", found, err)
		}
	})
	return s
}

// yaml is a configuration that differs by n. What a slow disk holds up is not what these tests are about.
func (s *served) yaml(n int) string {
	return fmt.Sprintf(`providers: {openai: {type: openai, base_url: "%s/v1", api_key: k%d}}
policies: policies/*.yaml
limits: {commit_wait: 1m}
workflows:
  default: {bulkhead: {max_concurrent: %d, wait: true}, lanes: {interactive_admission: {max_wait_ms: 120000}}, retry: {max_attempts: %d}}
`, s.sim.URL(), n, 4+n%3, 1+n%3)
}

// write replaces the file as an editor does.
func (s *served) write(text string) {
	s.t.Helper()
	if err := os.WriteFile(s.file+"~", []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(s.file+"~", s.file); err != nil {
		s.t.Fatal(err)
	}
}

func (s *served) get(path string) string {
	s.t.Helper()
	resp, err := http.Get("http://" + s.AdminAddr() + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		s.t.Fatal(resp.Status, err)
	}
	return string(b)
}

func (s *served) shown() (c admin.Configuration) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.get("/holdfast/v1/config")), &c); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// wait polls for what the file watcher will bring about.
func (s *served) wait(what string, ok func() bool) {
	s.t.Helper()
	for range 5000 {
		if ok() {
			return
		}
		<-time.After(2 * time.Millisecond)
	}
	s.t.Fatalf("%s did not come about; the log:\n%s", what, &s.logs)
}

func (s *served) chat(op string) (status int, intent string, err error) {
	body := fmt.Sprintf(`{"model":"gpt-5","messages":[{"role":"user","content":"op=%s"}]}`, op)
	resp, err := http.Post("http://"+s.Addr()+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if resp.StatusCode != 200 {
		err = errors.Join(err, fmt.Errorf("%s: %s", resp.Header.Get("Holdfast-Error"), b))
	}
	return resp.StatusCode, resp.Header.Get("Holdfast-Intent"), err
}

// No request is dropped while configurations come and go, and each is on record under one that was in force.
func TestReloadUnderTraffic(t *testing.T) {
	s := newServed(t, false)
	revisions := []string{s.config().Revision}
	done := make(chan struct{})
	var clients sync.WaitGroup
	var mu sync.Mutex
	var intents []string
	for c := range 8 {
		clients.Go(func() {
			for n := 0; ; n++ {
				status, id, err := s.chat(fmt.Sprintf("%d-%d", c, n))
				if err != nil || status != 200 {
					t.Errorf("%d %v", status, err)
					return
				}
				mu.Lock()
				intents = append(intents, id)
				mu.Unlock()
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for n := range 60 {
		text := s.yaml(n)
		if n%5 == 4 {
			text = "workflows: {default: {retyr: 1}}"
		}
		s.write(text)
		err := s.Reload(t.Context())
		if refused := new(ConfigError); n%5 == 4 != errors.As(err, &refused) {
			t.Errorf("reload %d: %v", n, err)
		}
		revisions = append(revisions, s.config().Revision)
	}
	close(done)
	clients.Wait()
	seen := map[string]bool{}
	for _, id := range intents {
		rec, err := s.ledger.Get(t.Context(), id)
		if err != nil || !slices.Contains(revisions, rec.PolicyRevision) {
			t.Fatalf("%+v %v", rec, err)
		}
		seen[rec.PolicyRevision] = true
	}
	if len(seen) < 2 {
		t.Errorf("%d requests under one revision only", len(intents))
	}
}

// What check refuses is refused here in the same words, and what runs goes on.
func TestReloadRefusesABrokenFile(t *testing.T) {
	s := newServed(t, false)
	running := s.config()
	s.write("workflows:\n  default:\n    retyr: {max_attempts: 1}\n")
	var refused *ConfigError
	if err := s.Reload(t.Context()); !errors.As(err, &refused) {
		t.Fatal(err)
	}
	_, faults := policy.Load(s.file, os.LookupEnv)
	want := configError(faults).Faults
	shown := s.shown()
	if s.config() != running || !slices.Equal(refused.Faults, want) || shown.Revision != running.Revision || shown.File != s.file ||
		shown.Refused == nil || shown.Refused.Revision != "invalid" || !slices.Equal(shown.Refused.Faults, want) {
		t.Errorf("%q, %+v", refused.Faults, shown)
	}
	if log := s.logs.String(); !strings.Contains(log, "the running one kept") || !strings.Contains(log, "unknown field; did you mean retry?") {
		t.Error(log)
	}
	m := s.get("/metrics")
	for _, line := range []string{`holdfast_config_info{revision="` + running.Revision + `"} 1`, `holdfast_config_refused{revision="invalid"} 1`,
		`holdfast_config_reloads_total{result="refused"} 1`} {
		if !strings.Contains(m, line) {
			t.Errorf("no %s", line)
		}
	}
	if status, _, err := s.chat("still"); status != 200 {
		t.Error(status, err)
	}
	s.write(s.yaml(1))
	if err := s.Reload(t.Context()); err != nil || s.shown().Refused != nil || s.config() != running {
		t.Errorf("%v %+v", err, s.shown())
	}
	if !strings.Contains(s.get("/metrics"), `holdfast_config_refused{revision=""} 0`) {
		t.Error("the metric still tells of a refused configuration")
	}
}

// A field that is read at the start only is refused by name, with everything beside it.
func TestReloadRefusesWhatTakesARestart(t *testing.T) {
	s := newServed(t, false)
	running := s.config()
	s.write(strings.Replace(s.yaml(2), "1m", "3s", 1) + "mcp: {servers: {orders: {command: [orders-mcp]}}}\n")
	var refused *ConfigError
	if err := s.Reload(t.Context()); !errors.As(err, &refused) {
		t.Fatal(err)
	}
	const what = "cannot change while holdfast runs; put back what it was, or restart holdfast serve"
	want := []string{s.file + ":3:10: limits.commit_wait: " + what, s.file + ":6:1: mcp: " + what}
	if shown := s.shown(); s.config() != running || !slices.Equal(refused.Faults, want) || shown.Refused == nil ||
		shown.Refused.Revision == running.Revision || shown.Refused.Revision == "invalid" {
		t.Errorf("%q, %+v", refused.Faults, shown)
	}
}

// A secret that is replaced is in force, though no revision shows it (semantics 44 needs the new credential to go out).
func TestReloadTakesNewSecrets(t *testing.T) {
	s := newServed(t, false)
	before := s.config()
	s.write(strings.Replace(s.yaml(1), "k1", "another", 1))
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := s.config(); c == before || c.Revision != before.Revision || c.Provider("openai").APIKey.Reveal() != "another" {
		t.Error("the old key goes out")
	}
}

// Files that are renamed over, added and taken away, and Kubernetes' swap of a symlink, are noticed.
func TestWatchedFiles(t *testing.T) {
	s := newServed(t, true)
	s.write(s.yaml(2))
	s.wait("the renamed file", func() bool { return s.config().Workflow("default").Retry.MaxAttempts == 3 })
	dir := filepath.Join(filepath.Dir(s.file), "policies")
	data := func(version, text string) {
		t.Helper()
		folder := filepath.Join(dir, "..v"+version)
		err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "a.yaml"), []byte(text), 0o600),
			os.Symlink("..v"+version, filepath.Join(dir, "..tmp")), os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
		if err != nil {
			t.Fatal(err)
		}
	}
	data("1", "workflow: mounted\nretry: {max_attempts: 2}\n")
	if err := os.Symlink(filepath.Join("..data", "a.yaml"), filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	s.wait("the policy's file in a new folder", func() bool { return s.config().Workflow("mounted") != nil })
	data("2", "workflow: mounted\nretry: {max_attempts: 5}\n")
	s.wait("the swapped symlink", func() bool { w := s.config().Workflow("mounted"); return w != nil && w.Retry.MaxAttempts == 5 })
	if err := os.Remove(filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	s.wait("the removal", func() bool { return s.config().Workflow("mounted") == nil })
	s.write("workflows: [")
	s.wait("the refusal", func() bool { return s.shown().Refused != nil })
	s.write(s.yaml(3))
	s.wait("the correction", func() bool { return s.shown().Refused == nil && s.config().Workflow("default").Retry.MaxAttempts == 1 })
}
