package route

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
)

func TestFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		table := New(Config{Logger: slog.New(slog.NewTextHandler(&out, nil))})
		defer table.Close()
		known := table.Get("openai/gpt/chat/1", breaker.Config{}, 0)
		if known.Fault() != nil {
			t.Fatal("a fault although none was injected")
		}
		n, err := table.Inject("openai/*", Fault{Probability: 0.25, Status: 503, Until: time.Now().Add(150 * time.Second)})
		if n != 1 || err != nil {
			t.Fatal(n, err)
		}
		unseen := table.Get("openai/o9/chat/1", breaker.Config{}, 0)
		other := table.Get("google/gemini/chat/1", breaker.Config{}, 0)
		hits := 0
		for range 4000 {
			if f := unseen.Fault(); f != nil {
				hits++
				if f.Status != 503 {
					t.Fatalf("met %+v", f)
				}
			}
			if other.Fault() != nil {
				t.Fatal("a route that does not match has it")
			}
		}
		if hits < 800 || hits > 1200 {
			t.Errorf("%d of 4000 at a probability of 0.25", hits)
		}
		if f := table.List()[2].Fault; f == nil || f.Hits != int64(hits) || f.Pattern != "openai/*" || len(table.Faults()) != 1 {
			t.Errorf("listed as %+v, %+v", f, table.Faults())
		}
		time.Sleep(150 * time.Second)
		synctest.Wait()
		if known.Fault() != nil || len(table.Faults()) != 0 || table.List()[2].Fault != nil {
			t.Error("on beyond its time")
		}
		for text, want := range map[string]int{"INJECTION IS ON": 1, "injection is on": 2, "has ended": 1, "level=WARN": 4} {
			if got := strings.Count(out.String(), text); got != want {
				t.Errorf("%q stands %d times in the log, want %d:\n%s", text, got, want, out.String())
			}
		}
	})
}

func TestFaultsReplaceAndHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := New(Config{})
		defer table.Close()
		r := table.Get("openai/gpt/chat/1", breaker.Config{}, 0)
		inject := func(pattern string, status int) {
			must(t)(table.Inject(pattern, Fault{Probability: 1, Status: status, Until: time.Now().Add(time.Hour)}))
			synctest.Wait()
		}
		is := func(want int) {
			t.Helper()
			got := 0
			if f := r.Fault(); f != nil {
				got = f.Status
			}
			if got != want {
				t.Errorf("fault %d, want %d", got, want)
			}
		}
		inject("*", 500)
		is(500)
		inject("openai/*", 503)
		is(503)
		inject("openai/*", 529)
		is(529)
		if n, err := table.Heal("openai/*"); n != 1 || err != nil {
			t.Error(n, err)
		}
		is(500)
		if n, err := table.Heal("*"); n != 1 || err != nil {
			t.Error(n, err)
		}
		is(0)
		inject("*", 500)
		table.Close()
		is(0)
		if _, err := table.Inject("*", Fault{Probability: 1, Status: 500, Until: time.Now().Add(time.Hour)}); !errors.Is(err, ErrFault) {
			t.Errorf("injected into a table that is closed: %v", err)
		}
	})
}

func TestBadFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := New(Config{})
		defer table.Close()
		good := Fault{Probability: 1, Status: 500, Until: time.Now().Add(time.Hour)}
		for name, change := range map[string]func(*Fault){
			"never":        func(f *Fault) { f.Probability = 0 },
			"NaN":          func(f *Fault) { f.Probability = math.NaN() },
			"too often":    func(f *Fault) { f.Probability = 1.5 },
			"no end":       func(f *Fault) { f.Until = time.Time{} },
			"over already": func(f *Fault) { f.Until = time.Now() },
			"far end":      func(f *Fault) { f.Until = time.Now().Add(25 * time.Hour) },
			"success":      func(f *Fault) { f.Status = 200 },
			"no status":    func(f *Fault) { f.Status = 1000 },
			"nothing":      func(f *Fault) { f.Status = 0 },
			"latency":      func(f *Fault) { f.Latency = time.Hour },
			"negative":     func(f *Fault) { f.Cut = -1 },
			"body":         func(f *Fault) { f.Body = strings.Repeat("x", 1<<17) },
		} {
			f := good
			change(&f)
			if _, err := table.Inject("*", f); !errors.Is(err, ErrFault) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if len(table.Faults()) != 0 {
			t.Error("a bad fault is on")
		}
		if _, err := table.Inject("", good); !errors.Is(err, ErrPattern) {
			t.Errorf("no pattern: %v", err)
		}
	})
}
