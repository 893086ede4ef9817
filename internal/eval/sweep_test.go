package eval

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-ai/holdfast/cache"
)

// angles is an embedder whose vectors have given angles, so that cosines are known.
type angles struct {
	of    map[string]float64 // degrees
	asked atomic.Int64
}

func (a *angles) Space() string { return "angles 1" }

func (a *angles) Embed(_ context.Context, text string) ([]float32, error) {
	a.asked.Add(1)
	at, ok := a.of[text]
	if !ok {
		return nil, errors.New("no such angle")
	}
	return []float32{float32(math.Cos(at * math.Pi / 180)), float32(math.Sin(at * math.Pi / 180))}, nil
}

func TestSweep(t *testing.T) {
	e := &angles{of: map[string]float64{"Enable 2FA": 0, "enable 2FA": 5, "disable 2FA": 8, "Hello": 60, "turn on two-factor": 12, "Please enable 2FA": 20}}
	pairs := []Pair{
		{1, "Enable 2FA", "enable 2FA", true},         // 0.996, guard equal
		{2, "Enable 2FA", "disable 2FA", false},       // 0.990, guard differs
		{3, "Enable 2FA", "turn on two-factor", true}, // 0.978, guard differs
		{4, "Enable 2FA", "Please enable 2FA", false}, // 0.940, guard equal: somebody says that they differ
		{5, "Hello", "Enable 2FA", false},             // 0.5
	}
	s, err := NewSweep(t.Context(), "pairs", pairs, e, Thresholds{0.9, 1, 0.01})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Rows) != 11 || s.Rows[0].Threshold != 0.9 || s.Rows[10].Threshold != 1 || s.Rows[3].Threshold != 0.93 {
		t.Fatalf("rows %+v", s.Rows)
	}
	if n := e.asked.Load(); n != 6 {
		t.Errorf("%d vectors of 6 texts", n)
	}
	type want struct{ hits, right, wrong int }
	for at, w := range map[int][2]want{0: {{2, 1, 1}, {4, 2, 2}}, 4: {{2, 1, 1}, {4, 2, 2}}, 5: {{1, 1, 0}, {3, 2, 1}}, 8: {{1, 1, 0}, {2, 1, 1}}, 10: {{0, 0, 0}, {0, 0, 0}}} {
		row := s.Rows[at]
		for i, c := range []Counts{row.Guarded, row.Bare} {
			if got := (want{c.Hits, c.Right, c.Wrong}); got != w[i] {
				t.Errorf("at %g (%d): %+v, want %+v", row.Threshold, i, got, w[i])
			}
		}
	}
	if p := s.Rows[5].Bare; *p.Precision != 2.0/3 || *p.Recall != 1 || p.HitShare != 0.6 {
		t.Errorf("shares are %g %g %g", *p.Precision, *p.Recall, p.HitShare)
	}
	if s.Rows[10].Guarded.Precision != nil {
		t.Error("no hit has a precision")
	}
	if s.Lowest == nil || *s.Lowest != 0.95 || *s.Highest != 0.99 || s.LowestBare != nil || s.Enough {
		t.Errorf("recommended are %v, %v, %v, enough %v", *s.Lowest, *s.Highest, s.LowestBare, s.Enough)
	}
	if len(s.Wrong) != 1 || s.Wrong[0].Line != 4 || len(s.Guarded) != 1 || s.Guarded[0].Line != 2 || len(s.Missed) != 1 || s.Missed[0].Line != 3 {
		t.Errorf("wrong %+v, guarded %+v, missed %+v", s.Wrong, s.Guarded, s.Missed)
	}
}

func TestSweepsThatCannotBe(t *testing.T) {
	e := &angles{of: map[string]float64{"a": 0, "b": 1}}
	pair := []Pair{{7, "a", "b", false}}
	for _, bad := range []Thresholds{{0.9, 0.8, 0.01}, {-0.1, 1, 0.1}, {0, 1.1, 0.1}, {0, 1, 0}, {0, 1, 0.0001}, {math.NaN(), 1, 0.1}, {0, 1, math.Inf(1)}} {
		if _, err := NewSweep(t.Context(), "pairs", pair, e, bad); !errors.Is(err, ErrThresholds) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	_, err := NewSweep(t.Context(), "pairs", []Pair{{7, "a", "c", false}}, e, Thresholds{0.9, 1, 0.1})
	if err == nil || err.Error() != "pairs:7: embedder angles 1: no such angle" {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewSweep(ctx, "pairs", pair, e, Thresholds{0.9, 1, 0.1}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	zero := &angles{of: map[string]float64{"a": math.NaN(), "b": 1}}
	if _, err := NewSweep(t.Context(), "pairs", pair, zero, Thresholds{0.9, 1, 0.1}); !errors.Is(err, cache.ErrVector) {
		t.Errorf("a vector without a direction: %v", err)
	}
	s, err := NewSweep(t.Context(), "pairs", []Pair{{1, "a", "A", false}}, &angles{of: map[string]float64{"a": 0, "A": 0}}, Thresholds{0.5, 1, 0.1})
	if err != nil || s.Lowest != nil || s.Rows[0].Guarded.Recall != nil {
		t.Errorf("a pair that is never told apart: %+v, %v", s, err)
	}
}

func TestHowManyPairsTell(t *testing.T) {
	for n, want := range map[int]float64{0: 1, 1: 0.95, 100: 0.0295, 300: 0.0099} {
		if got := noneOf(n); math.Abs(got-want) > 0.0001 {
			t.Errorf("%d: %g, want %g", n, got, want)
		}
	}
}

func TestPairs(t *testing.T) {
	own, err := BuiltInPairs()
	if err != nil {
		t.Fatal(err)
	}
	same := 0
	for _, p := range own {
		if p.Same {
			same++
		}
	}
	if other := len(own) - same; same < EnoughSame || other < EnoughOther {
		t.Errorf("%d that ask the same and %d that do not are too few to tell", same, other)
	}
	_, err = ReadPairs("pairs", strings.NewReader(`{"a":"x","b":"y","same":true}
{"a":"x","b":"y"}
{"a":"x","same":true}
{"a":"","b":"y","same":true}
{"a":"x","b":"y","same":"yes"}
{"a":"x","b":"y","same":true,"c":1}`))
	var bad *LinesError
	if !errors.As(err, &bad) || len(bad.Faults) != 5 || !strings.HasPrefix(bad.Faults[0], "pairs:2: ") {
		t.Errorf("%v", err)
	}
}
