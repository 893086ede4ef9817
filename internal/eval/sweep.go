package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/cache"
)

// Embedder turns a text into a vector. It is safe for concurrent use.
type Embedder interface {
	Embed(ctx context.Context, text string) ([]float32, error)
	// Space names what made a vector.
	Space() string
}

// Thresholds are those that are tried: From, From+Step, … up to To.
type Thresholds struct{ From, To, Step float64 }

// ErrThresholds says that these cannot be tried.
var ErrThresholds = errors.New("thresholds lie between 0 and 1, in at most 1000 steps of at least 0.0001")

const (
	grain    = 10_000 // thresholds are told apart by a ten-thousandth, so that sums of steps are exact
	maxSteps = 1000
)

func (t Thresholds) list() ([]float64, error) {
	from, to, step := math.Round(t.From*grain), math.Round(t.To*grain), math.Round(t.Step*grain)
	if !(from >= 0 && from <= to && to <= grain && step >= 1 && step <= grain) || (to-from)/step >= maxSteps {
		return nil, ErrThresholds
	}
	var all []float64
	for at := from; at <= to; at += step {
		all = append(all, at/grain)
	}
	return all, nil
}

// Counts are what a cache would have answered of the pairs.
type Counts struct {
	Hits  int `json:"hits"`
	Right int `json:"right"`
	Wrong int `json:"wrong"`

	HitShare  float64  `json:"hit_share"`           // of all pairs
	Precision *float64 `json:"precision,omitempty"` // right ones of the hits; nil without a hit
	Recall    *float64 `json:"recall,omitempty"`    // right ones of the pairs that ask the same; nil without such
}

// SweepRow is one threshold.
type SweepRow struct {
	Threshold float64 `json:"threshold"`
	Guarded   Counts  `json:"guarded"` // as the cache answers
	Bare      Counts  `json:"bare"`    // … by similarity alone
}

// Scored is a pair as the cache sees it.
type Scored struct {
	Pair
	Similarity float64 `json:"similarity"`
	Guard      bool    `json:"guard_same"` // its guard takes the two for one question
}

// Sweep is what thresholds do to pairs.
type Sweep struct {
	File     string     `json:"file"`
	Embedder string     `json:"embedder"` // its space
	Pairs    int        `json:"pairs"`
	Same     int        `json:"same"`
	Rows     []SweepRow `json:"thresholds"`

	// Lowest is the lowest threshold with right hits and without a wrong one; nil: there is none.
	Lowest *float64 `json:"lowest_without_wrong,omitempty"`
	// Highest is the highest threshold that finds as much as Lowest does, and so the safer one.
	Highest *float64 `json:"highest_as_good,omitempty"`
	// LowestBare is Lowest by similarity alone.
	LowestBare *float64 `json:"unguarded_lowest_without_wrong,omitempty"`
	// WrongBelow is how many of the pairs that ask something else can be wrong hits at Lowest although none here is, as a share: the
	// upper end of the interval that holds the truth 95 times of 100.
	WrongBelow float64 `json:"wrong_share_below"`
	Enough     bool    `json:"enough"` // pairs to tell

	Wrong   []Scored `json:"wrong"`   // hits with the guard, at the first threshold, of pairs that ask something else
	Guarded []Scored `json:"guarded"` // pairs that only the guard keeps from being wrong hits, there
	Missed  []Scored `json:"missed"`  // pairs that ask the same, and that the guard keeps apart
}

// Pairs enough to tell: fewer that ask something else leave more than 3 of 100 open, fewer that ask the same say little of hits.
const (
	EnoughOther = 100
	EnoughSame  = 30
)

// NewSweep tries thresholds on pairs. Two texts are taken for questions that differ in nothing else: one partition, one hour.
func NewSweep(ctx context.Context, file string, pairs []Pair, e Embedder, t Thresholds) (*Sweep, error) {
	thresholds, err := t.list()
	if err != nil {
		return nil, err
	}
	scored, err := score(ctx, file, pairs, e)
	if err != nil {
		return nil, err
	}
	s := &Sweep{File: file, Embedder: e.Space(), Pairs: len(pairs), Wrong: []Scored{}, Guarded: []Scored{}, Missed: []Scored{}}
	for i := range scored {
		if scored[i].Same {
			s.Same++
		}
		s.list(&scored[i], thresholds[0])
	}
	for _, at := range thresholds {
		s.Rows = append(s.Rows, SweepRow{at, s.count(scored, at, true), s.count(scored, at, false)})
	}
	s.recommend()
	other := len(pairs) - s.Same
	s.Enough = other >= EnoughOther && s.Same >= EnoughSame
	s.WrongBelow = noneOf(other)
	return s, nil
}

// recommend finds the thresholds that are told of; with a higher one there are never more hits.
func (s *Sweep) recommend() {
	right := 0
	for i := range s.Rows {
		row := &s.Rows[i]
		if row.Bare.onlyRight() && s.LowestBare == nil {
			s.LowestBare = &row.Threshold
		}
		if row.Guarded.onlyRight() && s.Lowest == nil {
			s.Lowest, right = &row.Threshold, row.Guarded.Right
		}
		if s.Lowest != nil && row.Guarded.Right == right {
			s.Highest = &row.Threshold
		}
	}
}

// onlyRight reports hits that are all right. What finds nothing is no threshold to take.
func (c *Counts) onlyRight() bool { return c.Right > 0 && c.Wrong == 0 }

// noneOf is the exact upper bound (Clopper-Pearson, 95 % on one side) of a share of which none was seen among n.
func noneOf(n int) float64 {
	if n == 0 {
		return 1
	}
	return 1 - math.Pow(0.05, 1/float64(n))
}

func (s *Sweep) list(p *Scored, lowest float64) {
	switch {
	case p.Same && !p.Guard:
		s.Missed = append(s.Missed, *p)
	case p.Same || p.Similarity < lowest:
	case p.Guard:
		s.Wrong = append(s.Wrong, *p)
	default:
		s.Guarded = append(s.Guarded, *p)
	}
}

func (s *Sweep) count(scored []Scored, threshold float64, guarded bool) (c Counts) {
	for i := range scored {
		p := &scored[i]
		if p.Similarity < threshold || guarded && !p.Guard {
			continue
		}
		c.Hits++
		if p.Same {
			c.Right++
		} else {
			c.Wrong++
		}
	}
	c.HitShare = mean(float64(c.Hits), s.Pairs)
	if c.Hits > 0 {
		precision := float64(c.Right) / float64(c.Hits)
		c.Precision = &precision
	}
	if s.Same > 0 {
		recall := float64(c.Right) / float64(s.Same)
		c.Recall = &recall
	}
	return c
}

// score asks the cache's own parts about each pair.
func score(ctx context.Context, file string, pairs []Pair, e Embedder) ([]Scored, error) {
	vectors, err := embedAll(ctx, file, pairs, e)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	all := make([]Scored, len(pairs))
	for i, p := range pairs {
		entry := cache.Entry{Kind: cache.Semantic, Vector: vectors[p.A]}
		similarity, _ := cache.Confirm(&entry, vectors[p.B], 0) // what it would be refused for is asked at each threshold
		all[i] = Scored{p, similarity, cache.GuardOf(p.A, now) == cache.GuardOf(p.B, now)}
	}
	return all, nil
}

const embedAtOnce = 4

// embedAll makes the vector of each text once. The first error ends it.
func embedAll(ctx context.Context, file string, pairs []Pair, e Embedder) (map[string]cache.Vector, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type job struct {
		text string
		line int
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	vectors, next := map[string]cache.Vector{}, make(chan job)
	for range embedAtOnce {
		all.Go(func() {
			for j := range next {
				v, err := embed(ctx, e, j.text)
				if err != nil {
					cancel(fmt.Errorf("%s:%d: embedder %s: %w", file, j.line, e.Space(), err))
					continue
				}
				mu.Lock()
				vectors[j.text] = v
				mu.Unlock()
			}
		})
	}
	given := map[string]bool{}
	for i := range pairs {
		for _, text := range []string{pairs[i].A, pairs[i].B} {
			if given[text] || ctx.Err() != nil {
				continue
			}
			given[text] = true
			next <- job{text, pairs[i].Line}
		}
	}
	close(next)
	all.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return vectors, nil
}

func embed(ctx context.Context, e Embedder, text string) (cache.Vector, error) {
	v, err := e.Embed(ctx, text)
	if err != nil {
		return cache.Vector{}, err
	}
	return cache.Quantize(v)
}
