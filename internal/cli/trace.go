package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/ledger"
)

// traceCommand is `holdfast trace`.
func traceCommand() *cobra.Command {
	var from operationSource
	var tenant string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "trace KEY_OR_ID",
		Short: "Say what happened to one operation: whether it ran more than once, whether it was unknown, and when what",
		Long: `Say what happened to one operation. First the verdict and the answers to the questions that an investigation asks: did
it run more than once, was its outcome ever unknown and how did that end, who looked for its effect and with which evidence,
where does its key come from. Then everything
on record in the order of time, for all operations that had the same key. docs/trace.md explains the words.

KEY_OR_ID is an intent's id (Holdfast-Intent) or its beginning, a full idem:… key, or the caller's own Idempotency-Key.`,
		Example: `  holdfast trace order-4711
  holdfast trace 019ad3c8-5f0e-7a51-b0c5-6f3e0f5a9d11 --json
  holdfast trace idem:production:main:default:0c1d… --store holdfast.db     # the gateway need not run`,
		Args: oneArg("KEY_OR_ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.with(cmd.Context(), func(api *adminAPI) error {
				t, err := gather(cmd.Context(), api, args[0], tenant)
				if err != nil {
					return err
				}
				t.store = from.store
				if asJSON {
					return writeJSON(cmd.OutOrStdout(), t.report())
				}
				return t.write(cmd.OutOrStdout(), time.Now())
			})
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "tenant of a caller's own key (default any that was seen lately)")
	jsonFlag(cmd, &asJSON)
	from.add(cmd)
	return cmd
}

// siblings bounds the operations of one key that are told, the newest.
const siblings = 50

// trace is an operation with the others that had its key.
type trace struct {
	asked admin.Intent
	ops   []admin.Intent // oldest first, asked among them
	more  bool           // older ones are left out
	store string         // that was named to read them from; else a gateway was asked
	tally
}

// gather reads the operation that was asked for and its siblings.
func gather(ctx context.Context, api *adminAPI, name, tenant string) (*trace, error) {
	asked, err := lookup(ctx, api, name, tenant)
	if err != nil {
		return nil, err
	}
	t := &trace{asked: asked}
	if err := t.addSiblings(ctx, api); err != nil {
		return nil, err
	}
	t.ops = append(t.ops, asked)
	slices.SortFunc(t.ops, func(a, b admin.Intent) int { return strings.Compare(a.ID, b.ID) })
	t.tally = tallyOf(t.ops)
	return t, nil
}

func (t *trace) addSiblings(ctx context.Context, api *adminAPI) error {
	if t.asked.IdempotencyKey == "" {
		return nil
	}
	list, err := api.list(ctx, url.Values{"idempotency_key": {t.asked.IdempotencyKey}, "all": {"1"}, "limit": {strconv.Itoa(siblings + 1)}})
	if err != nil {
		return err
	}
	if t.more = len(list) > siblings; t.more {
		list = list[:siblings]
	}
	for _, v := range list {
		if v.ID == t.asked.ID {
			continue
		}
		full, err := api.intent(ctx, v.ID)
		if errors.Is(err, errNoSuch) {
			continue // swept since
		}
		if err != nil {
			return err
		}
		t.ops = append(t.ops, full)
	}
	return nil
}

// traceReport is a trace as JSON.
type traceReport struct {
	ID            string          `json:"id"`
	Verdict       verdict         `json:"verdict"`
	Answers       []traceAnswer   `json:"answers"`
	UpstreamCalls int             `json:"upstream_calls"`
	Ends          map[string]int  `json:"ends"` // calls by how they ended
	Billed        int             `json:"possibly_billed"`
	Duplicates    int             `json:"duplicates"`
	Unknown       []unknownPeriod `json:"unknown"`
	Checks        []checkLine     `json:"checks"`
	Truncated     bool            `json:"truncated,omitempty"` // older operations of this key are left out
	Operations    []admin.Intent  `json:"operations"`
	Timeline      []moment        `json:"timeline"`
}

type traceAnswer struct {
	Question string `json:"question"`
	Answer   string `json:"answer"`
}

func (t *trace) report() traceReport {
	r := traceReport{ID: t.asked.ID, Verdict: t.verdict(), Answers: t.answers(time.Now()), UpstreamCalls: t.calls, Ends: t.ends(), Billed: t.billed,
		Duplicates: t.duplicates, Unknown: t.periods, Checks: append([]checkLine{}, t.checks...), Truncated: t.more, Timeline: timelineOf(t.ops)}
	for _, v := range t.ops {
		v.History = nil // the timeline has it
		r.Operations = append(r.Operations, v)
	}
	return r
}

func (t *trace) answers(now time.Time) []traceAnswer {
	list := []traceAnswer{
		{"Did it run more than once?", t.sayRuns()},
		{"Was its outcome ever unknown?", t.sayUnknown(now)},
	}
	if t.everHeld() {
		list = append(list, traceAnswer{checkQuestion, t.sayChecks(now)})
	}
	return append(list, traceAnswer{"Where does its key come from?", t.sayKey()})
}

// target is what was called.
func target(v *admin.Intent) string {
	if isTool(v) {
		return fmt.Sprintf("%s, tool %s", clean(v.Path, 80), clean(v.Endpoint, 128))
	}
	return fmt.Sprintf("%s %s, %s, model %s", v.Method, clean(v.Path, 80), or(v.Provider), or(clean(v.RequestedModel, 60)))
}

// write prints the trace for a person.
func (t *trace) write(out io.Writer, now time.Time) error {
	var b strings.Builder
	v := &t.asked
	fmt.Fprintf(&b, "%s: %s\n\n", v.ID, t.verdict())
	fmt.Fprintf(&b, "  %s, %s; created %s\n", v.State, v.Outcome, stampAgo(v.CreatedAt, now))
	fmt.Fprintf(&b, "  %s; %s, on unknown: %s; workflow %s, tenant %s\n", target(v), v.Effect, v.OnUnknown, v.Workflow, v.Tenant)
	if v.Delivery == ledger.DeliveryLost.String() {
		b.WriteString("  the answer did not reach its client\n")
	}
	if v.ParentID != "" {
		fmt.Fprintf(&b, "  goes on from %s\n", v.ParentID)
	}
	b.WriteString(sayArguments(v.Call))
	for _, a := range t.answers(now) {
		fmt.Fprintf(&b, "\n%s\n", a.Question)
		for line := range strings.Lines(a.Answer) {
			fmt.Fprintf(&b, "  %s\n", clean(strings.TrimSuffix(line, "\n"), 0))
		}
	}
	if t.more {
		fmt.Fprintf(&b, "\nOnly the newest %d operations of this key are shown.\n", siblings)
	}
	b.WriteString("\nWhat is on record, ")
	if _, err := io.WriteString(out, b.String()); err != nil {
		return err
	}
	return writeTimeline(out, timelineOf(t.ops))
}
