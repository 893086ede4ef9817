package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/embed"
	"github.com/holdfast-ai/holdfast/internal/eval"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/spend"
)

// errNoThreshold is the finding of a sweep.
var errNoThreshold = errors.New("no threshold finds what is right alone")

// sweepReport is a sweep with what is in force.
type sweepReport struct {
	*eval.Sweep
	Workflow   string   `json:"workflow,omitempty"`
	Configured *float64 `json:"configured,omitempty"` // the workflow's threshold
}

// sweep is `holdfast eval --threshold`.
func (f *evalFlags) sweep(cmd *cobra.Command) error {
	cfg, err := f.load()
	if err != nil {
		return err
	}
	what, err := chooseEmbedder(cfg, f.workflow, f.embedder)
	if err != nil {
		return err
	}
	pairs, name, err := f.readPairs(cmd)
	if err != nil {
		return err
	}
	if err := f.embeddingCosts(cmd, cfg, what.conf, pairs); err != nil || f.dryRun {
		return err
	}
	e, err := what.open(cfg)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	s, err := eval.NewSweep(ctx, name, pairs, e, f.steps)
	switch {
	case errors.Is(err, eval.ErrThresholds):
		return &usageError{err}
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	}
	return f.printSweep(cmd.OutOrStdout(), &sweepReport{s, what.workflow, what.threshold})
}

func (f *evalFlags) readPairs(cmd *cobra.Command) (pairs []eval.Pair, name string, err error) {
	if f.pairs == "" {
		pairs, err = eval.BuiltInPairs()
		return pairs, eval.OwnPairs, err
	}
	err = lines(cmd, f.pairs, `--pairs is JSON lines such as {"a": "…", "b": "…", "same": true}`, func(said string, in io.Reader) (err error) {
		name = said
		pairs, err = eval.ReadPairs(said, in)
		return err
	})
	return pairs, name, err
}

// embeddingCosts says what the vectors may cost, where another's endpoint makes them, and asks whether they may.
func (f *evalFlags) embeddingCosts(cmd *cobra.Command, cfg *policy.Config, conf *policy.Embedder, pairs []eval.Pair) error {
	if conf == nil || conf.Type != providerEmbeds {
		return nil
	}
	var price spend.Price
	var known bool
	price.Input, price.Output, known = cfg.Price(conf.Model)
	texts, tokens := eval.Texts(pairs)
	total := price.Of(tokens, 0)
	said := fmt.Sprintf("%s to %s (%s), about %s by prices of %s", plural(texts, "text"), conf.Name, clean(conf.Model, maxWord), total, policy.PricesAsOf)
	if !known {
		said = fmt.Sprintf("%s to %s; nobody knows what %s costs: say it under models", plural(texts, "text"), conf.Name, clean(conf.Model, maxWord))
	}
	if _, err := fmt.Fprintln(cmd.ErrOrStderr(), said); err != nil || f.dryRun {
		return err
	}
	return f.allowed(cmd, total, !known)
}

// providerEmbeds is the type of an embedder that is another's endpoint.
const providerEmbeds = "provider"

// embedding is which embedder is tried, and for whom.
type embedding struct {
	conf      *policy.Embedder // nil: the built-in one
	workflow  string
	threshold *float64
}

// chooseEmbedder takes the one that is named, else the workflow's; else that of the only workflow with a semantic cache, the only one that is
// configured, or the built-in one.
func chooseEmbedder(cfg *policy.Config, workflow, name string) (e embedding, err error) {
	w := cfg.Workflow(workflow)
	switch {
	case workflow != "" && w == nil:
		return e, usagef("there is no workflow %q", workflow)
	case w != nil && w.Cache.Semantic == nil && name == "":
		return e, usagef("workflow %s has no cache.semantic; write --embedder NAME to try one without", workflow)
	case workflow == "":
		w = onlySemantic(cfg)
	}
	if w != nil && w.Cache.Semantic != nil {
		e.workflow, e.threshold = w.Name, &w.Cache.Semantic.Threshold
		if name == "" {
			name = w.Cache.Semantic.Embedder
		}
	}
	var names []string
	for i := range cfg.Embedders {
		c := &cfg.Embedders[i]
		if names = append(names, c.Name); c.Name == name || name == "" && len(cfg.Embedders) == 1 {
			e.conf = c
		}
	}
	switch {
	case e.conf != nil || name == "" && len(names) == 0:
		return e, nil
	case name != "" && len(names) == 0:
		return e, usagef("there is no embedder %q: none is configured; without --embedder the built-in one is tried", name)
	case name != "":
		return e, usagef("there is no embedder %q; embedders are %s", name, strings.Join(names, ", "))
	}
	return e, usagef("several embedders are configured; name one of %s with --embedder, or a workflow with --workflow", strings.Join(names, ", "))
}

// open makes the embedder ready, and no other of the configuration.
func (e *embedding) open(cfg *policy.Config) (eval.Embedder, error) {
	alone, name := *cfg, ""
	if alone.Embedders = nil; e.conf != nil {
		alone.Embedders, name = []policy.Embedder{*e.conf}, e.conf.Name
	}
	all, err := embed.Open(&alone)
	if err != nil {
		return nil, err
	}
	return all[name], nil
}

func onlySemantic(cfg *policy.Config) (found *policy.Workflow) {
	for i := range cfg.Workflows {
		if w := &cfg.Workflows[i]; w.Cache.Semantic != nil {
			if found != nil {
				return nil
			}
			found = w
		}
	}
	return found
}

func (f *evalFlags) printSweep(out io.Writer, r *sweepReport) error {
	err := f.print(out, r, func(w io.Writer) error { return sweepText(w, r) }, func(w io.Writer) error { return sweepMarkdown(w, r) })
	if err == nil && r.Lowest == nil {
		err = errNoThreshold
	}
	return err
}

var sweepColumns = []string{"THRESHOLD", "HITS", "RIGHT", "WRONG", "SHARE", "PRECISION", "RECALL", "UNGUARDED HITS", "RIGHT", "WRONG", "PRECISION", "RECALL"}

func sweepText(out io.Writer, r *sweepReport) error {
	if _, err := fmt.Fprintf(out, "%s\n\n", sweepTitle(r)); err != nil {
		return err
	}
	if err := aligned(out, sweepColumns, sweepRows(r)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\n", strings.Join(sweepFindings(r), "\n"))
	for _, l := range sweepLists(r) {
		if err == nil && len(l.pairs) > 0 {
			_, err = fmt.Fprintf(out, "\n%s\n", l.title)
			err = errors.Join(err, aligned(out, pairColumns, pairRows(l.pairs, maxPairsShown)))
		}
		if more := len(l.pairs) - maxPairsShown; err == nil && more > 0 {
			_, err = fmt.Fprintf(out, "and %d more, which --json has\n", more)
		}
	}
	return err
}

func sweepMarkdown(out io.Writer, r *sweepReport) error {
	if _, err := fmt.Fprintf(out, "## %s\n\n", markdownCell(sweepTitle(r))); err != nil {
		return err
	}
	if err := markdownTable(out, sweepColumns, sweepRows(r)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\n", markdownCell(strings.Join(sweepFindings(r), " ")))
	for _, l := range sweepLists(r) {
		if err == nil && len(l.pairs) > 0 {
			_, err = fmt.Fprintf(out, "\n### %s\n\n", markdownCell(l.title))
			err = errors.Join(err, markdownTable(out, pairColumns, pairRows(l.pairs, len(l.pairs))))
		}
	}
	return err
}

func sweepTitle(r *sweepReport) string {
	return fmt.Sprintf("%s: %s, %d of them %s the same; embedder %s", clean(r.File, 0), plural(r.Pairs, "pair"), r.Same, verb(r.Same, "asks", "ask"), clean(r.Embedder, 0))
}

func sweepRows(r *sweepReport) (rows [][]string) {
	for i := range r.Rows {
		at, g, b := r.Rows[i].Threshold, &r.Rows[i].Guarded, &r.Rows[i].Bare
		rows = append(rows, []string{level(at), fmt.Sprint(g.Hits), fmt.Sprint(g.Right), fmt.Sprint(g.Wrong), percent(&g.HitShare), percent(g.Precision),
			percent(g.Recall), fmt.Sprint(b.Hits), fmt.Sprint(b.Right), fmt.Sprint(b.Wrong), percent(b.Precision), percent(b.Recall)})
	}
	return rows
}

// level is a threshold as a configuration writes it.
func level(at float64) string {
	return strings.TrimSuffix(strings.TrimSuffix(fmt.Sprintf("%.4f", at), "0"), "0")
}

func percent(share *float64) string {
	if share == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f%%", 100**share)
}

// sweepFindings say what follows from the table.
func sweepFindings(r *sweepReport) (said []string) {
	if r.Lowest == nil {
		said = append(said, "Recommended: none of these; each has a wrong hit, although the guard stands before it, or no hit.")
	} else {
		said = append(said, recommended(r), telling(r))
	}
	if r.LowestBare != nil {
		said = append(said, fmt.Sprintf("Without the guard: %s.", level(*r.LowestBare)))
	} else {
		said = append(said, "Without the guard: none of these.")
	}
	if r.Configured != nil {
		said = append(said, fmt.Sprintf("Configured: %s, in workflow %s.", level(*r.Configured), r.Workflow))
	}
	return said
}

func recommended(r *sweepReport) string {
	said := fmt.Sprintf("Recommended: %s, the lowest of these without a wrong hit", level(*r.Lowest))
	if *r.Highest > *r.Lowest {
		said += fmt.Sprintf("; up to %s as much is found, and the higher one is the safer", level(*r.Highest))
	}
	return said + "."
}

// telling is what so many pairs are worth.
func telling(r *sweepReport) string {
	other := r.Pairs - r.Same
	share := fmt.Sprintf("of questions like the %d that ask something else, up to %.1f%% may still be wrong hits (95%% confidence)", other, 100*r.WrongBelow)
	if r.Enough {
		return fmt.Sprintf("What %s can tell: %s.", plural(r.Pairs, "pair"), share)
	}
	return fmt.Sprintf("Too few pairs to tell: %s. Take at least %d that ask something else, and %d that ask the same.", share, eval.EnoughOther, eval.EnoughSame)
}

type pairList struct {
	title string
	pairs []eval.Scored
}

const maxPairsShown = 20

func sweepLists(r *sweepReport) []pairList {
	from := level(r.Rows[0].Threshold)
	return []pairList{
		{"Wrong hits at " + from + ", guard and all:", r.Wrong},
		{"Kept from being wrong hits at " + from + " by the guard alone:", r.Guarded},
		{"Asking the same, and kept apart by the guard at any threshold:", r.Missed},
	}
}

var pairColumns = []string{"LINE", "SIMILARITY", "A", "B"}

func pairRows(pairs []eval.Scored, most int) (rows [][]string) {
	for i := range pairs[:min(most, len(pairs))] {
		p := &pairs[i]
		rows = append(rows, []string{fmt.Sprint(p.Line), fmt.Sprintf("%.4f", p.Similarity), clean(p.A, maxAnswer), clean(p.B, maxAnswer)})
	}
	return rows
}
