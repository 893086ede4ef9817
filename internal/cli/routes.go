package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/admin"
)

// routesCommand is `holdfast routes`.
func routesCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "routes",
		Short: "See the live state of routes; pause, trip and reset them, or make them fail on purpose",
		Long: `See the live state of routes, and take them in hand.

A route is provider/model/endpoint/credential, as ` + "`holdfast routes list`" + ` shows it. All commands but list also take a
pattern, in which * stands for any characters: openai/*, */gpt-5/*. What is ordered holds for routes that no call has
used yet, too, and until the gateway ends. Where several gateways work on one store, the list is of all of them, and an
order goes to all that can be reached; it says which could not.`,
		Example: `  holdfast routes list
  holdfast routes pause 'openai/*' --reason "invoice dispute"
  holdfast routes resume 'openai/*'
  holdfast routes trip '*/gpt-5/*' --reason "answers are garbage"
  holdfast routes reset '*/gpt-5/*'
  holdfast routes fault 'openai/*' --probability 0.2 --status 503 --for 10m
  holdfast routes heal 'openai/*'`,
	}, routesListCommand(),
		orderCommand("pause", "Refuse all calls on routes until they are resumed; calls that run go on", true,
			`  holdfast routes pause openai/gpt-5/chat.completions/8e14cf0a --reason "invoice dispute"
  holdfast routes pause 'openai/*' --reason "invoice dispute"`),
		orderCommand("resume", "Let calls go on routes that were paused", false, "  holdfast routes resume 'openai/*'"),
		orderCommand("trip", "Open the circuit breakers of routes until they are reset", true,
			`  holdfast routes trip '*/gpt-5/*' --reason "answers are garbage since 14:00"`),
		orderCommand("reset", "Close the circuit breakers of routes, and end their cool-downs", false,
			"  holdfast routes reset 'openai/*'   # after the limit was raised"),
		faultCommand(), orderCommand("heal", "End the faults that were injected under this pattern; '*' ends all", false,
			"  holdfast routes heal 'openai/*'\n  holdfast routes heal '*'"))
}

// routes returns the live state of the routes.
func (a *adminAPI) routes(ctx context.Context) (list routeList, err error) {
	return list, a.call(ctx, http.MethodGet, "/holdfast/v1/routes", nil, nil, &list)
}

// order gives one of POST /holdfast/v1/routes/….
func (a *adminAPI) order(ctx context.Context, action string, in any) (out admin.Obeyed, err error) {
	return out, a.call(ctx, http.MethodPost, "/holdfast/v1/routes/"+action, nil, in, &out)
}

// noRoutes says what errNoSuch means here.
func noRoutes(api *adminAPI, err error) error {
	if errors.Is(err, errNoSuch) {
		return fmt.Errorf("%s knows nothing of routes: it is no admin port, or that of an older version; name the address of `holdfast serve --admin`", api.name)
	}
	return err
}

func routesListCommand() *cobra.Command {
	var addr string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the routes that were called, with breaker, cool-down, slots and faults",
		Example: `  holdfast routes list
  holdfast routes list --json | jq '.[] | select(.breaker.state != "closed")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := dialAdmin(addr)
			if err != nil {
				return err
			}
			list, err := api.routes(cmd.Context())
			if err != nil {
				return noRoutes(api, err)
			}
			list.warnUnreached(cmd.ErrOrStderr())
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), list.list)
			}
			return showRoutes(cmd.OutOrStdout(), list.list, time.Now())
		},
	}
	jsonFlag(cmd, &asJSON)
	adminFlags(cmd, &addr)
	return cmd
}

// orderFlags are the flags that all orders have.
type orderFlags struct {
	addr, by string
	asJSON   bool
}

func (o *orderFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.by, "by", "", "who orders it, for the gateway's log (default the user of this shell)")
	jsonFlag(cmd, &o.asJSON)
	adminFlags(cmd, &o.addr)
}

func (o *orderFlags) who() string {
	if o.by != "" {
		return o.by
	}
	u, err := user.Current()
	if err != nil {
		return "" // a container without a name for its user: the credential is logged all the same
	}
	return u.Username
}

// give sends an order and says what became of it.
func (o *orderFlags) give(cmd *cobra.Command, action string, in any, say func(admin.Obeyed) (string, error)) error {
	api, err := dialAdmin(o.addr)
	if err != nil {
		return err
	}
	out, err := api.order(cmd.Context(), action, in)
	if err != nil {
		return noRoutes(api, err)
	}
	if o.asJSON {
		return writeJSON(cmd.OutOrStdout(), out)
	}
	text, err := say(out)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

func orderCommand(action, short string, reasoned bool, example string) *cobra.Command {
	var flags orderFlags
	var reason string
	cmd := &cobra.Command{Use: action + " ROUTE", Short: short, Example: example, Args: oneArg("ROUTE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reasoned && strings.TrimSpace(reason) == "" {
				return usagef("%s takes --reason TEXT: it is what clients are told, and what the next operator finds", action)
			}
			return flags.give(cmd, action, admin.Order{Route: args[0], Reason: reason, By: flags.who()}, sayObeyed)
		}}
	if reasoned {
		cmd.Use += " --reason TEXT"
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; clients are told of it where calls are refused")
	flags.add(cmd)
	return cmd
}

var obeyedWords = map[string]string{"pause": "paused", "resume": "resumed", "trip": "tripped", "reset": "reset"}

// sayObeyed says how many routes an order reached. One that reached none may be a slip of the hand, or made in advance.
func sayObeyed(o admin.Obeyed) (string, error) {
	name := clean(o.Route, 0)
	if o.Action == "heal" {
		if o.Known == 0 {
			return "", fmt.Errorf("no fault is on under exactly %q; `holdfast routes list` shows those that are", name)
		}
		return fmt.Sprintf("%s: healed, %s ended%s", name, plural(o.Known, "fault"), sayReplicas(o)), nil
	}
	return name + ": " + obeyedWords[o.Action] + reached(o) + sayReplicas(o), nil
}

func reached(o admin.Obeyed) string {
	standing := o.Action != "resume" && o.Action != "reset" // lifting leaves nothing that stands
	switch {
	case o.Known == 0 && standing:
		return ", but no call has used a route of that name yet; it holds for those to come (`holdfast routes list` shows the known ones)"
	case o.Known == 0:
		return ", though no call has used a route of that name yet (`holdfast routes list` shows the known ones)"
	case strings.Contains(o.Route, "*") && standing:
		return fmt.Sprintf(", %s now, and those to come", plural(o.Known, "route"))
	}
	return ", " + plural(o.Known, "route")
}

func faultCommand() *cobra.Command {
	var flags orderFlags
	var in admin.FaultOrder
	var retryAfter, latency, length time.Duration
	var probability float64
	cmd := &cobra.Command{
		Use:   "fault ROUTE",
		Short: "Make calls on routes fail on purpose, for a while; the gateway must allow it",
		Long: `Make calls on routes fail on purpose, for a while. The configuration of the gateway must allow it (drills: {allow: true}),
and bounds how long a fault may last (drills.max). While one is on, the gateway says so in its log once a minute, and
` + "`holdfast routes list`" + ` in capitals. It ends by itself, by heal, or with the gateway.

--status answers in the provider's place: nothing is sent. --latency is waited for first, --cut breaks the provider's
own answer off. A fault under the same pattern takes the place of the one before.`,
		Example: `  holdfast routes fault 'openai/*' --probability 0.2 --status 503 --for 10m
  holdfast routes fault 'openai/*' --status 429 --retry-after 5s --for 1m
  holdfast routes fault '*' --latency 2s --cut 100 --probability 0.5`,
		Args: oneArg("ROUTE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Route, in.By = args[0], flags.who()
			for _, d := range []struct {
				flag string
				d    time.Duration
				to   *int64
			}{{"retry-after", retryAfter, &in.RetryAfterMs}, {"latency", latency, &in.LatencyMs}, {"for", length, &in.ForMs}} {
				if d.d < 0 || d.d > 0 && d.d < time.Millisecond {
					return usagef("--%s is a time such as 500ms or 5s", d.flag)
				}
				*d.to = d.d.Milliseconds()
			}
			in.Probability = &probability
			if in.Status == 0 && latency == 0 && in.CutBytes == 0 {
				return usagef("fault takes what is to happen: --status N, --latency TIME or --cut BYTES; see %s --help", cmd.CommandPath())
			}
			return byFlags(flags.give(cmd, "fault", in, sayFault))
		},
	}
	f := cmd.Flags()
	f.Float64Var(&probability, "probability", 1, "share of the attempts that meet it, above 0 and at most 1")
	f.IntVar(&in.Status, "status", 0, "answer this status, 300 to 599, in the provider's place")
	f.DurationVar(&retryAfter, "retry-after", 0, "with Retry-After")
	f.StringVar(&in.Body, "body", "", "with this body (default the error that the API called would give)")
	f.DurationVar(&latency, "latency", 0, "wait so long first")
	f.IntVar(&in.CutBytes, "cut", 0, "break the provider's answer off after so many bytes")
	f.DurationVar(&length, "for", 10*time.Minute, "how long it is on")
	f.StringVar(&in.Reason, "reason", "", "why, for the gateway's log")
	flags.add(cmd)
	return cmd
}

// byFlags names in a refusal the flags that stand for the API's fields.
func byFlags(err error) error {
	var usage *usageError
	if !errors.As(err, &usage) {
		return err
	}
	return &usageError{errors.New(strings.NewReplacer("retry_after_ms", "--retry-after", "latency_ms", "--latency", "for_ms", "--for",
		"cut_bytes", "--cut", ", in milliseconds", "").Replace(err.Error()))}
}

func sayFault(o admin.Obeyed) (string, error) {
	until := ""
	if o.Until != nil {
		until = " until " + stamp(*o.Until)
	}
	return fmt.Sprintf("%s: FAULT INJECTION IS ON%s%s%s\nend it with: holdfast routes heal '%s'", clean(o.Route, 0), until, reached(o), sayReplicas(o), clean(o.Route, 0)), nil
}
