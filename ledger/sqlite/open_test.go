package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
)

func tempPath(t testing.TB) string { return filepath.Join(t.TempDir(), "holdfast.db") }

func TestSecondEngineIsRefused(t *testing.T) {
	path := tempPath(t)
	l := mustOpen(t, Config{Path: path})
	_, err := Open(t.Context(), Config{Path: path})
	if !errors.Is(err, ledger.ErrLocked) || !strings.Contains(err.Error(), "process ") || !strings.Contains(err.Error(), "stop it") {
		t.Errorf("second engine: %v, want ErrLocked with the holder and what to do", err)
	}
	for name, upkeep := range map[string]func() error{
		"compact": func() error { _, _, err := Compact(t.Context(), path); return err },
		"migrate": func() error { _, _, err := Migrate(t.Context(), Config{Path: path}); return err },
	} {
		if err := upkeep(); !errors.Is(err, ledger.ErrLocked) {
			t.Errorf("%s beside an engine: %v, want ErrLocked", name, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, Config{Path: path})
}

func TestReadersBesideTheEngine(t *testing.T) {
	path := tempPath(t)
	l := mustOpen(t, Config{Path: path})
	w := dispatchedWrite(l, "k")
	if <-l.Enqueue(w); w.Err != nil {
		t.Fatal(w.Err)
	}
	r, err := OpenReadOnly(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Get(t.Context(), w.Insert.ID); err != nil {
		t.Errorf("read beside the engine: %v", err)
	}
	x := dispatchedWrite(l, "k2")
	if <-r.Enqueue(x); !errors.Is(x.Err, ledger.ErrUnavailable) {
		t.Errorf("write through a reader: %v", x.Err)
	}
	if err := r.Beat(t.Context(), ledger.Owner{ID: "me", Until: r.Now()}); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("Beat through a reader: %v", err)
	}
	if <-l.Enqueue(x); x.Err != nil {
		t.Errorf("the engine, with a reader beside it: %v", x.Err)
	}
	if found, err := Verify(t.Context(), path); err != nil || len(found) > 0 {
		t.Errorf("Verify = %v, %v", found, err)
	}
}

func TestEnvIsStamped(t *testing.T) {
	path := tempPath(t)
	if err := mustOpen(t, Config{Path: path, Env: "production"}).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Path: path, Env: "staging"}); !errors.Is(err, ledger.ErrForeignEnv) ||
		!strings.Contains(err.Error(), "production") {
		t.Errorf("foreign env: %v", err)
	}
	for _, env := range []string{"", "production"} {
		if err := mustOpen(t, Config{Path: path, Env: env}).Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := tempPath(t)
	l := mustOpen(t, Config{Path: path})
	err := l.inWriter(t.Context(), func(s *session) error {
		return s.conn.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (999999, 1)`)
	})
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Path: path}); !errors.Is(err, ledger.ErrNewerSchema) {
		t.Errorf("newer schema: %v", err)
	}
	if _, err := OpenReadOnly(t.Context(), path); !errors.Is(err, ledger.ErrNewerSchema) {
		t.Errorf("newer schema, read-only: %v", err)
	}
}

func TestMigrateFromNothing(t *testing.T) {
	path := tempPath(t)
	from, to, err := Migrate(t.Context(), Config{Path: path})
	if err != nil || from != 0 || to != SchemaVersion() {
		t.Fatalf("Migrate = %d, %d, %v", from, to, err)
	}
	if from, _, err = Migrate(t.Context(), Config{Path: path}); err != nil || from != SchemaVersion() {
		t.Errorf("again: from %d, %v", from, err)
	}
	mustOpen(t, Config{Path: path})
}

func TestNoFileNoFolder(t *testing.T) {
	if _, err := OpenReadOnly(t.Context(), tempPath(t)); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("no file: %v", err)
	}
	if _, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "none", "x.db")}); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("no folder: %v", err)
	}
	path := tempPath(t)
	if err := os.WriteFile(path, []byte(strings.Repeat("not a database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Path: path}); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("another kind of file: %v", err)
	}
}

// TestFilesArePrivate holds semantics 45, whatever the umask.
func TestFilesArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no file modes")
	}
	path := tempPath(t)
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l := mustOpen(t, Config{Path: path})
	if <-l.Enqueue(dispatchedWrite(l, "k")); l.Healthy() != nil {
		t.Fatal(l.Healthy())
	}
	if _, err := l.Counts(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		st, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if m := st.Mode().Perm(); m != 0o600 {
			t.Errorf("%s has mode %o", st.Name(), m)
		}
	}
}

// TestSyncLevelIsReadBack: the level that SQLite runs at, not the one that was asked for.
func TestSyncLevelIsReadBack(t *testing.T) {
	l := mustOpen(t, Config{Path: tempPath(t)})
	level := ""
	if err := l.inWriter(t.Context(), func(s *session) (err error) {
		level, err = pragma(s.conn, "synchronous")
		return err
	}); err != nil || level != "2" {
		t.Errorf("synchronous = %q, %v; want 2 (FULL)", level, err)
	}
	c, err := l.files.openReader()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Exec(`PRAGMA synchronous = NORMAL`); err != nil {
		t.Fatal(err)
	}
	if err := walMode(c); !errors.Is(err, ledger.ErrUnavailable) || !strings.Contains(err.Error(), "power cut") {
		t.Errorf("a store at NORMAL was accepted: %v", err)
	}
}

// TestCommitPoints: a crash rig sees each side of a commit, in order.
func TestCommitPoints(t *testing.T) {
	points := make(chan string, 64)
	l := mustOpen(t, Config{Path: tempPath(t), Hook: func(p string) { points <- p }})
	if <-l.Enqueue(dispatchedWrite(l, "first of the log")); l.Healthy() != nil {
		t.Fatal(l.Healthy())
	}
	for len(points) > 0 { // of the opening, and of the log's head
		<-points
	}
	if <-l.Enqueue(dispatchedWrite(l, "k")); l.Healthy() != nil {
		t.Fatal(l.Healthy())
	}
	for _, want := range []string{"commit.before", "commit.write", "commit.sync", "commit.synced", "commit.after"} {
		if got := <-points; got != want {
			t.Fatalf("point %q, want %q", got, want)
		}
	}
}

// TestOneWritePerCommit: what a commit appends to the log goes out as one write.
func TestOneWritePerCommit(t *testing.T) {
	writes := 0
	l := mustOpen(t, Config{Path: tempPath(t), Hook: func(p string) {
		if p == "commit.write" {
			writes++
		}
	}})
	before := 0
	if <-l.Enqueue(dispatchedWrite(l, "k")); l.Healthy() != nil {
		t.Fatal(l.Healthy())
	}
	before = writes
	if <-l.Enqueue(dispatchedWrite(l, "k2")); writes-before != 1 {
		t.Errorf("a commit took %d writes", writes-before)
	}
}

// TestLogGrowsAhead: an ordinary commit does not lengthen the log, which would make its sync wait for the file
// system's journal too.
func TestLogGrowsAhead(t *testing.T) {
	path := tempPath(t)
	l := mustOpen(t, Config{Path: path})
	grown, last := 0, int64(0)
	for i := range 20 {
		if <-l.Enqueue(dispatchedWrite(l, "k"+benchID())); l.Healthy() != nil {
			t.Fatal(i, l.Healthy())
		}
		st, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		if st.Size() > last {
			grown, last = grown+1, st.Size()
		}
	}
	if grown > 1 {
		t.Errorf("20 small commits lengthened the log %d times", grown)
	}
}

// TestLogStaysShort: steady traffic does not let the log grow without bound.
func TestLogStaysShort(t *testing.T) {
	path := tempPath(t)
	l := mustOpen(t, Config{Path: path, CheckpointPages: 50})
	for i := range 300 {
		w := dispatchedWrite(l, "k"+benchID())
		w.Bodies = []ledger.Body{{Kind: ledger.BodyRequest, Data: randomBytes(8000)}}
		if <-l.Enqueue(w); w.Err != nil {
			t.Fatal(i, w.Err)
		}
	}
	if _, err := l.Counts(context.Background()); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if limit := int64((checkpointPatience + 2) * 50 * frame); st.Size() > limit {
		t.Errorf("the log has grown to %d bytes; %d were expected at most", st.Size(), limit)
	}
}
