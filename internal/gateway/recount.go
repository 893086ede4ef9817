package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/spend"
)

// recountSpan is how far back the log is read for what was spent today: a job may have waited so long.
const recountSpan = 48 * time.Hour

// recount reads from the log what workflows have spent today. It comes before any of their calls under a limit; of those
// from before some may be in the book, which therefore is raised and not added to. An error has changed nothing.
func (g *Gateway) recount(ctx context.Context, cfg *policy.Config, workflows []string) error {
	now := g.ledger.Now()
	midnight := now.Truncate(24 * time.Hour)
	counted := spend.New(func() time.Time { return now })
	for _, name := range workflows {
		f := ledger.Filter{Workflow: name, NewerThan: now.Add(-recountSpan), Limit: 1000}
		for {
			page, err := g.ledger.List(ctx, f)
			if err != nil {
				return fmt.Errorf("gateway: read what %s has spent today: %w", name, err)
			}
			for _, r := range page {
				if r.UpdatedAt.Before(midnight) {
					continue
				}
				cost, err := g.costSince(ctx, cfg, r, midnight)
				if err != nil {
					return fmt.Errorf("gateway: read what %s has spent today: %w", name, err)
				}
				counted.Add(account(r.Tenant, r.Workflow, r.OwnerKey), cost)
			}
			if len(page) < f.Limit {
				break
			}
			f.Before = page[len(page)-1].ID
		}
	}
	g.book.AtLeast(counted)
	return nil
}

// costSince is what those attempts of an operation count that were sent since then. Where the record alone does not say it, its
// history does: which attempts may have been billed, and of which it was found out that they were not.
func (g *Gateway) costSince(ctx context.Context, cfg *policy.Config, r *ledger.Record, since time.Time) (spend.Amount, error) {
	if r.BilledMaybe == 0 && !r.CreatedAt.Before(since) || mutant.On("refuted-counts-again") {
		cost := spend.USD(float64(r.BilledMaybe) * r.EstimatedCost)
		if r.Outcome == ledger.OutcomeSuccess && r.Attempt > 0 {
			cost += answered(cfg, r)
		}
		return cost, nil
	}
	events, err := g.ledger.History(ctx, r.ID)
	if err != nil {
		return 0, err
	}
	return costIn(cfg, r, events, since), nil
}

// costIn reads from a history what the reservations of its attempts have come to, by the rules by which they end in a running
// process: what is unknown is kept, what is refuted is given back.
func costIn(cfg *policy.Config, r *ledger.Record, events []ledger.Event, since time.Time) (cost spend.Amount) {
	estimate := spend.USD(r.EstimatedCost)
	counts := false // the last attempt was sent since then
	for i := range events {
		switch e := &events[i]; {
		case e.Kind == "attempt":
			counts = !e.At.Before(since)
		case !counts:
		case e.Kind == "attempt_end" && e.End == ledger.AttemptSuccess:
			cost += answered(cfg, r)
		case e.Kind == "attempt_end" && e.Billed:
			cost += estimate
		case e.From == ledger.Unknown && e.To != ledger.Unknown && (e.To == ledger.Created || r.Outcome != ledger.OutcomeSuccess):
			cost = max(0, cost-estimate)
		}
	}
	return cost
}

// answered is what an operation's own answer has cost: what it says that it used, or the estimate where it does not say.
func answered(cfg *policy.Config, r *ledger.Record) spend.Amount {
	model := r.ServedModel
	if model == "" {
		model = r.RequestedModel
	}
	if in, out, ok := cfg.Price(model); ok && r.UsageIn+r.UsageOut > 0 {
		return spend.Price{Input: in, Output: out}.Of(r.UsageIn, r.UsageOut)
	}
	return spend.USD(r.EstimatedCost)
}

// daily are the workflows whose days are bounded, and were not before.
func daily(cfg, before *policy.Config) (names []string) {
	for i := range cfg.Workflows {
		w := &cfg.Workflows[i]
		if w.Spend.PerDay <= 0 {
			continue
		}
		if was := before.Workflow(w.Name); was != nil && was.Spend.PerDay > 0 {
			continue
		}
		names = append(names, w.Name)
	}
	return names
}

// Reconciled takes back what an attempt counted that turned out not to have happened (semantics 8, 39), on the day on which it
// was sent.
func (g *Gateway) Reconciled(head *ledger.Intent, happened bool) {
	if happened || head.EstimatedCost <= 0 {
		return
	}
	g.book.Refund(account(head.Tenant, head.Workflow, head.OwnerKey), spend.USD(head.EstimatedCost), g.lastSent(head))
}

// lastSent is when an operation's last attempt was sent; when it began, where its history cannot be read.
func (g *Gateway) lastSent(head *ledger.Intent) time.Time {
	ctx, stop := context.WithTimeout(context.Background(), g.current.Load().policy.Limits.CommitWait)
	defer stop()
	events, err := g.ledger.History(ctx, head.ID)
	sent := head.CreatedAt
	for i := range events {
		if err == nil && events[i].Kind == "attempt" {
			sent = events[i].At
		}
	}
	return sent
}
