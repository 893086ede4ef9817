package gateway_test

import (
	"cmp"
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// A day's sum is the same before a restart and behind it, whatever became of the attempts: what was refuted is not counted
// once more, what happened is counted once, and what nobody knows still counts (semantics 39).
func TestSumsSurviveARestart(t *testing.T) {
	r := spendRig(t)
	lost := func(op string) *ledger.Record {
		t.Helper()
		r.script(op, "reply_lost")
		a := r.do(priced(op, 10).workflow("held").owner(op).key(op))
		rec := r.record(a.header.Get("Holdfast-Intent"))
		if rec.State != ledger.Unknown {
			t.Fatalf("%d %s: %+v", a.status, a.body, rec.Status)
		}
		return rec
	}
	// The engine tells the gateway of every change; here the test does.
	resolved := func(rec *ledger.Record, outcome ledger.Outcome) {
		t.Helper()
		if err := r.log.Load(rec).Resolve(outcome, "ada", "looked", nil, r.store.Now()); err != nil {
			t.Fatal(err)
		}
		r.gw.Reconciled(&rec.Intent, outcome == ledger.OutcomeSuccess)
	}
	_ = lost("unknown")
	resolved(lost("refuted"), ledger.OutcomeFailed)
	resolved(lost("happened"), ledger.OutcomeSuccess)
	r.must(priced("paid", 10).workflow("held").owner("paid"), 200)
	r.script("refused", "400")
	r.must(priced("refused", 10).workflow("held").owner("refused"), 400)
	r.script("again", "reply_lost", "ok")
	r.must(priced("again", 10).workflow("twice").owner("again").key("again"), 200)

	// A job whose first attempt is refuted by whoever sends it on, and whose second one is paid.
	r.script("job", "reply_lost", "ok")
	rec := r.until(r.submit(priced("job", 10).workflow("parked").owner("job").key("job")), inLane(intent.LaneReview))
	if err := r.log.Load(rec).Revive(intent.Revival{By: "ada", Reason: "it did nothing", Rule: "review approve", NotExecuted: true}); err != nil {
		t.Fatal(err)
	}
	r.gw.Reconciled(&rec.Intent, false)
	r.gw.Jobs().Look(t.Context(), rec.ID)
	r.until(rec.ID, settledJob)

	workflows := map[string]string{"again": "twice", "job": "parked"}
	spent := func(owner string) float64 { return r.gw.SpentToday(cmp.Or(workflows[owner], "held"), owner) }
	want := map[string]float64{"unknown": 10, "refuted": 0, "happened": 10, "refused": 0}
	for _, owner := range []string{"unknown", "refuted", "happened", "paid", "refused", "again", "job"} {
		before := spent(owner)
		if w, ok := want[owner]; ok && before != w || !ok && before <= 0 {
			t.Errorf("%s: $%v before the restart", owner, before)
		}
		want[owner] = before
	}
	for range 2 {
		r.close()
		r.start(rigConfig{})
		for owner, before := range want {
			if after := spent(owner); after != before {
				t.Errorf("%s: $%v, and $%v after the restart", owner, before, after)
			}
		}
	}
}

// Limits that are taken away and put back within a day count once what was spent under them, and what was spent without.
func TestSumsSurviveReloads(t *testing.T) {
	r := spendRig(t)
	const limit = "day: {match: {paths: [\"/by-name-only\"]}, spend: {per_day: 100}"
	spent := func() float64 { return r.gw.SpentToday("day", "alice") }
	pay := func() float64 {
		t.Helper()
		a := r.must(priced("paid", 10).workflow("day").owner("alice"), 200)
		return float64(r.settled(a.header.Get("Holdfast-Intent")).UsageOut)
	}
	want := pay()
	if want <= 0 || spent() != want {
		t.Fatalf("$%v counted of $%v", spent(), want)
	}
	for _, without := range []string{"", ", spend: {per_request: 15}"} {
		r.reload(spending, limit, strings.Replace(limit, ", spend: {per_day: 100}", "", 1))
		want += pay()
		r.reload(spending, limit, strings.Replace(limit, ", spend: {per_day: 100}", without, 1))
		want += pay()
		for range 2 {
			r.reload(spending)
			if got := spent(); got != want {
				t.Errorf("by way of %q: $%v counted of $%v", without, got, want)
			}
		}
	}
}

// pageless is a store that has nothing to say of a day's second workflow.
type pageless struct {
	ledger.Ledger
	asked atomic.Int32
}

func (p *pageless) List(ctx context.Context, f ledger.Filter) ([]*ledger.Record, error) {
	if !f.NewerThan.IsZero() && p.asked.Add(1) == 2 {
		return nil, errDisk
	}
	return p.Ledger.List(ctx, f)
}

// A reload that fails while it counts has counted nothing.
func TestFailedReloadCountsNothing(t *testing.T) {
	p := &pageless{}
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.ReplaceAll(spending, "spend: {per_day: 100}, ", "")
		c.wrap = func(l ledger.Ledger) ledger.Ledger { p.Ledger = l; return p }
	})
	for _, workflow := range []string{"day", "held", "twice"} {
		a := r.must(priced(workflow, 10).workflow(workflow).owner("alice"), 200)
		r.settled(a.header.Get("Holdfast-Intent"))
	}
	cfg, faults := policy.Parse("test.yaml", []byte(strings.ReplaceAll(spending, "SIM", r.sim.URL())), nil)
	if cfg == nil {
		t.Fatal(faults)
	}
	if err := r.gw.Reload(cfg); err == nil {
		t.Fatal("no error")
	}
	for _, workflow := range []string{"day", "held", "twice"} {
		if got := r.gw.SpentToday(workflow, "alice"); got != 0 {
			t.Errorf("%s: $%v", workflow, got)
		}
	}
	if err := r.gw.Reload(cfg); err != nil || r.gw.SpentToday("day", "alice") <= 0 {
		t.Errorf("and once the store is back: %v", err)
	}
}
