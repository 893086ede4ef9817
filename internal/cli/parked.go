package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/admin"
)

// reviewCommand is `holdfast review`.
func reviewCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "review",
		Short: "List, approve and reject what waits for its owner",
		Example: `  holdfast review list
  holdfast review approve 019ad3c8-5f0e --by alice --reason "quota was raised"`,
	}, parkedListCommand(&listOptions{lane: intent.LaneReview, parked: true}, "List what waits for its owner, newest first",
		"  holdfast review list\n  holdfast review list --workflow summaries --json"),
		wordCommand("approve", "Send a job back to its lane, or let a tool's call be sent when its client repeats it",
			`  holdfast review approve 019ad3c8-5f0e --by alice --reason "quota was raised"
  holdfast review approve 019ad3c8-5f0e --by alice --reason "the refund is right" --store /var/lib/agent/holdfast.db
  holdfast review approve doc-17 --by alice --reason "no charge on the far side" --idempotency-result not_executed`),
		wordCommand("reject", "End a job for good, whose key is free then; whoever repeats a tool's call is told so",
			`  holdfast review reject 019ad3c8-5f0e --by alice --reason "no longer wanted"`))
}

// deadletterCommand is `holdfast deadletter`.
func deadletterCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "deadletter",
		Short: "List, show, replay and discard jobs that were given up",
		Example: `  holdfast deadletter list
  holdfast deadletter replay 019ad3c8-5f0e --owner alice --reason "provider is back" --idempotency-result not_executed --cost-reviewed --route-override same`,
	}, parkedListCommand(&listOptions{lane: intent.LaneDead, parked: true}, "List jobs that were given up, newest first",
		"  holdfast deadletter list\n  holdfast deadletter list --workflow summaries --json"),
		showCommand("Show a job that was given up, with the evidence of every attempt", "  holdfast deadletter show 019ad3c8-5f0e"),
		replayJobCommand(),
		wordCommand("discard", "End a job for good; its key is free then",
			`  holdfast deadletter discard 019ad3c8-5f0e --by alice --reason "superseded by doc-18"`))
}

func replayJobCommand() *cobra.Command {
	var m replayMany
	var addr, tenant string
	cmd := &cobra.Command{
		Use:   "replay KEY_OR_ID …",
		Short: "Send jobs out of the dead letter back to their lane; all five fields are needed",
		Long: `Send jobs out of the dead letter back to their lane, each as a new generation of the same job: it is moved and not copied,
and its key answers with the new generation. All five fields are needed, and the log keeps them with each job.

--idempotency-result says what is known of the earlier attempts: not_executed (they had no effect), executed (one had:
nothing is sent, the job is settled as a success), or unknown, which sends again only what has no effect but its cost.

Several jobs are moved one after the other at --rate. Which they are is settled before the first is moved; one that is
refused holds up no other. What an interrupted replay did not reach is still in the dead letter.`,
		Example: `  holdfast deadletter replay 019ad3c8-5f0e --owner alice --reason "provider is back" --idempotency-result not_executed --cost-reviewed --route-override same
  holdfast deadletter replay doc-17 --owner alice --reason "move off it" --idempotency-result unknown --cost-reviewed --route-override backup/gpt-5-mini
  holdfast deadletter replay --all --workflow summaries --last-error server_is_overloaded --rate 5/s --dry-run --owner alice --reason "provider is back" --idempotency-result unknown --cost-reviewed --route-override same`,
		RunE: func(cmd *cobra.Command, args []string) error { return m.run(cmd, addr, tenant, args) },
	}
	f := cmd.Flags()
	f.StringVar(&m.in.Owner, "owner", "", "who takes responsibility for it (replay_owner)")
	f.StringVar(&m.in.Reason, "reason", "", "why it will go better now (replay_reason)")
	f.StringVar(&m.in.IdempotencyResult, "idempotency-result", "", "what is known of earlier attempts: not_executed, executed or unknown")
	f.BoolVar(&m.in.CostReviewed, "cost-reviewed", false, "somebody has looked at what it costs")
	f.StringVar(&m.in.RouteOverride, "route-override", "", "same, PROVIDER or PROVIDER/MODEL")
	f.StringVar(&tenant, "tenant", "", "tenant of the jobs, or of a caller's own key (default any)")
	m.flags(cmd)
	jsonFlag(cmd, &m.asJSON)
	adminFlags(cmd, &addr)
	return cmd
}

// flagsOf names the flags of a replay's fields.
func flagsOf(fields []string) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = "--" + strings.ReplaceAll(strings.TrimPrefix(f, "replay_"), "_", "-")
	}
	return names
}

// wordCommand moves a parked job by a person's word.
func wordCommand(verb, short, example string) *cobra.Command {
	var in admin.Word
	var addr, store, tenant string
	var asJSON bool
	cmd := &cobra.Command{
		Use: verb + " KEY_OR_ID", Short: short, Example: example, Args: oneArg("KEY_OR_ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(in.By) == "" || strings.TrimSpace(in.Reason) == "" {
				return usagef("%s takes --by NAME and --reason TEXT: the log keeps who decided and why", verb)
			}
			if store != "" {
				return moveToolCall(cmd, store, args[0], tenant, asJSON, verb, in)
			}
			return moveJob(cmd, addr, args[0], tenant, asJSON, http.MethodPost, verb, in)
		},
	}
	f := cmd.Flags()
	f.StringVar(&in.By, "by", "", "who decides")
	f.StringVar(&in.Reason, "reason", "", "why")
	if verb == "approve" {
		f.StringVar(&in.IdempotencyResult, "idempotency-result", "", "where an outcome is unknown, what the far side says: not_executed or executed")
	}
	f.StringVar(&tenant, "tenant", "", "tenant of a caller's own key (default any that was seen lately)")
	jsonFlag(cmd, &asJSON)
	adminFlags(cmd, &addr)
	if verb != "discard" {
		f.StringVar(&store, "store", "", "for the call of an MCP tool: the store itself, sqlite:FILE or FILE, through whatever process holds it")
		cmd.MarkFlagsMutuallyExclusive("admin", "store")
	}
	return cmd
}

// moveToolCall moves the call of an MCP tool that waits for its owner, through the process that holds its store: an mcp proxy has
// no port. A job is done by the gateway that has its configuration, and by no other.
func moveToolCall(cmd *cobra.Command, store, name, tenant string, asJSON bool, verb string, in admin.Word) error {
	path, err := storePath(store)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	return withHolder(ctx, path, func(api *adminAPI) error {
		v, err := lookup(ctx, api, name, tenant)
		switch {
		case err != nil:
			return err
		case v.JobID != "":
			return fmt.Errorf("%s is a job, which its gateway does: ask that, with --admin", v.ID)
		}
		id := v.ID
		if err := api.call(ctx, http.MethodPost, "/holdfast/v1/jobs/"+url.PathEscape(id)+"/"+verb, nil, in, &v); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		return sayMoved(cmd.OutOrStdout(), &v, asJSON)
	})
}

// parkedListCommand is a listing of jobs; o says which.
func parkedListCommand(o *listOptions, short, example string) *cobra.Command {
	cmd := listCommand(o)
	cmd.Short, cmd.Example = short, example
	if o.lane == "" {
		cmd.Flags().StringVar(&o.lane, "lane", "", "only this lane: background_retry, owner_review or dead_letter")
	}
	return cmd
}
