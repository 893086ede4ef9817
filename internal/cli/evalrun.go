package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/eval"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/spend"
)

func (f *evalFlags) run(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	if f.threshold {
		return f.sweep(cmd)
	}
	p, err := f.plan(cmd)
	if err != nil {
		return err
	}
	p.Repeat, p.Concurrency, p.MaxCost = f.repeat, f.concurrency, spend.USD(f.maxCost)
	e := p.Estimate()
	if _, err := fmt.Fprintln(cmd.ErrOrStderr(), estimated(p, &e)); err != nil || f.dryRun {
		return err
	}
	if err := f.allowed(cmd, e.Total, len(e.Unpriced) > 0); err != nil {
		return err
	}
	return f.send(cmd, p)
}

// estimated says what a plan may cost.
func estimated(p *eval.Plan, e *eval.Estimate) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s × %s", plural(len(p.Requests), "line"), plural(len(p.Tiers), "tier"))
	if p.Repeat > 1 {
		fmt.Fprintf(&b, " × %d", p.Repeat)
	}
	fmt.Fprintf(&b, " = %s of workflow %s, about %s at most by prices of %s:", plural(p.Calls(), "call"), p.Workflow, e.Total, policy.PricesAsOf)
	for i := range p.Tiers {
		fmt.Fprintf(&b, " %s %s", p.Tiers[i].Name, e.Tiers[i])
		if i < len(p.Tiers)-1 {
			b.WriteString(",")
		}
	}
	if len(e.Unpriced) > 0 {
		fmt.Fprintf(&b, "\nnobody knows what %s costs: it counts as nothing; say it under models, as {input_cost: …, output_cost: …}", clean(strings.Join(e.Unpriced, ", "), 200))
	}
	return b.String()
}

var errNobodyAsked = usagef("nobody is asked where standard input is no terminal; nothing was sent. Write --max-cost USD, or --yes")

// allowed asks whether it may cost that, unless something has answered already.
func (f *evalFlags) allowed(cmd *cobra.Command, total spend.Amount, unpriced bool) error {
	most := spend.USD(f.maxCost)
	switch {
	case f.yes, !unpriced && total <= most:
		return nil
	case most > 0 && unpriced:
		return usagef("what it costs is not known, so that --max-cost cannot bound it; nothing was sent. Say the prices under models, or write --yes")
	case most > 0:
		return usagef("about %s may be more than --max-cost %s; nothing was sent. Raise it, send fewer lines, or write --yes: then it ends where the next call may go beyond", total, most)
	case f.file == "-" || f.pairs == "-" || !reads(cmd.InOrStdin()):
		return errNobodyAsked
	}
	if _, err := fmt.Fprint(cmd.ErrOrStderr(), "Send them? [y/N] "); err != nil {
		return err
	}
	answer, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	case "":
		if err != nil {
			return errNobodyAsked
		}
	}
	return errors.New("nothing was sent")
}

// reads reports whether somebody types what is read.
func reads(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok || !terminal(f) {
		return false
	}
	in, err := f.Stat()
	none, no := os.Stat(os.DevNull) // a device of characters, too
	return err == nil && (no != nil || !os.SameFile(in, none))
}

// send makes the calls, and prints what there is however it ends.
func (f *evalFlags) send(cmd *cobra.Command, p *eval.Plan) error {
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	run := eval.NewRun(p)
	end := follow(cmd.ErrOrStderr(), func() string {
		at := run.Progress()
		return fmt.Sprintf("%d of %d calls, %d failed, %s", at.Done, at.Calls, at.Failed, at.Spent)
	})
	why := &causes{count: map[string]int{}}
	err := run.Do(ctx, slog.New(why))
	end()
	if err != nil && ctx.Err() == nil {
		return err
	}
	if err := why.tell(cmd.ErrOrStderr()); err != nil {
		return err
	}
	r := run.Report(said(f.file))
	err = f.print(cmd.OutOrStdout(), r, func(w io.Writer) error { return evalText(w, r) }, func(w io.Writer) error { return evalMarkdown(w, r) })
	if err != nil {
		return err
	}
	return evalEnd(ctx, r)
}

// print writes a report by the flags: r whole as JSON, else as text or Markdown. What was paid for is printed although --out
// cannot be written.
func (f *evalFlags) print(out io.Writer, r any, text, markdown func(io.Writer) error) error {
	w := bufio.NewWriter(out)
	var err error
	switch {
	case f.json:
		err = writeJSON(w, r)
	case f.markdown:
		err = markdown(w)
	default:
		err = text(w)
	}
	err = errors.Join(err, w.Flush())
	if f.out != "" {
		if failed := replaceFile(f.out, func(w io.Writer) error { return writeJSON(w, r) }); failed != nil {
			err = errors.Join(err, fmt.Errorf("--out: %w", failed))
		}
	}
	return err
}

// evalEnd is what a run's end means to the exit status.
func evalEnd(ctx context.Context, r *eval.Report) error {
	missing := r.Calls - r.Made
	switch {
	case r.Stopped == eval.Interrupted:
		return fmt.Errorf("%w: %d of %d calls were not made, or given up", context.Cause(ctx), missing, r.Calls)
	case r.Stopped == eval.MaxCost:
		return fmt.Errorf("--max-cost is used up: %d of %d calls were not made", missing, r.Calls)
	}
	if failed := r.Failed(); len(failed) > 0 {
		return fmt.Errorf("%s %s failed on every line", verb(len(failed), "tier", "tiers"), strings.Join(failed, ", "))
	}
	return nil
}
