package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/policy"
)

// replayFlags are those of `holdfast replay-policy`.
type replayFlags struct {
	since, workflow, admin string
	store                  storeFlags
	json                   bool
}

// replayCommand is `holdfast replay-policy`.
func replayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay-policy FILE",
		Short: "Run a policy's decisions over the logged signals: what would have been retried, queued, refused, at what cost",
		Long: `Run the decisions of a policy over what the log keeps of every attempt that failed, and print per workflow what was decided
then and what this policy would have decided, how many upstream calls it would have saved or added, and at what cost.
Nothing is sent and nothing is changed.

FILE is a configuration or a policy file; the operations of a workflow are asked about to the workflow of the same name
in it. The log is the store of --config, of --store, or of holdfast.yaml here, read beside the gateway that runs on it; or a
running gateway's with --admin. What the policy says of prices (models) is what calls are counted at.
docs/replay-policy.md says what is kept as it was.`,
		Example: `  holdfast replay-policy new.yaml --since 7d
  holdfast replay-policy policies/support_chat.yaml --since 24h --json | jq '.workflows[].calls'
  holdfast replay-policy new.yaml --since 2026-11-29T20:00:00Z --workflow support_chat --admin 127.0.0.1:8788`,
		Args: oneArg("policy or configuration file"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			from, err := sinceWhen(f.since, time.Now())
			if err != nil {
				return err
			}
			cfg, err := loadConfig(args[0])
			if err != nil {
				return err
			}
			if f.workflow != "" && cfg.Workflow(f.workflow) == nil {
				return usagef("%s has no workflow %q", args[0], f.workflow)
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			defer func() { err = errors.Join(err, out.Flush()) }()
			t := newReplayTally(cfg, args[0], from)
			if err := f.read(cmd.Context(), t, cmd.ErrOrStderr()); err != nil {
				return err
			}
			r := t.report()
			if f.json {
				return writeJSON(out, r)
			}
			return writeReplay(out, r)
		},
	}
	cmd.Flags().StringVar(&f.since, "since", "7d", "operations created since: an age such as 7d or 12h, or a time such as 2026-11-29T20:00:00Z")
	cmd.Flags().StringVar(&f.workflow, "workflow", "", "only this workflow")
	cmd.Flags().StringVar(&f.admin, "admin", "", "read the log of the gateway with this admin API; $"+adminKeyEnv+" is its credential")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	f.store.add(cmd)
	cmd.MarkFlagsMutuallyExclusive("admin", "config", "store")
	return cmd
}

// sinceWhen is a time, or an age before now in which d is 24 hours and w seven days.
func sinceWhen(s string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	days := map[byte]float64{'d': 1, 'w': 7}
	if n := len(s) - 1; n > 0 && days[s[n]] > 0 {
		if x, err := strconv.ParseFloat(s[:n], 64); err == nil && x >= 0 && x < 36500 {
			return now.Add(-time.Duration(x * days[s[n]] * 24 * float64(time.Hour))), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return now, usagef("--since is an age such as 7d or 12h, or a time such as 2026-11-29T20:00:00Z, not %q", s)
}

// read hands the tally every operation since then, newest first.
func (f *replayFlags) read(ctx context.Context, t *replayTally, report io.Writer) (err error) {
	from, err := f.open(ctx, t.since)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	seen := newCounter(report)
	defer seen.done()
	for before := ""; ; {
		page, err := from.page(ctx, before)
		if err != nil {
			return err
		}
		for i := range page {
			v := &page[i]
			if t.needsHistory(v) {
				if err := from.history(ctx, v); errors.Is(err, errNoSuch) {
					continue
				} else if err != nil {
					return err
				}
			}
			t.add(v)
			seen.add()
		}
		if len(page) < replayPage {
			return nil
		}
		before = page[len(page)-1].ID
	}
}

// counter tells a person who watches how far a long run has come.
type counter struct {
	to   io.Writer // nil: nobody watches
	n    int
	told time.Time
}

func newCounter(to io.Writer) *counter {
	if !terminal(to) {
		to = nil
	}
	return &counter{to: to, told: time.Now()}
}

func (c *counter) add() {
	if c.n++; c.to != nil && time.Since(c.told) > tellEvery {
		c.told = time.Now()
		fmt.Fprintf(c.to, "\r%s read", plural(c.n, "operation"))
	}
}

func (c *counter) done() {
	if c.to != nil {
		fmt.Fprintf(c.to, "\r%s read\n", plural(c.n, "operation"))
	}
}

// replayed reports whether the policy says anything of the workflow: a policy file speaks of its own alone.
func replayed(cfg *policy.Config, name string) *policy.Workflow {
	if cfg.PolicyOnly() && name == policy.DefaultWorkflow && !cfg.Written("workflows."+name) {
		return nil
	}
	return cfg.Workflow(name)
}

// heldNow is what the policy makes of an unknown outcome. Where it leaves the rule to the request, what was known of
// the request then still counts.
func heldNow(w *policy.Workflow, effect string, then bool) bool {
	switch {
	case w.OnUnknown != "":
		return w.OnUnknown == policy.HoldUnknown
	case effect == "external" || w.Effect == policy.External:
		return true
	}
	return then
}
