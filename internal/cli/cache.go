package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/admin"
)

// cacheCommand is `holdfast cache`.
func cacheCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "cache",
		Short: "List, show and purge the answers that other requests may be given",
		Long: `List, show and purge the answers that other requests may be given.

An entry leads to the answer of one operation, whose id it has; what is asked and answered stands there and nowhere else. Purging takes
an entry out of the cache: the operation stays on record, and its own key goes on replaying it.`,
		Example: `  holdfast cache list --workflow product_copy
  holdfast cache show 019ad3c8-5f0e-7a51-b0c5-6f3e0f5a9d11
  holdfast cache purge --workflow product_copy --tenant acme`,
	}, cacheListCommand(), cacheShowCommand(), cachePurgeCommand())
}

// cachePage asks for one page.
func (a *adminAPI) cachePage(ctx context.Context, q url.Values) (page []admin.CacheEntry, err error) {
	return page, a.call(ctx, http.MethodGet, "/holdfast/v1/cache", q, nil, &page)
}

// noCache says what errNoSuch means here.
func noCache(api *adminAPI, err error) error {
	if errors.Is(err, errNoSuch) {
		return fmt.Errorf("%s knows nothing of a cache: it is no admin port, or that of an older version; name the address of `holdfast serve --admin`", api.name)
	}
	return err
}

func cacheListCommand() *cobra.Command {
	var addr, workflow, tenant string
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List entries, newest first",
		Example: `  holdfast cache list
  holdfast cache list --workflow product_copy --tenant acme --limit 20
  holdfast cache list --json | jq 'group_by(.workflow) | map({(.[0].workflow): length}) | add'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usagef("--limit is a number of entries, 0 for all")
			}
			api, err := dialAdmin(addr)
			if err != nil {
				return err
			}
			list, more, err := cacheEntries(cmd.Context(), api, workflow, tenant, limit)
			if err != nil {
				return noCache(api, err)
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), list)
			}
			if err := showCache(cmd.OutOrStdout(), list, time.Now()); err != nil || !more {
				return err
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "there are more than these %d; --limit N shows more, 0 all\n", limit)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&workflow, "workflow", "", "only this workflow")
	f.StringVar(&tenant, "tenant", "", "only this tenant")
	f.IntVar(&limit, "limit", 1000, "at most so many; 0 for all")
	jsonFlag(cmd, &asJSON)
	adminFlags(cmd, &addr)
	return cmd
}

// cacheEntries follows the pages up to the limit; more says that there are others.
func cacheEntries(ctx context.Context, api *adminAPI, workflow, tenant string, limit int) (list []admin.CacheEntry, more bool, err error) {
	list = []admin.CacheEntry{}
	q := url.Values{}
	for name, v := range map[string]string{"workflow": workflow, "tenant": tenant} {
		if v != "" {
			q.Set(name, v)
		}
	}
	for {
		n := listPage
		if limit > 0 {
			n = min(n, limit-len(list)+1) // one more tells whether there are others
		}
		q.Set("limit", strconv.Itoa(n))
		page, err := api.cachePage(ctx, q)
		if err != nil {
			return nil, false, err
		}
		list = append(list, page...)
		if limit > 0 && len(list) > limit {
			return list[:limit], true, nil
		}
		if len(page) < n {
			return list, false, nil
		}
		last := page[len(page)-1]
		q.Set("before", last.Entry)
		q.Set("before_kind", last.Kind.String())
	}
}

func showCache(out io.Writer, list []admin.CacheEntry, now time.Time) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "no answer is given to other requests")
		return err
	}
	return table(out, func(w io.Writer) {
		fmt.Fprintln(w, "ENTRY\tKIND\tTENANT\tWORKFLOW\tTEMPLATE\tMADE\tENDS")
		for i := range list {
			v := &list[i]
			ends := ago(&v.ExpiresAt, now)
			if v.Stale {
				ends = "found by nobody: of another version"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", clean(v.Entry, 36), v.Kind, clean(v.Tenant, 24), clean(v.Workflow, 24), or(clean(v.Template, 24)),
				ago(&v.MadeAt, now), ends)
		}
	})
}

func cacheShowCommand() *cobra.Command {
	var addr string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ENTRY",
		Short: "Show the entries of one operation; `holdfast trace` shows the operation itself",
		Example: `  holdfast cache show 019ad3c8-5f0e-7a51-b0c5-6f3e0f5a9d11
  holdfast cache show 019ad3c8-5f0e-7a51-b0c5-6f3e0f5a9d11 --json`,
		Args: oneArg("ENTRY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := dialAdmin(addr)
			if err != nil {
				return err
			}
			var list []admin.CacheEntry
			err = api.call(cmd.Context(), http.MethodGet, "/holdfast/v1/cache/"+url.PathEscape(args[0]), nil, nil, &list)
			if errors.Is(err, errNoSuch) {
				return fmt.Errorf("no other request is given the answer of %s; `holdfast cache list` shows the entries, `holdfast trace` the operation", clean(args[0], 64))
			}
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), list)
			}
			return showCacheEntry(cmd.OutOrStdout(), list, time.Now())
		},
	}
	jsonFlag(cmd, &asJSON)
	adminFlags(cmd, &addr)
	return cmd
}

func showCacheEntry(out io.Writer, list []admin.CacheEntry, now time.Time) error {
	return table(out, func(w io.Writer) {
		for i := range list {
			v := &list[i]
			found := "by the meaning of its question, a vector of " + plural(v.Dimensions, "dimension")
			if v.Template != "" {
				found = "by the values of the template " + clean(v.Template, 64)
			}
			if v.Stale {
				found = "by nobody: it is of another version"
			}
			if i > 0 {
				fmt.Fprintln(w)
			}
			for _, line := range [][2]string{{"entry", clean(v.Entry, 64)}, {"kind", v.Kind.String()}, {"found", found}, {"tenant", clean(v.Tenant, 0)},
				{"workflow", clean(v.Workflow, 0)}, {"served model", or(clean(v.Model, 0))}, {"partition", clean(v.Partition, 16)},
				{"made", stampAgo(&v.MadeAt, now)}, {"ends", stampAgo(&v.ExpiresAt, now)}} {
				fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
			}
		}
	})
}

func cachePurgeCommand() *cobra.Command {
	var flags orderFlags
	var in admin.Purge
	cmd := &cobra.Command{
		Use:   "purge [ENTRY]",
		Short: "Take entries out of the cache: one, a workflow's, a tenant's, or all",
		Long: `Take entries out of the cache: one, a workflow's, a tenant's, or all of them.

The operations and their answers stay on record. Answers that are on their way while it runs may be found afterwards.`,
		Example: `  holdfast cache purge 019ad3c8-5f0e-7a51-b0c5-6f3e0f5a9d11
  holdfast cache purge --workflow product_copy --tenant acme
  holdfast cache purge --all`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if in.By = flags.who(); len(args) > 0 {
				in.Entry = args[0]
			}
			if chosen := in.Entry != "" || in.Tenant != "" || in.Workflow != ""; chosen == in.All {
				return usagef("purge takes an ENTRY, --workflow or --tenant, or --all alone; see %s --help", cmd.CommandPath())
			}
			return cachePurge(cmd, &flags, &in)
		},
	}
	f := cmd.Flags()
	f.StringVar(&in.Workflow, "workflow", "", "only entries of this workflow")
	f.StringVar(&in.Tenant, "tenant", "", "only entries of this tenant")
	f.BoolVar(&in.All, "all", false, "all entries")
	flags.add(cmd)
	return cmd
}

func cachePurge(cmd *cobra.Command, flags *orderFlags, in *admin.Purge) error {
	api, err := dialAdmin(flags.addr)
	if err != nil {
		return err
	}
	var out admin.Purged
	if err := api.call(cmd.Context(), http.MethodPost, "/holdfast/v1/cache/purge", nil, in, &out); err != nil {
		return noCache(api, err)
	}
	if flags.asJSON {
		return writeJSON(cmd.OutOrStdout(), out)
	}
	text := "nothing was found that this names; `holdfast cache list` shows the entries"
	switch out.Entries {
	case 0:
	case 1:
		text = "1 entry is found by no request any more"
	default:
		text = fmt.Sprintf("%d entries are found by no request any more", out.Entries)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}
