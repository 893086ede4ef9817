package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/policy"
)

// replayReport is what replay-policy prints. Its JSON names are stable.
type replayReport struct {
	File           string           `json:"file"`
	PolicyRevision string           `json:"policy_revision"`
	Since          time.Time        `json:"since"`
	Workflows      []replayWorkflow `json:"workflows"`
	LeftOut        []leftOut        `json:"left_out,omitempty"`
}

type replayWorkflow struct {
	Workflow string `json:"workflow"`
	replayCounts
	Decisions []replayDecision `json:"decisions"`
	Cost      replayCost       `json:"cost"`
}

// leftOut is a workflow of which the policy says nothing.
type leftOut struct {
	Workflow   string `json:"workflow"`
	Operations int    `json:"operations"`
}

// replayCost is in USD, of calls whose model has a price in the policy. What an added call would use is taken to be
// what the model's calls used on average.
type replayCost struct {
	Seen         float64 `json:"seen_usd"`
	Saved        float64 `json:"saved_usd"`
	AddedAtLeast float64 `json:"added_usd_at_least"`
	AddedAtMost  float64 `json:"added_usd_at_most"`
	// Unpriced are calls that are not in these sums: their model has no price, or none of its calls said its usage.
	Unpriced       int      `json:"calls_unpriced"`
	UnpricedModels []string `json:"models_unpriced,omitempty"`

	priced bool // something is in these sums
}

const perTokens = 1e6 // prices are per million tokens

func (t *replayTally) cost(w *workflowTally) replayCost {
	var c replayCost
	for _, name := range slices.Sorted(maps.Keys(w.models)) {
		m := w.models[name]
		in, out, ok := price(t.cfg, name)
		if !ok || m.calls == 0 {
			if n := m.calls + m.atMost + m.savedUnread; n > 0 {
				c.Unpriced += n
				c.UnpricedModels = append(c.UnpricedModels, or(name))
			}
			continue
		}
		c.priced = true
		usd := func(i, o int64) float64 { return (float64(i)*in + float64(o)*out) / perTokens }
		mean := usd(m.in, m.out) / float64(m.calls)
		c.Seen += usd(m.in, m.out)
		c.Saved += usd(m.savedIn, m.savedOut) + mean*float64(m.savedUnread)
		c.AddedAtLeast += mean * float64(m.atLeast)
		c.AddedAtMost += mean * float64(m.atMost)
	}
	return c
}

// price is what the policy itself says of a model, by its name or by the name without its date: what somebody weighs is not
// filled up with list prices.
func price(cfg *policy.Config, model string) (in, out float64, ok bool) {
	best := ""
	for i := range cfg.Models {
		m := &cfg.Models[i]
		if m.InputCost == nil || m.OutputCost == nil || len(m.Name) <= len(best) && ok {
			continue
		}
		if policy.IsVersion(model, m.Name) {
			best, in, out, ok = m.Name, *m.InputCost, *m.OutputCost, true
		}
	}
	return in, out, ok
}

// writeReplay prints the report for a person.
func writeReplay(out io.Writer, r *replayReport) error {
	if _, err := fmt.Fprintf(out, "%s (revision %s) over the operations since %s\n", r.File, r.PolicyRevision, stamp(r.Since)); err != nil {
		return err
	}
	if len(r.Workflows) == 0 {
		if _, err := fmt.Fprintln(out, "no operation of its workflows is in the log"); err != nil {
			return err
		}
	}
	for i := range r.Workflows {
		if err := writeReplayed(out, &r.Workflows[i]); err != nil {
			return err
		}
	}
	for _, l := range r.LeftOut {
		if _, err := fmt.Fprintf(out, "\n%s: %s left out, of which this policy says nothing\n", clean(l.Workflow, 64), plural(l.Operations, "operation")); err != nil {
			return err
		}
	}
	return nil
}

func writeReplayed(out io.Writer, w *replayWorkflow) error {
	head := fmt.Sprintf("%s, %s", plural(w.Operations, "operation"), plural(w.Attempts, "attempt"))
	if w.NotReplayable > 0 {
		head += fmt.Sprintf("; %d not replayable: what was decided on is not in the log", w.NotReplayable)
	}
	if w.Running > 0 {
		head += fmt.Sprintf("; %d still running", w.Running)
	}
	if _, err := fmt.Fprintf(out, "\n%s: %s\n", w.Workflow, head); err != nil {
		return err
	}
	err := table(out, func(t io.Writer) {
		fmt.Fprintln(t, "  \tTHEN\tNOW\tATTEMPTS\t")
		for _, d := range w.Decisions {
			mark, examples := " ", ""
			if d.Changed {
				mark, examples = "*", strings.Join(d.Examples[:min(len(d.Examples), 2)], " ")
			}
			fmt.Fprintf(t, "  %s\t%s\t%s\t%d\t%s\n", mark, d.Then.say(), d.Now.say(), d.Count, examples)
		}
	})
	if err != nil {
		return err
	}
	return table(out, func(t io.Writer) {
		for _, l := range w.lines() {
			fmt.Fprintf(t, "  %s\t%s\n", l[0], l[1])
		}
	})
}

func (r ruling) say() string { return clean(string(r.Action), 16) + " [" + clean(r.Rule, 48) + "]" }

// lines are the sums below the table.
func (w *replayWorkflow) lines() [][2]string {
	c, k := &w.replayCounts, &w.Cost
	calls := fmt.Sprintf("%d saved, %s added", c.Saved, spread(c.AddedAtLeast, c.AddedAtMost))
	if c.Deferred > 0 {
		calls += fmt.Sprintf(", %d put off to the background", c.Deferred)
	}
	lines := [][2]string{{"upstream calls", calls}}
	if c.LostSuccesses > 0 || c.TriedAgain > 0 {
		lines = append(lines, [2]string{"operations", fmt.Sprintf("%d that succeeded would have failed, %d that failed would have been tried again", c.LostSuccesses, c.TriedAgain)})
	}
	if c.Billed > 0 {
		lines = append(lines, [2]string{"possibly billed", fmt.Sprintf("%s, %d of them saved", plural(c.Billed, "attempt"), c.BilledSaved)})
	}
	return append(lines, [2]string{"cost", k.say()})
}

// say is in words what is known of the cost, and of how much nothing is.
func (k *replayCost) say() string {
	unpriced := fmt.Sprintf("not known of %s (%s): models has no price, or none of their answers told its usage",
		plural(k.Unpriced, "call"), clean(strings.Join(k.UnpricedModels, ", "), 120))
	switch {
	case !k.priced && k.Unpriced > 0:
		return unpriced
	case !k.priced:
		return "not known: no answer told its usage"
	}
	sums := fmt.Sprintf("$%.4f seen; $%.4f saved, %s added", k.Seen, k.Saved, dollars(k.AddedAtLeast, k.AddedAtMost))
	if k.Unpriced > 0 {
		sums += "; " + unpriced
	}
	return sums
}

func spread(least, most int) string {
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

func dollars(least, most float64) string {
	if least == most {
		return fmt.Sprintf("$%.4f", least)
	}
	return fmt.Sprintf("$%.4f to $%.4f", least, most)
}
