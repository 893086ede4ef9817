package sqlite

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite/faultdisk"
)

const walName = "holdfast.db-wal"

// recovered waits until l takes writes again. It waits by writing, as a client would.
func recovered(t *testing.T, l *Ledger) *ledger.Write {
	t.Helper()
	for {
		w := dispatchedWrite(l, "after the fault "+benchID())
		switch <-l.Enqueue(w); {
		case w.Err == nil:
			return w
		case !errors.Is(w.Err, ledger.ErrUnavailable):
			t.Fatalf("after the fault: %v", w.Err)
		}
		runtime.Gosched()
	}
}

// faulty opens a ledger on a disk whose operations of one kind on the log fail with errno while on is set.
func faulty(t *testing.T, kind faultdisk.Kind, errno error) (*Ledger, *faultdisk.Disk, *atomic.Bool) {
	t.Helper()
	d := freshDisk(t)
	l := mustOpen(t, Config{Path: diskPath, Disk: d})
	on := &atomic.Bool{}
	d.SetFault(func(op faultdisk.Op) error {
		if on.Load() && op.Kind == kind && op.File == walName {
			return errno
		}
		return nil
	})
	return l, d, on
}

// testFault: what was in the air is refused and leaves nothing, what was told before stays readable, and service
// returns by itself when the disk does.
func testFault(t *testing.T, kind faultdisk.Kind, errno error) {
	l, d, on := faulty(t, kind, errno)
	before := dispatchedWrite(l, "before")
	if <-l.Enqueue(before); before.Err != nil {
		t.Fatal(before.Err)
	}
	on.Store(true)
	refused := []*ledger.Write{dispatchedWrite(l, "during"), dispatchedWrite(l, "during 2"), confirmedWrite(l, before)}
	for _, w := range refused {
		if <-l.Enqueue(w); !errors.Is(w.Err, ledger.ErrUnavailable) {
			t.Fatalf("with a broken disk: %v, want ErrUnavailable", w.Err)
		}
	}
	if err := l.Healthy(); err == nil {
		t.Error("Healthy() = nil while the disk is broken")
	}
	if rec, err := l.Get(t.Context(), before.Insert.ID); err != nil || rec.Version != 1 {
		t.Errorf("reads did not go on: %v, %v", rec, err)
	}
	on.Store(false)
	after := recovered(t, l)
	if err := l.Healthy(); err != nil {
		t.Errorf("Healthy() = %v after the disk came back", err)
	}
	// The refused ones are nowhere, also for whoever opens the file after a power cut.
	_ = l.Close()
	d.Cut(rand.New(rand.NewPCG(1, 1)))
	d.Boot()
	l = mustOpen(t, Config{Path: diskPath, Disk: d})
	for _, w := range refused[:2] {
		if _, err := l.Get(t.Context(), w.Insert.ID); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("a refused write is there: %v", err)
		}
		if _, err := l.Holder(t.Context(), w.ClaimKey); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("a refused claim is there: %v", err)
		}
	}
	for _, w := range []*ledger.Write{before, after} {
		if rec, err := l.Get(t.Context(), w.Insert.ID); err != nil || rec.Version != 1 {
			t.Errorf("an acknowledged write is gone: %v, %v", rec, err)
		}
	}
	lawful(t, Config{Path: diskPath, Disk: d})
}

// TestFaultSyncEIO is run B of BR-078: a sync fails, is never retried on the same handle, and nothing of the batch
// comes back.
func TestFaultSyncEIO(t *testing.T) { testFault(t, faultdisk.Sync, syscall.EIO) }

// TestFaultDiskFull is run C of BR-078.
func TestFaultDiskFull(t *testing.T) { testFault(t, faultdisk.Write, syscall.ENOSPC) }

// TestFaultWriteEIO: the write itself fails.
func TestFaultWriteEIO(t *testing.T) { testFault(t, faultdisk.Write, syscall.EIO) }

// TestFaultOneSync fails one sync of many at random, with the crowd at work, and loses nothing that was told. The
// disk forgets what that sync should have written: a retry would acknowledge it. It kills the mutant retry-sync.
func TestFaultOneSync(t *testing.T) {
	for seed := range uint64(share(8, 100)) {
		d := freshDisk(t)
		cfg := Config{Path: diskPath, Disk: d}
		if seed%2 == 0 {
			cfg.CheckpointPages = 40 // else only the log holds what was told
		}
		l := mustOpen(t, cfg)
		rng := rand.New(rand.NewPCG(seed, 3))
		var left atomic.Int64
		left.Store(int64(2 + rng.IntN(20)))
		anyFile := seed%4 == 0 // else the log's alone: it is what acknowledges
		d.SetFault(func(op faultdisk.Op) error {
			if op.Kind == faultdisk.Sync && (anyFile || op.File == walName) && left.Add(-1) == 0 {
				return syscall.EIO
			}
			return nil
		})
		w := newWitness()
		var callers sync.WaitGroup
		for i := range 4 {
			callers.Go(func() { _ = live(l, w, i, 15) })
		}
		callers.Wait()
		recovered(t, l)
		d.Cut(rng)
		_ = l.Close()
		d.Boot()
		l = mustOpen(t, cfg)
		if lost := w.check(t, l); lost > 0 {
			t.Errorf("seed %d: %d of %d acknowledged intents were lost", seed, lost, len(w.told))
		}
		_ = l.Close()
		lawful(t, cfg)
	}
}

// TestFaultSlowSync is run A of BR-078: nobody is told before the sync has returned.
func TestFaultSlowSync(t *testing.T) {
	d := freshDisk(t)
	l := mustOpen(t, Config{Path: diskPath, Disk: d})
	reached, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.SetFault(func(op faultdisk.Op) error {
		if op.Kind == faultdisk.Sync && op.File == walName {
			once.Do(func() { close(reached); <-release })
		}
		return nil
	})
	w := dispatchedWrite(l, "slow")
	done := l.Enqueue(w)
	<-reached
	select {
	case <-done:
		t.Error("told before the sync returned")
	default:
	}
	if _, err := l.Get(t.Context(), w.Insert.ID); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("visible before the sync returned: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ledger.Commit(ctx, l, dispatchedWrite(l, "behind")); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting behind a slow sync: %v, want the context's end", err)
	}
	close(release)
	if <-done; w.Err != nil {
		t.Error(w.Err)
	}
}

// TestQueueIsBounded: beyond the bound a write is refused at once, and taken again when there is room.
func TestQueueIsBounded(t *testing.T) {
	d := freshDisk(t)
	l := mustOpen(t, Config{Path: diskPath, Disk: d, QueueBytes: 64 << 10})
	reached, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.SetFault(func(op faultdisk.Op) error {
		if op.Kind == faultdisk.Sync && op.File == walName {
			once.Do(func() { close(reached); <-release })
		}
		return nil
	})
	first := dispatchedWrite(l, "first")
	done := []<-chan struct{}{l.Enqueue(first)}
	<-reached
	var writes []*ledger.Write
	for {
		w := dispatchedWrite(l, "k"+benchID())
		ch := l.Enqueue(w)
		select {
		case <-ch:
			if !errors.Is(w.Err, ledger.ErrUnavailable) || !strings.Contains(w.Err.Error(), "wait for the disk") {
				t.Errorf("beyond the bound: %v", w.Err)
			}
			if len(writes) < 10 || len(writes) > 64 {
				t.Errorf("%d writes fitted into 64 KiB", len(writes))
			}
			close(release)
			for _, ch := range done {
				<-ch
			}
			for _, w := range writes {
				if w.Err != nil {
					t.Errorf("a queued write: %v", w.Err)
				}
			}
			big := dispatchedWrite(l, "big")
			big.Bodies = []ledger.Body{{Kind: ledger.BodyRequest, Data: randomBytes(200 << 10)}}
			if <-l.Enqueue(big); big.Err != nil {
				t.Errorf("a write larger than the bound, alone: %v", big.Err)
			}
			return
		default:
			writes, done = append(writes, w), append(done, ch)
		}
	}
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// TestTornLog is BR-076: the log is cut in the middle of a record, and in its head; the store starts, writes on,
// and what it acknowledged afterwards is there after the next crash.
func TestTornLog(t *testing.T) {
	for name, tear := range map[string]func([]byte) []byte{
		"in the last record":       func(b []byte) []byte { return b[:len(b)-2000] },
		"in its frame's head":      func(b []byte) []byte { return b[:len(b)-frame+10] },
		"garbage after the record": func(b []byte) []byte { return append(b[:len(b)-100], randomBytes(5000)...) },
	} {
		t.Run(name, func(t *testing.T) {
			d := freshDisk(t)
			cfg := Config{Path: diskPath, Disk: d}
			l := mustOpen(t, cfg)
			a, b := dispatchedWrite(l, "A"), dispatchedWrite(l, "B")
			for _, w := range []*ledger.Write{a, b} {
				if <-l.Enqueue(w); w.Err != nil {
					t.Fatal(w.Err)
				}
			}
			torn := tear(d.Content(diskPath + "-wal")[:l.files.walEnd.Load()]) // not of the zeros ahead of it
			crash(t, d, l)
			d.Corrupt(diskPath+"-wal", func([]byte) []byte { return torn })

			l = mustOpen(t, cfg)
			if l.TornBytes() == 0 {
				t.Error("the torn bytes are not counted")
			}
			if _, err := l.Get(t.Context(), a.Insert.ID); err != nil {
				t.Errorf("A, before the tear: %v", err)
			}
			if _, err := l.Get(t.Context(), b.Insert.ID); !errors.Is(err, ledger.ErrNotFound) {
				t.Errorf("torn B: %v, want it gone", err)
			}
			w := newWitness()
			if err := live(l, w, 0, 2); err != nil { // C and D, settled
				t.Fatal(err)
			}
			crash(t, d, l)

			l = mustOpen(t, cfg)
			if lost := w.check(t, l); lost > 0 {
				t.Errorf("%d of the intents acknowledged after the tear are gone", lost)
			}
			if _, err := l.Get(t.Context(), a.Insert.ID); err != nil {
				t.Errorf("A, after the second crash: %v", err)
			}
			again := dispatchedWrite(l, "key-0-0-x")
			for _, told := range w.told {
				again.ClaimKey, again.Insert.Key = told.key, told.key
			}
			if <-l.Enqueue(again); !errors.Is(again.Err, ledger.ErrClaimed) {
				t.Errorf("C's key again: %v, want ErrClaimed", again.Err)
			}
			if n := l.TornBytes(); n != 0 {
				t.Errorf("%d torn bytes are counted where nothing was torn", n)
			}
			_ = l.Close()
			lawful(t, cfg)
		})
	}
}

// crash ends a ledger as kill -9 does: what it wrote stays, the rest of it is gone.
func crash(t *testing.T, d *faultdisk.Disk, l *Ledger) {
	t.Helper()
	d.Kill()
	_ = l.Close()
	d.Boot()
}
