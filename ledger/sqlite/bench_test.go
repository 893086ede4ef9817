package sqlite

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

var oldIntents = flag.Int("old", 300_000, "settled intents in the file of the benchmarks with history; the targets speak of 1000000")

// benchIDs makes rising UUIDv7-shaped ids without the cost of real ones.
var benchIDs atomic.Uint64

func benchID() string {
	n := benchIDs.Add(1)
	return fmt.Sprintf("%08x-%04x-7%03x-8000-%012x", n>>28, n>>12&0xffff, n&0xfff, n*0x9e3779b97f4a7c15>>16)
}

var benchBody = bytes.Repeat([]byte(`{"id":"chatcmpl-1","object":"x"}`), 21)[:650]

// benchOwner is the lease of every benchmark's intents.
const benchOwner = "019f0000-0000-7000-8000-000000000001"

const benchRoute = "openai/gpt-5/chat.completions/7f3a"

// benchClaim is what a direct call writes before it is sent.
func benchClaim(l *Ledger) *ledger.Write {
	now, id := l.Now(), benchID()
	key := fmt.Sprintf("idem:production:main:key:%016x%016x", rand.Uint64(), rand.Uint64())
	return &ledger.Write{
		Insert: &ledger.Intent{
			ID: id, Tenant: "main", Workflow: "default", Effect: ledger.EffectGeneration, Key: key, Explicit: true,
			Fingerprint: [32]byte{1}, Method: "POST", Path: "/v1/chat/completions", Provider: "openai",
			Endpoint: "chat.completions", RequestedModel: "gpt-5", MaxAttempts: 3, PolicyRevision: "3f2a9c1b", CreatedAt: now,
		},
		ClaimKey: key,
		Status: ledger.Status{
			Version: 1, State: ledger.Dispatched, Outcome: ledger.OutcomePending, Visibility: ledger.VisBefore, Attempt: 1,
			RouteKey: benchRoute, ServedModel: "gpt-5", Tier: "default", ExpiresAt: now.Add(10 * time.Minute), LeaseOwner: benchOwner, UpdatedAt: now,
		},
		Events: []ledger.Event{
			{At: now, Kind: "transition", To: ledger.Created, Actor: "engine"},
			{At: now, Kind: "transition", From: ledger.Created, To: ledger.Dispatched, Actor: "engine"},
			{At: now, Kind: "attempt", Actor: "engine", Attempt: 1, Route: benchRoute, Tier: "default"},
		},
	}
}

// benchSettle is what it writes after the answer.
func benchSettle(l *Ledger, w *ledger.Write) *ledger.Write {
	now := l.Now()
	s := &ledger.Write{
		ID: w.Insert.ID, Version: 1, Status: w.Status, Settle: true, HeldKey: w.ClaimKey, Relaxed: true,
		Claim: ledger.ClaimKeep, ClaimUntil: now.Add(30 * time.Minute),
		Answer: &ledger.Answer{HTTPStatus: 200, Header: map[string][]string{"Content-Type": {"application/json"}}, Source: "default", HasBody: true},
		Bodies: []ledger.Body{{Kind: ledger.BodyAnswer, ContentType: "application/json", Data: benchBody}},
		Events: []ledger.Event{
			{At: now, Kind: "attempt_end", Actor: "engine", Attempt: 1, End: ledger.AttemptSuccess, Status: 200},
			{At: now, Kind: "transition", From: ledger.Dispatched, To: ledger.Confirmed, Actor: "engine"},
			{At: now, Kind: "transition", From: ledger.Confirmed, To: ledger.Settled, Actor: "engine"},
		},
	}
	s.Status.Version, s.Status.State, s.Status.Outcome = 2, ledger.Settled, ledger.OutcomeSuccess
	s.Status.Visibility, s.Status.UsageIn, s.Status.UsageOut, s.Status.UpdatedAt = ledger.VisComplete, 120, 80, now
	return s
}

// rawAppend is the reference row: 512 bytes appended to a file and synced, by one caller. It returns the median.
func rawAppend(b *testing.B, n int) time.Duration {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	rec, took := make([]byte, 512), make([]time.Duration, n)
	for i := range took {
		begin := time.Now()
		if _, err := f.Write(rec); err != nil {
			b.Fatal(err)
		}
		if err := datasync(f); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	return took[n/2]
}

func BenchmarkRawSyncedAppend(b *testing.B) {
	var p50 time.Duration
	for b.Loop() {
		p50 = rawAppend(b, 1000)
	}
	b.ReportMetric(float64(p50.Microseconds()), "p50-µs")
	b.ReportMetric(float64(time.Second/p50), "appends/s")
}

// BenchmarkOneCaller is one durable commit after the other, beside the raw synced append of the same run.
func BenchmarkOneCaller(b *testing.B) {
	l := mustOpen(b, Config{Path: filepath.Join(b.TempDir(), "holdfast.db")})
	took := []time.Duration{}
	raw := rawAppend(b, 2000)
	for b.Loop() {
		w := benchClaim(l)
		begin := time.Now()
		if <-l.Enqueue(w); w.Err != nil {
			b.Fatal(w.Err)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	p50 := took[len(took)/2]
	raw = (raw + rawAppend(b, 2000)) / 2
	b.ReportMetric(float64(p50.Microseconds()), "p50-µs")
	b.ReportMetric(float64(raw.Microseconds()), "raw-p50-µs")
	b.ReportMetric(float64(p50)/float64(raw), "×raw")
}

// wholeIntents runs callers that each claim, dispatch and, without waiting, settle, and returns intents per second.
func wholeIntents(b *testing.B, l *Ledger, callers int) {
	var left atomic.Int64
	left.Store(int64(b.N))
	cpu := cpuTime()
	b.ResetTimer()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				w := benchClaim(l)
				if <-l.Enqueue(w); w.Err != nil {
					b.Error(w.Err)
					return
				}
				l.Enqueue(benchSettle(l, w))
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "intents/s")
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/intent")
}

func BenchmarkWholeIntents(b *testing.B) {
	for _, callers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("empty/callers=%d", callers), func(b *testing.B) {
			l := mustOpen(b, Config{Path: filepath.Join(b.TempDir(), "holdfast.db")})
			wholeIntents(b, l, callers)
		})
	}
	path := ""
	grow := func() string { // once, and only when one of these is asked for
		if path == "" {
			path = grown(b, *oldIntents)
		}
		return path
	}
	for _, callers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("old=%d/callers=%d", *oldIntents, callers), func(b *testing.B) {
			l, err := Open(context.Background(), Config{Path: grow()})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			wholeIntents(b, l, callers)
		})
	}
}

// grown returns a store with n settled intents, their claims live.
func grown(b *testing.B, n int) string {
	b.Helper()
	dir, err := os.MkdirTemp("", "holdfast-bench")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "holdfast.db")
	l, err := Open(context.Background(), Config{Path: path})
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	const callers, crowd = 4, 256 // of intents that are queued together
	for range callers {
		wg.Go(func() {
			for left := n / callers; left > 0; left -= crowd {
				var last <-chan struct{}
				for range min(left, crowd) {
					w := benchClaim(l)
					w.Relaxed = true
					l.Enqueue(w)
					last = l.Enqueue(benchSettle(l, w))
				}
				<-last
			}
		})
	}
	wg.Wait()
	if recs, err := l.List(context.Background(), ledger.Filter{Unsettled: true}); err != nil || len(recs) > 0 {
		b.Fatalf("%d intents of the history are not settled, %v", len(recs), err)
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// BenchmarkListing is the listing of what needs attention among many settled intents; the target is 1 ms.
func BenchmarkListing(b *testing.B) {
	l := mustOpen(b, Config{Path: grown(b, *oldIntents)})
	ctx := context.Background()
	for range 200 {
		for _, s := range []ledger.State{ledger.Unknown, ledger.Dispatched} {
			w := benchClaim(l)
			w.Status.State, w.Status.ExpiresAt, w.Status.LeaseOwner = s, l.Now().Add(-time.Second), ""
			if <-l.Enqueue(w); w.Err != nil {
				b.Fatal(w.Err)
			}
		}
	}
	for name, list := range map[string]func() ([]*ledger.Record, error){
		"unknown": func() ([]*ledger.Record, error) {
			return l.List(ctx, ledger.Filter{States: []ledger.State{ledger.Unknown}})
		},
		"due":    func() ([]*ledger.Record, error) { return l.Due(ctx, l.Now(), 100) },
		"newest": func() ([]*ledger.Record, error) { return l.List(ctx, ledger.Filter{}) },
	} {
		b.Run(fmt.Sprintf("%s/old=%d", name, *oldIntents), func(b *testing.B) {
			cpu := cpuTime()
			for b.Loop() {
				if recs, err := list(); err != nil || len(recs) != 100 {
					b.Fatal(len(recs), err)
				}
			}
			b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/list")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	l := mustOpen(b, Config{Path: filepath.Join(b.TempDir(), "holdfast.db")})
	w := benchClaim(l)
	<-l.Enqueue(w)
	s := benchSettle(l, w)
	<-l.Enqueue(s)
	ctx := context.Background()
	b.Run("Holder", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.Holder(ctx, w.ClaimKey); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Body", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.Body(ctx, s.ID, ledger.BodyAnswer); err != nil {
				b.Fatal(err)
			}
		}
	})
}
