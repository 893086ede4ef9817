package simulation

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
	"github.com/holdfast-ai/holdfast/ledger/sqlite/faultdisk"
)

func itoa(n int) string { return strconv.Itoa(n) }

// newWorld makes what histories share: a store that is new and empty, and the policies.
func newWorld(t *testing.T, verbose bool) *world {
	t.Helper()
	w := &world{policies: map[int]*policy.Config{}, dir: memoryDir(t), verbose: verbose}
	for _, workers := range []int{1000, 10, 5} {
		cfg, err := configure(workers)
		if err != nil {
			t.Fatal(err)
		}
		w.policies[workers] = cfg
	}
	w.disk = faultdisk.New(w.dir)
	// The bubble's clock begins with the year 2000; a store must not come from its future.
	l, err := sqlite.Open(context.Background(), sqlite.Config{Path: storePath, Env: "sim", Disk: w.disk,
		Wall: func() time.Time { return time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return w
}

// memoryDir is a folder for SQLite's shared memory, in memory where the system has such a place.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "simulation")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (h *history) name() string { return fmt.Sprintf("%d-%p", h.plan.Seed, h) }

// play lives through one history and returns what was wrong with it.
func (w *world) play(t *testing.T, p *plan) (wrong []string, log string) {
	dir := filepath.Join(w.dir, strconv.FormatInt(w.dirs.Add(1), 10))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	h := &history{world: w, plan: p, disk: w.disk.Clone(dir)}
	func() {
		defer func() {
			if r := recover(); r != nil { // goroutines that nobody waits for
				h.wrong = append(h.wrong, fmt.Sprintf("%v\n%s", r, debug.Stack()))
			}
		}()
		synctest.Test(t, func(*testing.T) { h.live() })
	}()
	return h.wrong, h.log.String()
}

// seeds is how many histories are lived through by default.
const seeds = 2000

// TestHistories lives through HOLDFAST_SEEDS histories (default 2000), from HOLDFAST_FIRST (default 1) on, or through
// HOLDFAST_SEED alone and tells all of it. A history that breaks an invariant is printed with what it takes to
// break it.
func TestHistories(t *testing.T) {
	if v := os.Getenv("HOLDFAST_SEED"); v != "" {
		seed, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, true)
		p := newPlan(seed).without(strings.Fields(os.Getenv("HOLDFAST_WITHOUT")))
		wrong, log := w.play(t, p)
		t.Logf("%v\n%s", p, log)
		for _, s := range wrong {
			t.Error(s)
		}
		return
	}
	w := newWorld(t, false)
	first, count := number("HOLDFAST_FIRST", 1), number("HOLDFAST_SEEDS", seeds)
	began := time.Now()
	failed := w.many(t, uint64(first), count, number("HOLDFAST_FAILURES", 5))
	t.Logf("%d histories, %d broken, %.1f a second", count, failed, float64(count)/time.Since(began).Seconds())
}

// few is how many histories a broken program has to show itself in.
const few = 400

// TestMutantShows lives through a few histories until one breaks. It is for programs that are broken on purpose:
// test/mutants says which of them cannot hide here.
func TestMutantShows(t *testing.T) {
	if !mutant.Built {
		t.Skip("TestHistories lives through these histories and more")
	}
	newWorld(t, false).many(t, 1, number("HOLDFAST_SEEDS", few), 1)
}

func number(name string, value int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return value
}

// many lives through count histories, as many at once as there are processors, and gives up after enough broken ones.
func (w *world) many(t *testing.T, first uint64, count, enough int) int {
	var next, failed atomic.Int64
	var all sync.WaitGroup
	for range number("HOLDFAST_PARALLEL", 2) {
		all.Go(func() {
			for n := next.Add(1) - 1; n < int64(count) && failed.Load() < int64(enough); n = next.Add(1) - 1 {
				p := newPlan(first + uint64(n))
				if wrong, _ := w.play(t, p); len(wrong) > 0 {
					failed.Add(1)
					w.report(t, p, wrong)
				}
			}
		})
	}
	all.Wait()
	return int(failed.Load())
}

// report prints a broken history, made as small as it gets, and keeps it. Of a program that is broken on purpose it is
// kept only where HOLDFAST_KEEP gives it a name.
func (w *world) report(t *testing.T, p *plan, wrong []string) {
	name := os.Getenv("HOLDFAST_KEEP")
	if mutant.Built && name == "" {
		t.Errorf("seed %d: %s", p.Seed, wrong[0])
		return
	}
	parts, often := w.shrink(t, p)
	small := p.without(parts)
	if name == "" {
		name = itoa(int(p.Seed))
	}
	small.Why = wrong[0][:min(len(wrong[0]), 200)]
	path, err := small.keep(name)
	if err != nil {
		t.Errorf("the history is not kept: %v", err)
	}
	t.Errorf("seed %d (again in %d of %d tries; HOLDFAST_SEED=%d HOLDFAST_WITHOUT=%q; kept as %s):\n%s\n%v", p.Seed, often, tries, p.Seed,
		strings.Join(parts, " "), path, strings.Join(wrong, "\n"), small)
}
