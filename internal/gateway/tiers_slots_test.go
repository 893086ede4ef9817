package gateway_test

import (
	"strings"
	"sync"
	"testing"
)

// A full bulkhead leads to the next tier before anything is written; where none is left its caller waits if the policy lets it. Each tier has
// slots of its own, and gives them back.
func TestTierSlots(t *testing.T) {
	r := tiersRig(t, "")
	r.atTier("busy", "pro", `{"hold":"pro"}`)
	r.atTier("busy2", "flash", `{"hold":"flash"}`)
	var all sync.WaitGroup
	all.Go(func() { r.must(chat("busy").workflow("slots"), 200) })
	r.held("pro")
	all.Go(func() {
		if a := r.must(chat("busy2").workflow("slots"), 200); a.header.Get("Holdfast-Source") != "flash" || a.header.Get("Holdfast-Attempts") != "1" ||
			a.header.Get("Holdfast-Fallback-Reason") != "pro: bulkhead_full" {
			t.Errorf("%v", a.header)
		}
	})
	r.held("flash")
	all.Go(func() {
		if a := r.must(chat("third").workflow("slots"), 200); a.header.Get("Holdfast-Source") != "flash" {
			t.Errorf("%v", a.header)
		}
	})
	wait(t, func() bool {
		for _, b := range r.gw.Bulkheads() {
			if b.Tier == "flash" && b.Waiting == 1 {
				return true
			}
		}
		return false
	})
	r.sim.Release("flash")
	wait(t, func() bool { return r.sim.Counts("third").Calls == 1 })
	r.sim.Release("pro")
	all.Wait()
	r.atRest()
	for _, b := range r.gw.Bulkheads() {
		if b.Used != 0 || b.Waiting != 0 {
			t.Errorf("%+v", b)
		}
	}
}

// A call that waited in vain for its first tier waits at the last one for what is left of its time.
func TestWaitsAtTheLastTier(t *testing.T) {
	r := tiersRig(t, "")
	r.atTier("busy", "pro", `{"hold":"pro"}`)
	r.atTier("busy2", "flash", `{"hold":"flash"}`)
	waits := func(tier string) func() bool {
		return func() bool {
			for _, b := range r.gw.Bulkheads() {
				if b.Workflow == "both" && b.Tier == tier && b.Waiting == 1 {
					return true
				}
			}
			return false
		}
	}
	paused := func(do func(string) error) {
		t.Helper()
		if err := do("openai/*"); err != nil {
			t.Fatal(err)
		}
	}
	pause := func(route string) error { _, err := r.routes.Pause(route, "maintenance"); return err }
	var all sync.WaitGroup
	r.must(chat("warm").workflow("both"), 200)
	paused(pause)
	all.Go(func() { r.must(chat("busy2").workflow("both"), 200) })
	r.held("flash")
	paused(func(route string) error { _, err := r.routes.Resume(route); return err })
	all.Go(func() { r.must(chat("busy").workflow("both"), 200) })
	r.held("pro")
	all.Go(func() {
		a := r.must(chat("third").workflow("both"), 200)
		if a.header.Get("Holdfast-Source") != "flash" || a.header.Get("Holdfast-Trail") != "pro; circuit_open" {
			t.Errorf("%v", a.header)
		}
	})
	wait(t, waits("pro"))
	paused(pause)
	r.sim.Release("pro")
	wait(t, func() bool {
		return waits("flash")() || r.sim.Counts("third").Calls == 1 || r.gw.Holding().Executions == 1
	})
	r.sim.Release("flash")
	all.Wait()
	r.atRest()
}

func (r *rig) held(gate string) {
	r.t.Helper()
	if err := r.sim.WaitHeld(r.t.Context(), gate, 1); err != nil {
		r.t.Fatal(err)
	}
}

// A tier that failed holds no slot while another answers, nor behind it.
func TestTierGivesItsSlotBack(t *testing.T) {
	r := tiersRig(t, "")
	r.atTier("slot", "pro", `{"status":503}`)
	for range 2 {
		if a := r.must(chat("slot").workflow("slots"), 200); a.header.Get("Holdfast-Attempts") != "2" {
			t.Fatalf("%v", a.header)
		}
	}
	r.atRest()
}

// A wait that is longer than is slept in the nest leads to a tier that answers now.
func TestTierBeforeALongWait(t *testing.T) {
	r := tiersRig(t, "")
	r.atTier("slow", "pro", `{"status":429,"headers":{"Retry-After":"5"}}`)
	a := r.must(chat("slow").workflow("retried"), 200)
	if a.header.Get("Holdfast-Source") != "flash" || a.header.Get("Holdfast-Attempts") != "2" {
		t.Errorf("%v", a.header)
	}
	decided := false
	for _, e := range r.history(r.settled(a.header.Get("Holdfast-Intent")).ID) {
		decided = decided || strings.Contains(string(e.Evidence), `"elsewhere":true`) && strings.Contains(string(e.Evidence), `"rule":"semantics 36"`)
	}
	if !decided {
		t.Error("the decision is not on record")
	}
}

// An open breaker, a long cool-down and a pause each lead to the next tier without a call of the first.
func TestTierClosedRoutes(t *testing.T) {
	r := tiersRig(t, "")
	r.atTier("cool", "pro", `{"status":429,"headers":{"Retry-After":"60"}}`)
	r.must(chat("cool").workflow("pair"), 200)
	a := r.must(chat("cool2").workflow("pair"), 200)
	if a.header.Get("Holdfast-Source") != "flash" || a.header.Get("Holdfast-Attempts") != "1" || a.header.Get("Holdfast-Fallback-Reason") != "pro: rate_limited" {
		t.Errorf("%v", a.header)
	}
	other := tiersRig(t, "")
	other.atTier("open", "pro", `{"status":500}`)
	for range 5 {
		other.must(chat("open").workflow("pair"), 200)
	}
	a = other.must(chat("open2").workflow("pair"), 200)
	if a.header.Get("Holdfast-Source") != "flash" || a.header.Get("Holdfast-Fallback-Reason") != "pro: circuit_open" || a.header.Get("Holdfast-Attempts") != "1" {
		t.Errorf("%v", a.header)
	}
	if n := other.sim.Counts("open2").Calls; n != 1 {
		t.Errorf("%d calls", n)
	}
	other.atRest()
}
