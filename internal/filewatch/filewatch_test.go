package filewatch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func changed(t *testing.T, w *Watcher, after func() error) {
	t.Helper()
	if err := after(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.Changed():
	case <-time.After(time.Minute):
		t.Fatal("not noticed within a minute")
	}
}

func put(name, text string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600))
}

// Wherever a name leads over symlinks, a change of any part of the way is a change of the file.
func TestLinks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{put(at("releases/1/c.yaml"), ""), put(at("releases/2/c.yaml"), ""), os.Symlink("releases/1", at("current")),
		os.Mkdir(at("etc"), 0o700), os.Symlink("../current/c.yaml", at("etc/c.yaml"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	look := func() error { return w.Watch([]string{at("etc/c.yaml")}, []string{at("more/*/*.yaml")}) }
	changed(t, w, look) // folders that were not watched before
	changed(t, w, func() error { return put(at("releases/1/c.yaml"), "x") })
	changed(t, w, func() error {
		return errors.Join(os.Symlink("releases/2", at("tmp")), os.Rename(at("tmp"), at("current")))
	})
	changed(t, w, look)
	changed(t, w, func() error { return put(at("releases/2/c.yaml"), "y") })
	changed(t, w, func() error { return os.Mkdir(at("more"), 0o700) })
	changed(t, w, look)
	changed(t, w, func() error { return os.Mkdir(at("more/team"), 0o700) })
	changed(t, w, look)
	changed(t, w, func() error { return put(at("more/team/a.yaml"), "") })
	changed(t, w, func() error { return os.RemoveAll(at("more/team")) })
}

// What is written beside the files is nobody's concern: a store would have the configuration read with every call.
func TestBeside(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := newWanted([]string{filepath.Join(dir, "c.yaml")}, []string{filepath.Join(dir, "p*.yaml")})
	for name, want := range map[string]bool{"c.yaml": true, "p.yaml": true, "p1.yaml": true, "holdfast.db-wal": false, "c.yaml~": false, "q.yaml": false,
		"sub/p.yaml": false} {
		if w.has(filepath.Join(dir, name)) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	if !w.has(dir) {
		t.Error("the folder itself does not count")
	}
}

// Symlinks in a circle are a file that is not there.
func TestCircle(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Symlink("b", filepath.Join(dir, "a")), os.Symlink("a", filepath.Join(dir, "b"))); err != nil {
		t.Fatal(err)
	}
	if w := newWanted([]string{filepath.Join(dir, "a")}, nil); len(w.dirs) == 0 {
		t.Error("nothing is watched")
	}
}
