package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/pgtest"
	"github.com/holdfast-ai/holdfast/ledger"
)

// noted is an addition to an intent that shows how often it was made.
func noted(l *Ledger, id string) *ledger.Write {
	return &ledger.Write{ID: id, Append: true, Events: []ledger.Event{{At: l.Now(), Kind: "note", Reason: string(note)}}}
}

// notes counts the additions to an intent, seen by another than the ledger under test.
func notes(t *testing.T, l *Ledger, id string) (n int) {
	t.Helper()
	events, err := l.History(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == "note" {
			n++
		}
	}
	return n
}

// through opens a ledger over a wire, and another one beside it.
func through(t *testing.T, cfg Config) (w *wire, l, witness *Ledger) {
	t.Helper()
	url := emptyStore(t)
	w = newWire(t, url)
	witness = open(t, Config{URL: url})
	t.Cleanup(func() { _ = witness.Close() })
	cfg.URL, cfg.Writers = w.url, 1
	return w, open(t, cfg), witness
}

// TestCommitNobodyConfirmed: what a lost connection leaves open is looked up. A commit that happened is told as one, with what it refused, and happens
// once; one that did not is made again.
func TestCommitNobodyConfirmed(t *testing.T) {
	for name, lost := range map[string]func(bool, []byte) bool{"the answer is lost": aCommit, "the transaction is lost": aBatch} {
		t.Run(name, func(t *testing.T) {
			w, l, witness := through(t, Config{})
			defer l.Close()
			there := newIntent(l, "key")
			if err := commit(l, there); err != nil {
				t.Fatal(err)
			}
			first := noted(l, there.Insert.ID)
			if err := commit(l, first); err != nil { // its statement is prepared
				t.Fatal(err)
			}
			w.once(lost)
			second, rival, ghost := noted(l, there.Insert.ID), newIntent(l, "key"), noted(l, newID(l.Now()))
			second.Relaxed, rival.Relaxed, ghost.Relaxed = true, true, true // together
			done := []<-chan struct{}{l.Enqueue(second), l.Enqueue(rival), l.Enqueue(ghost)}
			for _, d := range done {
				<-d
			}
			if second.Err != nil || !errors.Is(rival.Err, ledger.ErrClaimed) || rival.Holder != there.Insert.ID || !errors.Is(ghost.Err, ledger.ErrNotFound) {
				t.Errorf("addition %v, rival %v of %q, addition to nothing %v", second.Err, rival.Err, rival.Holder, ghost.Err)
			}
			if n := notes(t, witness, there.Insert.ID); n != 2 {
				t.Errorf("%d additions are on record, 2 were made", n)
			}
		})
	}
}

// TestCommitThatComesLate: a transaction that was still on its way when its fate was looked up commits no more.
func TestCommitThatComesLate(t *testing.T) {
	w, l, witness := through(t, Config{})
	defer l.Close()
	there := newIntent(l, "key")
	for _, x := range []*ledger.Write{there, noted(l, there.Insert.ID)} {
		if err := commit(l, x); err != nil {
			t.Fatal(err)
		}
	}
	w.mu.Lock()
	w.late, w.release, w.arrived = true, make(chan struct{}), make(chan struct{})
	w.mu.Unlock()
	w.once(aBatch)
	if err := commit(l, noted(l, there.Insert.ID)); err != nil {
		t.Fatal(err)
	}
	close(w.release)
	<-w.arrived
	if n := notes(t, witness, there.Insert.ID); n != 2 {
		t.Errorf("%d additions are on record, 2 were made", n)
	}
}

// TestFrozen: a server that says nothing more holds up nobody for ever. What it may have committed waits to be looked up, all else is refused; and it
// goes on when the server does.
func TestFrozen(t *testing.T) {
	w, l, witness := through(t, Config{CommitTimeout: 2 * time.Second, ConnectTimeout: 2 * time.Second})
	there := newIntent(l, "key")
	if err := commit(l, there); err != nil {
		t.Fatal(err)
	}
	w.freeze()
	doubt := noted(l, there.Insert.ID)
	open := l.Enqueue(doubt)
	for {
		other := newIntent(l, "other")
		if err := commit(l, other); errors.Is(err, ledger.ErrUnavailable) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if l.Healthy() == nil {
		t.Error("Healthy() says nothing of it")
	}
	w.thaw()
	<-open
	if n := notes(t, witness, there.Insert.ID); doubt.Err == nil && n != 1 || doubt.Err != nil && n != 0 {
		t.Errorf("%d additions are on record, and its writer was told %v", n, doubt.Err)
	}
	w.freeze()
	doubt = noted(l, there.Insert.ID)
	open = l.Enqueue(doubt)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if <-open; doubt.Err == nil {
		t.Error("nobody confirmed it, and its writer was told that it is durable")
	}
}

// load has some writers add to intents of their own until stop is closed, and holds what is on record to what they were told.
func load(t *testing.T, l *Ledger, stop <-chan struct{}) (judge func(witness *Ledger), told *atomic.Int64) {
	t.Helper()
	const many = 8
	told = &atomic.Int64{}
	var ids [many]string
	var made [many]int
	var wg sync.WaitGroup
	for i := range many {
		w := newIntent(l, fmt.Sprintf("key-%d", i))
		if err := commit(l, w); err != nil {
			t.Fatal(err)
		}
		ids[i] = w.Insert.ID
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				switch err := commit(l, noted(l, ids[i])); {
				case err == nil:
					made[i]++
					told.Add(1)
				case !errors.Is(err, ledger.ErrUnavailable):
					t.Error(err)
					return
				}
			}
		})
	}
	return func(witness *Ledger) {
		t.Helper()
		wg.Wait()
		for i, id := range ids {
			if n := notes(t, witness, id); n != made[i] {
				t.Errorf("writer %d was told of %d additions, %d are on record", i, made[i], n)
			}
		}
	}, told
}

// TestBackendsKilled: every write is on record as often as its writer was told, whatever happens to the connections.
func TestBackendsKilled(t *testing.T) {
	url := emptyStore(t)
	l, witness := open(t, Config{URL: url}), open(t, Config{URL: url})
	defer witness.Close()
	defer l.Close()
	stop := make(chan struct{})
	judge, told := load(t, l, stop)
	for range 20 {
		seen := told.Load()
		for told.Load() < seen+20 && !t.Failed() {
			time.Sleep(time.Millisecond) // a wait for what they do, not for time
		}
		if _, err := witness.read.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	judge(witness)
}

// TestServerGoesAndComes: stopped in order or not, the server takes nothing with it that somebody was told of, and the ledger goes on when it is back.
func TestServerGoesAndComes(t *testing.T) {
	for name, end := range map[string]func(*pgtest.Server){"stopped": (*pgtest.Server).Stop, "crashed": (*pgtest.Server).Crash} {
		t.Run(name, func(t *testing.T) {
			server := pgtest.Start(t)
			l := open(t, Config{URL: server.DSN("postgres")})
			defer l.Close()
			stop := make(chan struct{})
			judge, told := load(t, l, stop)
			for range 2 {
				for seen := told.Load(); told.Load() < seen+100 && !t.Failed(); {
					time.Sleep(time.Millisecond) // a wait for what they do, not for time
				}
				end(server)
				for l.Healthy() == nil && !t.Failed() {
					time.Sleep(time.Millisecond)
				}
				server.Restart(t)
			}
			for seen := told.Load(); told.Load() < seen+100 && !t.Failed(); {
				time.Sleep(time.Millisecond)
			}
			close(stop)
			witness := open(t, Config{URL: server.DSN("postgres")})
			defer witness.Close()
			judge(witness)
		})
	}
}
