// Package filewatch tells when files may have changed, however they are replaced.
package filewatch

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long files must be left alone before they are told of: an editor writes a file in several steps.
	settle = 100 * time.Millisecond
	// longest bounds that wait where something writes all the time.
	longest = 2 * time.Second
	// pause is waited after a burst of events. A store in the same folder changes with every call; while nobody reads, the
	// kernel folds its events into one.
	pause = 50 * time.Millisecond
	// quiet ends a burst, most bounds it.
	quiet = time.Millisecond
	most  = 4096
)

// Watcher watches the folders of a set of files: an editor replaces a file by renaming another over it, and Kubernetes
// swaps a symlink beside it, which a watch on the file itself would not survive. It is safe for concurrent use.
type Watcher struct {
	fs      *fsnotify.Watcher
	changed chan struct{}
	wake    chan struct{} // asks for a look though no event came
	stop    chan struct{}
	once    sync.Once
	work    sync.WaitGroup

	mu     sync.Mutex
	wanted wanted
}

// New returns a Watcher of nothing. Close ends it.
func New() (*Watcher, error) {
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch files: %w", err)
	}
	w := &Watcher{fs: fs, changed: make(chan struct{}, 1), wake: make(chan struct{}, 1), stop: make(chan struct{})}
	w.work.Go(w.run)
	return w, nil
}

// Changed gets a value when something may have changed since the last one was taken. It is never closed.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Close ends the watch and waits for it.
func (w *Watcher) Close() error {
	var err error
	w.once.Do(func() {
		close(w.stop)
		err = w.fs.Close()
		w.work.Wait()
	})
	return err
}

// Watch watches these files, and what matches these globs, in place of what was watched before. Where a name leads over
// symlinks, each of them counts. Call it again after each change: the names may lead elsewhere now. A folder that was not
// watched before counts as changed, for what happened there meanwhile was not seen. The error names the first folder that
// cannot be watched; the others are.
func (w *Watcher) Watch(files, globs []string) error {
	next := newWanted(files, globs)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = next
	had := w.fs.WatchList()
	for _, dir := range had {
		if !slices.Contains(next.dirs, dir) {
			_ = w.fs.Remove(dir) // gone with its folder, perhaps
		}
	}
	var failed error
	for _, dir := range next.dirs {
		if slices.Contains(had, dir) {
			continue
		}
		if err := w.fs.Add(dir); err != nil {
			if failed == nil {
				failed = fmt.Errorf("watch %s: %w", dir, err)
			}
			continue
		}
		w.again()
	}
	return failed
}

func (w *Watcher) again() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watcher) relevant(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wanted.has(filepath.Clean(name))
}

func (w *Watcher) run() {
	d := debounce{timer: time.NewTimer(time.Hour)}
	d.timer.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-w.wake:
			d.touch()
		case <-w.fs.Errors: // events were lost: whatever they told of may have changed
			d.touch()
		case e := <-w.fs.Events:
			if w.burst(e) {
				d.touch()
			} else if !w.rest() {
				return
			}
		case <-d.timer.C:
			d.begun = time.Time{}
			select {
			case w.changed <- struct{}{}:
			default:
			}
		}
	}
}

// burst reads what comes at once, and reports whether any of it counts.
func (w *Watcher) burst(e fsnotify.Event) bool {
	counts := w.relevant(e.Name)
	end := time.NewTimer(quiet)
	defer end.Stop()
	for range most {
		select {
		case e = <-w.fs.Events:
			counts = counts || w.relevant(e.Name)
			end.Reset(quiet)
		case <-end.C:
			return counts
		case <-w.stop:
			return counts
		}
	}
	return counts
}

// rest waits for a pause; false: the watch is over.
func (w *Watcher) rest() bool {
	select {
	case <-time.After(pause):
		return true
	case <-w.stop:
		return false
	}
}

// debounce puts off until nothing has happened for settle, but no longer than longest.
type debounce struct {
	timer *time.Timer
	begun time.Time // zero: nothing is put off
}

func (d *debounce) touch() {
	now := time.Now()
	if d.begun.IsZero() {
		d.begun = now
	}
	d.timer.Reset(min(settle, max(0, longest-now.Sub(d.begun))))
}
