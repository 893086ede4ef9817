package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/ledger"
)

// operationSource says where a command reads operations from: a running gateway, or its store beside it.
type operationSource struct{ admin, store string }

func (s *operationSource) add(cmd *cobra.Command) {
	adminFlags(cmd, &s.admin)
	cmd.Flags().StringVar(&s.store, "store", "", "read this store, sqlite:FILE or FILE, instead of asking a gateway; one may run on it")
	cmd.MarkFlagsMutuallyExclusive("admin", "store")
}

// open returns the API to ask, and how to be done with it.
func (s *operationSource) open(ctx context.Context) (*adminAPI, func() error, error) {
	if s.store != "" {
		path, err := storePath(s.store)
		if err != nil {
			return nil, nil, err
		}
		return openBeside(ctx, path)
	}
	api, err := dialAdmin(s.admin)
	if err != nil {
		return nil, nil, err
	}
	api.instead = ", or read its store with --store FILE"
	return api, func() error { return nil }, nil
}

// with opens the source for the length of f.
func (s *operationSource) with(ctx context.Context, f func(*adminAPI) error) error {
	api, done, err := s.open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(api), done())
}

var (
	intentID   = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	idPrefix   = regexp.MustCompile(`^[0-9a-fA-F][0-9a-fA-F-]{5,34}$`)
	highestID  = "ffffffff-ffff-ffff-ffff-ffffffffffff"
	candidates = 5 // that are named where a prefix fits several
)

// lookup finds an operation by its id, its full idem:… key, its caller's own key, or the beginning of its id. Callers
// like UUIDs for keys, so what looks like an id may be one. Where several ids begin alike, one in a state that is
// preferred is meant.
func lookup(ctx context.Context, api *adminAPI, name, tenant string, preferred ...ledger.State) (admin.Intent, error) {
	if intentID.MatchString(name) {
		v, err := api.intent(ctx, strings.ToLower(name))
		if !errors.Is(err, errNoSuch) {
			return v, err
		}
	}
	v, err := api.byKey(ctx, name, tenant)
	for _, state := range preferred {
		if errors.Is(err, errNoSuch) {
			v, err = byPrefix(ctx, api, name, url.Values{"state": {state.String()}}, tenant)
		}
	}
	if errors.Is(err, errNoSuch) {
		v, err = byPrefix(ctx, api, name, url.Values{"all": {"1"}}, tenant)
	}
	if errors.Is(err, errNoSuch) {
		return v, fmt.Errorf("no operation has the id or the key %q%s; holdfast intents list --all shows what there is", clean(name, 80), ofTenant(tenant))
	}
	return v, err
}

// byPrefix finds the one operation whose id begins with name. Ids are ordered, so a page that ends at the highest id
// with this beginning holds it, if anything does.
func byPrefix(ctx context.Context, api *adminAPI, name string, q url.Values, tenant string) (v admin.Intent, err error) {
	if !idPrefix.MatchString(name) {
		return v, errNoSuch
	}
	name = strings.ToLower(name)
	q.Set("before", name+highestID[len(name):])
	q.Set("limit", strconv.Itoa(candidates+1))
	if tenant != "" {
		q.Set("tenant", tenant)
	}
	page, err := api.list(ctx, q)
	if err != nil {
		return v, err
	}
	var ids []string
	for _, found := range page {
		if strings.HasPrefix(found.ID, name) {
			ids = append(ids, found.ID)
		}
	}
	switch {
	case len(ids) == 0:
		return v, errNoSuch
	case len(ids) > candidates:
		return v, fmt.Errorf("more than %d ids begin with %s; give more of it", candidates, name)
	case len(ids) > 1:
		return v, fmt.Errorf("%d ids begin with %s; give more of it:\n  %s", len(ids), name, strings.Join(ids, "\n  "))
	}
	return api.intent(ctx, ids[0]) // a page is without history
}

func ofTenant(tenant string) string {
	if tenant == "" {
		return " with any tenant that was seen lately; --tenant names another"
	}
	return " with tenant " + clean(tenant, 80)
}
