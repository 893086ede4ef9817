package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// appendSize is the record of the reference row: 512 bytes appended and synced.
const appendSize = 512

// manyCallers is how many callers the target for whole intents speaks of.
const manyCallers = 256

// store measures the ledger beside raw synced appends to the same disk.
func (r *run) store(ctx context.Context) (err error) {
	r.report.titles[Store] = "the log by itself, beside 512 B appended and synced by one caller"
	dir := filepath.Join(r.dir, "store")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	raw, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, raw.Close()) }()
	l, err := r.cfg.OpenLedger(filepath.Join(dir, "empty.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	w := &writer{l: l}
	rawRate, err := r.oneCaller(ctx, raw, w)
	if err != nil || !r.wants(Store) {
		return err // the others' targets need no more than the commit
	}
	for _, callers := range []int{16, manyCallers} {
		if err := r.wholeIntents(ctx, w, callers, rawRate); err != nil {
			return err
		}
	}
	return r.history(ctx, dir, w)
}

// oneCaller commits one intent after the other, its rounds between those of the raw append, whose rate it returns.
func (r *run) oneCaller(ctx context.Context, raw *os.File, w *writer) (float64, error) {
	r.progress("%s: one caller beside raw appends", Store)
	rec := make([]byte, appendSize)
	var appends, commits timing
	for range r.rounds {
		err := appends.round(ctx, r.slice, func() error {
			if _, err := raw.Write(rec); err != nil {
				return err
			}
			return datasync(raw)
		})
		if err != nil {
			return 0, err
		}
		if err := commits.round(ctx, r.slice, func() error { return w.commit(ctx, w.claim()) }); err != nil {
			return 0, err
		}
	}
	f := Figure{Part: Store, Name: "commit p50, one caller", Unit: "µs", ReferenceName: "raw", Direct: Value(unknown),
		Reference: micros(median(appends.p50)), Holdfast: micros(median(commits.p50)), Ratio: Value(pairwise(commits.p50, appends.p50, quotient))}
	r.report.add(f.atMost(f.Ratio, commitRaw, "≤ 1.50"))
	r.commit = time.Duration(median(commits.p50))
	rate := median(appends.rate)
	r.report.add(Figure{Part: Store, Name: "commits/s, one caller", Unit: "/s", ReferenceName: "raw", Direct: Value(unknown),
		Reference: Value(rate), Holdfast: Value(median(commits.rate)), Ratio: Value(pairwise(commits.rate, appends.rate, quotient))})
	return rate, nil
}

// timing has one value per round.
type timing struct{ p50, rate []float64 }

func (t *timing) round(ctx context.Context, d time.Duration, f func() error) error {
	h := histogram()
	begin := time.Now()
	for at := begin; at.Sub(begin) < d; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
		now := time.Now()
		_ = h.RecordValue(int64(now.Sub(at))) // a longer wait than the histogram's minute is a broken disk
		at = now
	}
	t.p50 = append(t.p50, float64(h.ValueAtPercentile(50)))
	t.rate = append(t.rate, float64(h.TotalCount())/time.Since(begin).Seconds())
	return nil
}

// wholeIntents measures claim, dispatch and settle by many callers.
func (r *run) wholeIntents(ctx context.Context, w *writer, callers int, rawRate float64) error {
	r.progress("%s: whole intents, %d callers", Store, callers)
	var rates []float64
	var n int64
	var cpu time.Duration
	for range r.rounds {
		before := ownCPU()
		count, rate, err := w.intents(ctx, callers, r.slice)
		if err != nil {
			return err
		}
		cpu += ownCPU() - before
		n += count
		rates = append(rates, rate)
	}
	f := Figure{Part: Store, Name: fmt.Sprintf("whole intents/s, %d callers", callers), Unit: "/s", ReferenceName: "raw", Direct: Value(unknown),
		Reference: Value(rawRate), Holdfast: Value(median(rates))}
	if callers == manyCallers {
		f = f.atLeast(f.Holdfast, intentsPerSec, "≥ 30,000/s")
	}
	r.report.add(f)
	used := Value(unknown)
	if cpu > 0 {
		used = micros(float64(cpu) / float64(n))
	}
	r.report.add(Figure{Part: Store, Name: fmt.Sprintf("CPU per intent, %d callers", callers), Unit: "µs", Direct: Value(unknown),
		Reference: Value(unknown), Holdfast: used})
	return nil
}

// intents has callers claim and settle for d; nobody waits for the settling, as with durability: relaxed.
func (w *writer) intents(ctx context.Context, callers int, d time.Duration) (n int64, rate float64, err error) {
	var total atomic.Int64
	begin := time.Now()
	err = parallel(callers, func(int) error {
		for time.Since(begin) < d {
			claim := w.claim()
			if err := w.commit(ctx, claim); err != nil {
				return err
			}
			w.l.Enqueue(w.settle(claim))
			total.Add(1)
		}
		return nil
	})
	return total.Load(), float64(total.Load()) / time.Since(begin).Seconds(), err
}

// history measures a store with many settled intents beside the empty one.
func (r *run) history(ctx context.Context, dir string, empty *writer) (err error) {
	r.progress("%s: %d settled intents are written", Store, r.cfg.History)
	l, err := r.cfg.OpenLedger(filepath.Join(dir, "full.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	full := &writer{l: l}
	if err := full.fill(ctx, r.cfg.History); err != nil {
		return err
	}
	r.progress("%s: whole intents beside history", Store)
	var rates, references []float64
	for range r.rounds {
		for _, side := range []struct {
			w  *writer
			to *[]float64
		}{{empty, &references}, {full, &rates}} {
			_, rate, err := side.w.intents(ctx, manyCallers, r.slice)
			if err != nil {
				return err
			}
			*side.to = append(*side.to, rate)
		}
	}
	of := fmt.Sprintf("%d settled", r.cfg.History)
	f := Figure{Part: Store, Name: "whole intents/s beside " + of, Unit: "/s", ReferenceName: "empty file", Direct: Value(unknown),
		Reference: Value(median(references)), Holdfast: Value(median(rates)), Ratio: Value(pairwise(rates, references, quotient))}
	r.report.add(f.atLeast(f.Ratio, historyRate, "≥ 0.80"))
	return r.listings(ctx, full, of)
}

// needAttention is how many intents each of the listings finds.
const needAttention = 100

// listings measures the questions of an operator and of recovery among many settled intents.
func (r *run) listings(ctx context.Context, w *writer, of string) error {
	for i := range 2 * needAttention {
		c := w.claim()
		c.Status.State, c.Status.LeaseOwner, c.Status.ExpiresAt = ledger.Unknown, "", time.Time{}
		if i%2 == 0 {
			c.Status.State, c.Status.ExpiresAt = ledger.Dispatched, w.l.Now().Add(-time.Second)
		}
		if err := w.commit(ctx, c); err != nil {
			return err
		}
	}
	for _, q := range []struct {
		name string
		ask  func() ([]*ledger.Record, error)
	}{
		{"unknown", func() ([]*ledger.Record, error) {
			return w.l.List(ctx, ledger.Filter{States: []ledger.State{ledger.Unknown}, Limit: needAttention})
		}},
		{"due", func() ([]*ledger.Record, error) { return w.l.Due(ctx, w.l.Now(), needAttention) }},
	} {
		var t timing
		err := t.round(ctx, r.slice, func() error {
			found, err := q.ask()
			if err == nil && len(found) != needAttention {
				err = fmt.Errorf("%d intents were found, not %d", len(found), needAttention)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("list what is %s: %w", q.name, err)
		}
		f := Figure{Part: Store, Name: fmt.Sprintf("listing %d %s beside %s", needAttention, q.name, of), Unit: "µs", Direct: Value(unknown),
			Reference: Value(unknown), Holdfast: micros(median(t.p50))}
		r.report.add(f.atMost(f.Holdfast, float64(listing)/1e3, "≤ 1,000 µs"))
	}
	return nil
}

// fill writes n settled intents.
func (w *writer) fill(ctx context.Context, n int) error {
	const callers = 64
	return parallel(callers, func(first int) error {
		for k := first; k < n; k += callers {
			claim := w.claim()
			claim.Relaxed = true
			w.l.Enqueue(claim)
			if err := w.commit(ctx, w.settle(claim)); err != nil {
				return err
			}
		}
		return nil
	})
}
