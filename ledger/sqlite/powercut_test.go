package sqlite

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-ai/holdfast/ledger/sqlite/faultdisk"
)

const diskPath = "/disk/holdfast.db"

// freshDisk returns a disk with an empty store on it, so that a thousand tests need not each build the schema.
func freshDisk(t testing.TB) *faultdisk.Disk {
	t.Helper()
	d := faultdisk.New(t.TempDir())
	l, err := Open(context.Background(), Config{Path: diskPath, Disk: d})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return d
}

// share is the default of a count that HOLDFAST_FULL=1 raises to full, and a number in HOLDFAST_FULL to itself.
func share(quick, full int) int {
	switch v := os.Getenv("HOLDFAST_FULL"); v {
	case "", "0":
		return quick
	case "1":
		return full
	default:
		if n, err := strconv.Atoi(v); err == nil {
			return n
		}
		return full
	}
}

// TestPowerCuts takes the power away at a random operation of the disk, drops or tears what was not synced, and
// looks whether anything that was acknowledged is gone. It kills the mutants normal-sync and ack-early.
func TestPowerCuts(t *testing.T) {
	base := freshDisk(t)
	shm := t.TempDir()
	var acknowledged, lost int
	for n := range share(200, 2000) {
		a, l := powerCut(t, base.Clone(shm+"/"+mkdir(t, shm, n)), uint64(n))
		acknowledged += a
		lost += l
	}
	t.Logf("%d acknowledged intents, %d lost", acknowledged, lost)
	if lost > 0 {
		t.Errorf("%d of %d acknowledged intents were lost", lost, acknowledged)
	}
	if acknowledged == 0 {
		t.Error("nothing was ever acknowledged: the test shows nothing")
	}
}

func mkdir(t *testing.T, dir string, n int) string {
	name := strconv.Itoa(n)
	if err := os.Mkdir(dir+"/"+name, 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

// powerCut runs one machine until its power goes, and the next one on what the disk kept.
func powerCut(t *testing.T, d *faultdisk.Disk, seed uint64) (acknowledged, lost int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	cfg := Config{Path: diskPath, Disk: d, CheckpointPages: 20 + rng.IntN(60)}
	w := newWitness()
	for range 1 + rng.IntN(2) { // a second cut hits a log that was recovered once
		cutDuring(t, d, cfg, w, rng)
	}
	d.Boot()
	l, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatalf("seed %d: the store does not open after the cut: %v", seed, err)
	}
	lost = w.check(t, l)
	if err := l.Close(); err != nil {
		t.Errorf("seed %d: Close: %v", seed, err)
	}
	lawful(t, cfg)
	if t.Failed() {
		t.Fatalf("seed %d", seed)
	}
	return len(w.told), lost
}

// cutDuring boots, lets four callers live, and cuts at a random write or sync.
func cutDuring(t *testing.T, d *faultdisk.Disk, cfg Config, w *witness, rng *rand.Rand) {
	d.Boot()
	l, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	var left atomic.Int64
	left.Store(int64(5 + rng.IntN(120)))
	cut := rand.New(rand.NewPCG(rng.Uint64(), 2))
	d.SetFault(func(op faultdisk.Op) error {
		if op.Kind == faultdisk.Read || left.Add(-1) != 0 {
			return nil
		}
		d.Cut(cut)
		return errors.New("power cut")
	})
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() { _ = live(l, w, i, 60) })
	}
	callers.Wait()
	d.Cut(cut)
	_ = l.Close() // the dead machine's handles; what it says is of no interest
}
