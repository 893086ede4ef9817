package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/admin"
)

// replicasCommand is `holdfast replicas`.
func replicasCommand() *cobra.Command {
	var addr string
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "replicas",
		Short: "List the gateways that work on one store",
		Long: `List the gateways that work on one store, as any one of them knows them from it.

up takes calls. draining was told to stop, and finishes what it has. ended stopped in order and holds nothing; lost has written no heartbeat in
time: it crashed, hangs, or is cut off from the store, and what it worked on is taken over. Without --all, those that ended are left out,
and those that were lost more than an hour ago.`,
		Example: `  holdfast replicas
  holdfast replicas --json | jq -r '.[] | select(.state == "lost") | .address'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := dialAdmin(addr)
			if err != nil {
				return err
			}
			list, err := api.replicas(cmd.Context(), all)
			if errors.Is(err, errNoSuch) {
				return fmt.Errorf("%s knows nothing of replicas: it is no admin port, or that of an older version; name the address of `holdfast serve --admin`", api.name)
			}
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), list)
			}
			return showReplicas(cmd.OutOrStdout(), list, time.Now())
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also those that ended, and those that were lost long ago")
	jsonFlag(cmd, &asJSON)
	adminFlags(cmd, &addr)
	return cmd
}

func (a *adminAPI) replicas(ctx context.Context, all bool) (list []admin.Replica, err error) {
	q := url.Values{}
	if all {
		q.Set("all", "1")
	}
	return list, a.call(ctx, http.MethodGet, "/holdfast/v1/replicas", q, nil, &list)
}

func showReplicas(out io.Writer, list []admin.Replica, now time.Time) error {
	return table(out, func(w io.Writer) {
		fmt.Fprintln(w, "REPLICA\tSTATE\tADDRESS\tVERSION\tSINCE\tLAST HEARTBEAT\t")
		for i := range list {
			v := &list[i]
			self := ""
			if v.Self {
				self = "answers here"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", clean(v.Replica, 40), v.State, or(clean(v.Address, 60)), or(clean(v.Version, 24)),
				ago(v.StartedAt, now), ago(v.BeatAt, now), self)
		}
	})
}

// routeList is the live state of the routes, with the replicas of which it is not.
type routeList struct {
	list      []admin.Route
	unreached string
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *routeList) UnmarshalJSON(text []byte) error { return json.Unmarshal(text, &l.list) }

func (l *routeList) headed(h http.Header) { l.unreached = h.Get(admin.UnreachedHeader) }

// warnUnreached says, beside a list, that it is not whole.
func (l *routeList) warnUnreached(out io.Writer) {
	if l.unreached != "" {
		fmt.Fprintf(out, "not reached, so that their routes are not listed: %s (`holdfast replicas` shows the replicas)\n", clean(l.unreached, 0))
	}
}

// shortReplica is the end of a replica's id, by which people tell a few of them apart.
func shortReplica(id string) string {
	id = clean(id, 40)
	if r := []rune(id); len(r) > 12 {
		return "…" + string(r[len(r)-8:])
	}
	return id
}

// sayReplicas is how far an order went.
func sayReplicas(o admin.Obeyed) string {
	if o.Replicas == 0 {
		return ""
	}
	text := fmt.Sprintf(" (on %s)", plural(o.Replicas, "replica"))
	if len(o.Unreached) == 0 {
		return text
	}
	var b strings.Builder
	b.WriteString(text)
	for _, u := range o.Unreached {
		fmt.Fprintf(&b, "\nNOT REACHED, and goes on as before: replica %s at %s: %s", clean(u.Replica, 40), or(clean(u.Address, 60)), clean(u.Why, 200))
	}
	b.WriteString("\ngive the order again once they are there; `holdfast replicas` shows them")
	return b.String()
}
