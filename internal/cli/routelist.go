package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/admin"
)

// showRoutes prints faults first and loudly, then the routes, then the slots of their bulkheads.
func showRoutes(out io.Writer, list []admin.Route, now time.Time) error {
	if err := showFaults(out, list, now); err != nil {
		return err
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "no route was called since the gateway started")
		return err
	}
	fleet := slices.ContainsFunc(list, func(v admin.Route) bool { return v.Replica != "" })
	err := table(out, func(w io.Writer) {
		if fleet {
			fmt.Fprint(w, "REPLICA\t")
		}
		fmt.Fprintln(w, "ROUTE\tSTATE\tFAILURES\tRETRY TOKENS\tWHY")
		for i := range list {
			v := &list[i]
			failures, tokens := "–", "–"
			if v.Known {
				failures = strconv.Itoa(v.Breaker.Failures)
			}
			if v.RetryTokens != nil {
				tokens = strconv.FormatFloat(*v.RetryTokens, 'f', 1, 64)
			}
			state, why := routeState(v, now)
			if fleet {
				fmt.Fprint(w, shortReplica(v.Replica), "\t")
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", clean(v.Route, 72), state, failures, tokens, or(clean(why, 60)))
		}
	})
	if err != nil {
		return err
	}
	return showSlots(out, list)
}

// routeState is what the next call meets, in the order in which it meets it, and why.
func routeState(v *admin.Route, now time.Time) (state, why string) {
	var states, reasons []string
	add := func(state, reason string) {
		states = append(states, state)
		if reason != "" && !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	if v.Fault != nil {
		add("FAULT INJECTED", "")
	}
	if v.Paused {
		add("paused", v.PausedReason)
	}
	switch c := v.Cooldown; {
	case c == nil:
	case c.Probing:
		add("cooling down, a probe is on its way", c.Reason)
	case c.RemainingMs > 0:
		add("cooling down, "+span(time.Duration(c.RemainingMs)*time.Millisecond)+" left", c.Reason)
	default:
		add("cooled down, the next call is a probe", c.Reason)
	}
	switch b := &v.Breaker; {
	case b.Forced:
		add("tripped", b.Reason)
	case b.State == "open" && b.Until != nil && b.Until.After(now):
		add("open, a probe in "+span(b.Until.Sub(now)), b.Reason)
	case b.State == "open":
		add("open, the next call is a probe", b.Reason)
	case b.State == "half-open":
		add("half-open", b.Reason)
	}
	if p := v.Backpressure; p != nil {
		add(fmt.Sprintf("%s: %d of %d low-urgency calls", p.Level, p.Batch, p.MaxBatch), p.Reason)
	}
	if len(states) == 0 {
		return "closed", ""
	}
	if !v.Known {
		states = append(states, "also routes to come")
	}
	return strings.Join(states, "; "), strings.Join(reasons, "; ")
}

// showFaults names each fault once, however many routes meet it.
func showFaults(out io.Writer, list []admin.Route, now time.Time) error {
	seen := map[string]bool{}
	for i := range list {
		f := list[i].Fault
		if f == nil || seen[f.Pattern] {
			continue
		}
		if len(seen) == 0 {
			if _, err := fmt.Fprintln(out, "FAULT INJECTION IS ON: CALLS FAIL ON PURPOSE"); err != nil {
				return err
			}
		}
		seen[f.Pattern] = true
		name := clean(f.Pattern, 0)
		if _, err := fmt.Fprintf(out, "  %s: %s, on %g %% of attempts, %d so far, %s left; end it with: holdfast routes heal '%s'\n",
			name, faultWords(f), f.Probability*100, f.Hits, span(f.Until.Sub(now)), name); err != nil {
			return err
		}
	}
	if len(seen) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(out)
	return err
}

func faultWords(f *admin.Fault) string {
	var words []string
	if f.LatencyMs > 0 {
		words = append(words, span(time.Duration(f.LatencyMs)*time.Millisecond)+" of latency")
	}
	if f.Status > 0 {
		status := "status " + strconv.Itoa(f.Status)
		if f.RetryAfterMs > 0 {
			status += " with Retry-After " + span(time.Duration(f.RetryAfterMs)*time.Millisecond)
		}
		words = append(words, status)
	}
	if f.CutBytes > 0 {
		words = append(words, "cut after "+plural(f.CutBytes, "byte"))
	}
	return strings.Join(words, ", ")
}

// slot is a bulkhead, and whose.
type slot struct {
	replica string
	admin.Bulkheads
}

// slots are the bulkheads of a list of routes, each once, however many routes go through it.
func slots(list []admin.Route) (all []slot) {
	seen := map[[3]string]bool{}
	for i := range list {
		for _, b := range list[i].Bulkheads {
			if name := [3]string{list[i].Replica, b.Workflow, b.Tier}; !seen[name] {
				seen[name] = true
				all = append(all, slot{list[i].Replica, b})
			}
		}
	}
	return all
}

func showSlots(out io.Writer, list []admin.Route) error {
	all := slots(list)
	if len(all) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	fleet := all[0].replica != ""
	return table(out, func(w io.Writer) {
		if fleet {
			fmt.Fprint(w, "REPLICA\t")
		}
		fmt.Fprintln(w, "WORKFLOW\tTIER\tBULKHEAD\tSLOTS\tIN USE\tWAITING")
		for _, b := range all {
			if fleet {
				fmt.Fprint(w, shortReplica(b.replica), "\t")
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\n", clean(b.Workflow, 24), clean(b.Tier, 24), or(clean(b.Name, 24)), b.Max, b.Used, b.Waiting)
		}
	})
}
