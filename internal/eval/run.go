package eval

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/spend"
)

// Progress is how far a run is. It is safe to ask at any time.
type Progress struct {
	Done, Failed, Calls int
	Spent               spend.Amount
}

// Run is one run of a plan.
type Run struct {
	plan    *Plan
	started time.Time

	mu      sync.Mutex
	room    *sync.Cond
	results []*Result // nil: not made
	done    int
	failed  int
	spent   spend.Amount // of answers; what they may have cost, where they do not say
	open    spend.Amount // what calls on their way may cost
	refused bool         // a call found no room under MaxCost
	ended   error
}

// NewRun prepares a run. Nothing is sent yet.
func NewRun(p *Plan) *Run {
	r := &Run{plan: p, results: make([]*Result, p.Calls())}
	r.room = sync.NewCond(&r.mu)
	return r
}

// Progress says how far it is.
func (r *Run) Progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Progress{Done: r.done, Failed: r.failed, Calls: len(r.results), Spent: r.spent}
}

// Do sends each request through each tier until all are answered, ctx ends, or MaxCost leaves no room. Its error is one of the
// run's own: what became of the calls is in Report.
func (r *Run) Do(ctx context.Context, logger *slog.Logger) error {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	rig, err := newRig(ctx, r.plan.alone, logger)
	if err != nil {
		return err
	}
	r.started = time.Now()
	wake := context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.room.Broadcast()
	})
	defer wake()
	var all sync.WaitGroup
	for tier := range r.plan.Tiers {
		next := make(chan int)
		for range r.plan.workers(&r.plan.Tiers[tier]) {
			all.Go(func() {
				for at := range next {
					r.one(ctx, rig, at)
				}
			})
		}
		all.Go(func() {
			defer close(next)
			r.feed(ctx, tier, next)
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		r.ended = ctx.Err()
	}
	return rig.close()
}

// workers is how many calls a tier gets at once: no more than production allows it.
func (p *Plan) workers(t *Tier) int {
	if t.concurrent > 0 {
		return min(p.Concurrency, t.concurrent)
	}
	return p.Concurrency
}

// feed hands out the places of a tier's calls in the results: lines, then tiers, then runs.
func (r *Run) feed(ctx context.Context, tier int, next chan<- int) {
	p := r.plan
	for line := range p.Requests {
		for run := range p.Repeat {
			select {
			case next <- (line*len(p.Tiers)+tier)*p.Repeat + run:
			case <-ctx.Done():
				return
			}
		}
	}
}

// one makes the call of a place in the results.
func (r *Run) one(ctx context.Context, rig *rig, at int) {
	p := r.plan
	run, rest := at%p.Repeat, at/p.Repeat
	t, q := &p.Tiers[rest%len(p.Tiers)], &p.Requests[rest/len(p.Tiers)]
	cost, _ := p.mayCost(t, q)
	if !r.begin(ctx, cost) {
		return
	}
	out, err := rig.call(ctx, p, t, q)
	out.Run = run + 1
	if err != nil {
		r.end(at, nil, cost, cost)
		return
	}
	r.end(at, &out, cost, paid(&out, rig.doubtful(ctx, &out), cost))
}

// paid is what a call counts: what its answer says it used, or the estimate where it does not say, and the estimate for each of its
// attempts besides that may have been billed.
func paid(out *Result, doubtful int, estimate spend.Amount) spend.Amount {
	cost := estimate * spend.Amount(doubtful)
	switch {
	case out.OK && out.CostUSD != nil:
		return cost + spend.USD(*out.CostUSD)
	case out.OK:
		return cost + estimate
	}
	return cost
}

// begin takes what a call may cost out of MaxCost, and waits for calls on their way where only their ends can make room.
func (r *Run) begin(ctx context.Context, cost spend.Amount) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for limit := r.plan.MaxCost; limit > 0 && ctx.Err() == nil && r.spent+r.open+cost > limit; {
		if r.open == 0 {
			r.refused = true
			return false
		}
		r.room.Wait()
	}
	if ctx.Err() != nil || r.refused { // the run is over for cheaper calls too: what was left out is the set's end
		return false
	}
	r.open += cost
	return true
}

// end notes a call's result; nil where it was given up.
func (r *Run) end(at int, out *Result, reserved, paid spend.Amount) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open -= reserved
	r.spent += paid
	r.room.Broadcast()
	if out == nil {
		return
	}
	r.results[at] = out
	r.done++
	if !out.OK {
		r.failed++
	}
}

// Report is what there is, also of a run that was ended early. It is called after Do.
func (r *Run) Report(file string) *Report {
	p := r.plan
	out := &Report{File: file, Workflow: p.Workflow, Revision: p.config.Revision, Started: r.started.UTC(), Lines: len(p.Requests), Repeat: p.Repeat,
		Calls: len(r.results), Made: r.done, Prices: policy.PricesAsOf, Results: []Result{}}
	switch {
	case r.ended != nil && r.done < len(r.results):
		out.Stopped = Interrupted
	case r.refused:
		out.Stopped = MaxCost
	}
	for _, v := range r.results {
		if v != nil {
			out.Results = append(out.Results, *v)
		}
	}
	for i := range p.Tiers {
		out.Tiers = append(out.Tiers, summarize(&p.Tiers[i], out.Results))
	}
	return out
}
