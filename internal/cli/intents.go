package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/ledger"
)

// intentsCommand is `holdfast intents`.
func intentsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "intents",
		Short: "List, show and resolve operations",
		Example: `  holdfast intents list --state unknown
  holdfast intents show 019ad3c8-5f0e-7a51-b0c5-6f3e0f5a9d11
  holdfast intents resolve 019ad3c8-5f0e-7a51-b0c5-6f3e0f5a9d11 --outcome success --by alice --reason "charge ch_1 is in the dashboard"`,
	}, intentsListCommand(), intentsShowCommand(), intentsResolveCommand())
}

// listOptions are the flags of `holdfast intents list`.
type listOptions struct {
	from                                             operationSource
	state, outcome, workflow, tenant, older, younger string
	limit                                            int
	all, asJSON                                      bool

	lane         string
	jobs, parked bool // only jobs; only what stands in lane now
}

func intentsListCommand() *cobra.Command { return listCommand(&listOptions{}) }

func listCommand(o *listOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List operations, newest first; those that are not settled unless --all, --state or --outcome says otherwise",
		Example: `  holdfast intents list                                    # what is not settled
  holdfast intents list --state unknown --older-than 10m
  holdfast intents list --outcome failed --newer-than 24h --workflow support_chat --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.limit < 0 {
				return usagef("--limit is a number of operations, 0 for all")
			}
			return o.from.with(cmd.Context(), func(api *adminAPI) error {
				return o.run(cmd.Context(), api, cmd.OutOrStdout(), cmd.ErrOrStderr())
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.state, "state", "", "states, separated by commas: intent_created, dispatched, unknown, confirmed, settled")
	f.StringVar(&o.outcome, "outcome", "", "outcomes, separated by commas: pending, success, failed, unknown, discarded")
	f.StringVar(&o.workflow, "workflow", "", "only this workflow")
	f.StringVar(&o.tenant, "tenant", "", "only this tenant")
	f.StringVar(&o.older, "older-than", "", "created before: an age such as 10m, or a time such as 2026-11-29T20:00:00Z")
	f.StringVar(&o.younger, "newer-than", "", "created after, likewise")
	f.IntVar(&o.limit, "limit", 1000, "at most so many; 0 for all")
	f.BoolVar(&o.all, "all", false, "settled ones too")
	jsonFlag(cmd, &o.asJSON)
	o.from.add(cmd)
	return cmd
}

// listPage is how many operations are asked for at a time.
const listPage = 500

func (o *listOptions) run(ctx context.Context, api *adminAPI, out, report io.Writer) error {
	row, end := o.printer(out)
	more, err := o.each(ctx, api, row)
	if err != nil {
		return err
	}
	if err := end(); err != nil {
		return err
	}
	if more {
		_, err = fmt.Fprintf(report, "there are more than these %d; --limit N shows more, 0 all\n", o.limit)
	}
	return err
}

// each follows the pages up to the limit; more says that there are others.
func (o *listOptions) each(ctx context.Context, api *adminAPI, f func(admin.Intent) error) (more bool, err error) {
	q := o.query()
	for shown := 0; ; {
		n := listPage
		if o.limit > 0 {
			n = min(n, o.limit-shown+1) // one more tells whether there are others
		}
		q.Set("limit", strconv.Itoa(n))
		page, err := api.list(ctx, q)
		if err != nil {
			return false, err
		}
		for _, v := range page {
			if o.limit > 0 && shown == o.limit {
				return true, nil
			}
			if err := f(v); err != nil {
				return false, err
			}
			shown++
		}
		if len(page) < n {
			return false, nil
		}
		q.Set("before", page[len(page)-1].ID)
	}
}

func (o *listOptions) query() url.Values {
	q := url.Values{}
	for name, v := range map[string]string{"state": o.state, "outcome": o.outcome, "workflow": o.workflow, "tenant": o.tenant,
		"older_than": o.older, "newer_than": o.younger, "lane": o.lane} {
		if v != "" {
			q.Set(name, strings.ReplaceAll(v, " ", ""))
		}
	}
	if o.all {
		q.Set("all", "1")
	}
	if o.jobs {
		q.Set("jobs", "1")
	}
	return q
}

// none is what a listing without rows says.
func (o *listOptions) none() string {
	if o.parked {
		return "nothing is in " + o.lane
	}
	if o.all || o.state != "" || o.outcome != "" {
		return "no operations"
	}
	return "nothing unsettled; --all shows what is settled"
}

// printer prints one JSON array, or a table.
func (o *listOptions) printer(out io.Writer) (row func(admin.Intent) error, end func() error) {
	if !o.asJSON {
		t := &intentTable{now: time.Now(), none: o.none()}
		return t.add, func() error { return t.write(out) }
	}
	sep := "["
	row = func(v admin.Intent) error {
		if _, err := io.WriteString(out, sep); err != nil {
			return err
		}
		sep = ","
		return writeJSON(out, v)
	}
	return row, func() error {
		if sep == "[" {
			_, err := io.WriteString(out, "[]\n")
			return err
		}
		_, err := io.WriteString(out, "]\n")
		return err
	}
}

// intentTable is a listing for people. The tenant has a column only where there is more than one.
type intentTable struct {
	now  time.Time
	rows []admin.Intent
	none string // in place of rows
}

func (t *intentTable) add(v admin.Intent) error {
	t.rows = append(t.rows, v)
	return nil
}

func (t *intentTable) write(out io.Writer) error {
	if len(t.rows) == 0 {
		_, err := fmt.Fprintln(out, t.none)
		return err
	}
	tenants, model, reasons := false, "MODEL", false
	for _, v := range t.rows {
		reasons = reasons || v.LaneReason != ""
		tenants = tenants || v.Tenant != t.rows[0].Tenant
		if isTool(&v) {
			model = "MODEL/TOOL"
		}
	}
	tenant := func(s string) string {
		if !tenants {
			return ""
		}
		return s + "\t"
	}
	reason := func(s string) string {
		if !reasons {
			return ""
		}
		return "\t" + s
	}
	return table(out, func(w io.Writer) {
		fmt.Fprintf(w, "ID\tCREATED\tSTATE\tOUTCOME\tWORKFLOW\t%s%s\tCALLS\tLAST ERROR%s\n", tenant("TENANT"), model, reason("REASON"))
		for _, v := range t.rows {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s%s\t%d\t%s%s\n", v.ID, ago(v.CreatedAt, t.now), v.State, v.Outcome, clean(v.Workflow, 20),
				tenant(clean(v.Tenant, 28)), or(clean(modelOrTool(&v), 24)), v.Attempt, or(clean(v.LastErrorType, 24)), reason(or(clean(v.LaneReason, 0))))
		}
	})
}

func intentsShowCommand() *cobra.Command {
	var from operationSource
	var tenant string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show KEY_OR_ID",
		Short:   "Show one operation with every field; trace tells its story",
		Example: "  holdfast intents show 019ad3c8-5f0e-7a51-b0c5-6f3e0f5a9d11\n  holdfast intents show order-4711 --tenant shop --json",
		Args:    oneArg("KEY_OR_ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.with(cmd.Context(), func(api *adminAPI) error {
				v, err := lookup(cmd.Context(), api, args[0], tenant)
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(cmd.OutOrStdout(), v)
				}
				return showIntent(cmd.OutOrStdout(), &v, time.Now())
			})
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "tenant of a caller's own key (default any that was seen lately)")
	jsonFlag(cmd, &asJSON)
	from.add(cmd)
	return cmd
}

func intentsResolveCommand() *cobra.Command {
	var addr, store, tenant string
	var r admin.Resolution
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "resolve KEY_OR_ID",
		Short: "Settle an unknown outcome by a person's word, which the log keeps",
		Long: `Settle an unknown outcome by a person's word. Look at the far side first: success keeps the key, so that a repeated
request does nothing; failed releases it, so that a repeated request is executed. The log keeps who said so, and why.
Where a slow service may still act on the call (its quiet period is not over), failed warns: look again before it is repeated.

KEY_OR_ID is an id or its beginning, a full idem:… key or the caller's own. ` + "`holdfast intents list --state unknown`" + ` lists
what can be resolved.

With --store it goes through whatever process holds the store, an mcp proxy too; where none does, this one writes it.`,
		Example: `  holdfast intents list --state unknown
  holdfast intents resolve 019ad3c8-5f0e-7a51 --outcome success --by alice --reason "charge ch_1 is in the dashboard"
  holdfast intents resolve order-4711 --outcome failed --by alice --reason "the dashboard has no charge for it"
  holdfast intents resolve 019ad3c8-5f0e-7a51 --outcome failed --by alice --reason "no such note" --store notes.db`,
		Args: oneArg("KEY_OR_ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.Outcome != "" && r.Outcome != "success" && r.Outcome != "failed" {
				return usagef("--outcome is success (the effect took place) or failed (it did not), not %q", r.Outcome)
			}
			if r.Outcome != "success" && r.Outcome != "failed" || strings.TrimSpace(r.By) == "" || strings.TrimSpace(r.Reason) == "" {
				return usagef("resolve takes --outcome success or failed, --by NAME and --reason TEXT: the log keeps who decided and why")
			}
			resolve := func(api *adminAPI) error {
				v, err := lookup(cmd.Context(), api, args[0], tenant, ledger.Unknown)
				if err != nil {
					return err
				}
				id := v.ID
				if v, err = api.resolve(cmd.Context(), id, r); err != nil {
					return fmt.Errorf("%s: %w", id, err)
				}
				if v.Warning != "" {
					fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", clean(v.Warning, 0))
				}
				if asJSON {
					return writeJSON(cmd.OutOrStdout(), v)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %s; by %s: %s\n", v.ID, v.State, v.Outcome, clean(r.By, 0), clean(r.Reason, 0))
				return err
			}
			if store != "" {
				path, err := storePath(store)
				if err != nil {
					return err
				}
				return withHolder(cmd.Context(), path, resolve)
			}
			api, err := dialAdmin(addr)
			if err != nil {
				return err
			}
			return resolve(api)
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "tenant of a caller's own key (default any that was seen lately)")
	cmd.Flags().StringVar(&r.Outcome, "outcome", "", "success: the effect took place; failed: it did not")
	cmd.Flags().StringVar(&r.By, "by", "", "who decides")
	cmd.Flags().StringVar(&r.Reason, "reason", "", "why: what was seen on the far side")
	jsonFlag(cmd, &asJSON)
	adminFlags(cmd, &addr)
	cmd.Flags().StringVar(&store, "store", "", "the store itself, sqlite:FILE or FILE, instead of a gateway's address")
	cmd.MarkFlagsMutuallyExclusive("admin", "store")
	return cmd
}
