package holdfast

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// shop is an engine without ports, on a store that the test can look into and open again.
type shop struct {
	*Engine
	t      *testing.T
	config string
	store  string
	up     bool
}

// The hasty ones leave room for the commit before the function: a slow disk must not use their time up.
const shopWorkflows = `
workflows:
  refund: {effect: external, timeouts: {attempt: 2m, total: 2m}, retry: {base: 1ms, max: 2ms}}
  hasty: {effect: external, timeouts: {attempt: 1500ms, total: 1500ms}}
  words: {effect: generation, idempotency: {derive: always}, timeouts: {attempt: 2m, total: 2m}, retry: {base: 1ms, max: 2ms}}
  hasty_words: {effect: generation, timeouts: {attempt: 1500ms, total: 1500ms}}
  crowd: {effect: external, idempotency: {on_in_flight: conflict}}
  tied: {effect: external, on_disconnect: cancel}
  templated: {effect: external, idempotency: {key: "{order}"}}
  looking: {effect: read}
  watched: {effect: external, mode: observe}
  asked: {effect: generation, timeouts: {attempt: 2m, total: 2m}}
`

// open starts an engine; the test fails when it leaks or leaves a store that breaks an invariant.
func open(t *testing.T, more ...string) *shop {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
	dir := t.TempDir()
	s := &shop{t: t, config: filepath.Join(dir, "holdfast.yaml"), store: filepath.Join(dir, "holdfast.db")}
	if err := os.WriteFile(s.config, []byte(strings.Join(more, "\n")+shopWorkflows), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	t.Cleanup(func() {
		s.stop()
		if found, err := sqlite.Verify(context.Background(), s.store); err != nil || len(found) > 0 {
			t.Errorf("store verify: %v %v", found, err)
		}
	})
	return s
}

func (s *shop) start() {
	s.t.Helper()
	e, err := New(Config{File: s.config, Store: "sqlite:" + s.store, Embedded: true, Getenv: func(string) (string, bool) { return "", false }})
	if err != nil {
		s.t.Fatal(err)
	}
	s.Engine, s.up = e, true
	if err := e.Start(context.Background()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) stop() {
	if !s.up {
		return
	}
	s.up = false
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		s.t.Error(err)
	}
}

func (s *shop) record(id string) *ledger.Record {
	s.t.Helper()
	r, err := s.ledger.Get(context.Background(), id)
	if err != nil {
		s.t.Fatalf("intent %q: %v", id, err)
	}
	return r
}

// eventually polls for what another goroutine will bring about. Its patience is only there to name the test that hangs.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); <-time.After(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("it did not come about within two minutes")
}
