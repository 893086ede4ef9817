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
	cmd.Flags().StringVar(&s.store, "store", "", "read this store, sqlite:FILE, FILE or postgres://USER@HOST/DB, instead of asking a gateway; one may run on it")
	cmd.MarkFlagsMutuallyExclusive("admin", "store")
}

// open returns the API to ask, and how to be done with it.
func (s *operationSource) open(ctx context.Context) (*adminAPI, func() error, error) {
	if s.store != "" {
		found, err := storeAt(s.store)
		if err != nil {
			return nil, nil, err
		}
		return openBeside(ctx, found)
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
	intentID = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	shortID  = regexp.MustCompile(`^[0-9a-fA-F]{1,5}$`)
	idPrefix = regexp.MustCompile(`^[0-9a-fA-F][0-9a-fA-F-]{5,34}$`)
)

const (
	candidates = 5    // that are named where a prefix fits several
	prefixPage = 1000 // far more than begin in one moment
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
	if errors.Is(err, errNoSuch) && shortID.MatchString(name) {
		return v, fmt.Errorf("no operation has the key %q; the beginning of an id takes six characters or more", name)
	}
	if errors.Is(err, errNoSuch) {
		return v, fmt.Errorf("no operation has the id or the key %q%s; holdfast intents list --all shows what there is", clean(name, 80), ofTenant(tenant))
	}
	return v, err
}

// byPrefix finds the one operation whose id begins with name. Listings go back in time, and an id begins with its
// own: a page that begins just behind the last moment that fits holds it, if anything does.
func byPrefix(ctx context.Context, api *adminAPI, name string, q url.Values, tenant string) (v admin.Intent, err error) {
	if !idPrefix.MatchString(name) {
		return v, errNoSuch
	}
	name = strings.ToLower(name)
	limit := candidates + 1
	if len(name) > len("01a22a4b-b30f") { // others of the same moment may stand before it
		limit = prefixPage
	}
	q.Set("before", momentAfter(name))
	q.Set("limit", strconv.Itoa(limit))
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

// momentAfter is an id's beginning that is later than any id which begins with prefix. The time of an id is its first
// twelve digits, in milliseconds; two more make up for makers that count alike.
func momentAfter(prefix string) string {
	digits := strings.ReplaceAll(prefix, "-", "") + "ffffffffffff"
	ms, err := strconv.ParseUint(digits[:12], 16, 64)
	if err != nil || ms > 1<<48-3 {
		return "ffffffff-ffff"
	}
	digits = fmt.Sprintf("%012x", ms+2)
	return digits[:8] + "-" + digits[8:]
}

func ofTenant(tenant string) string {
	if tenant == "" {
		return " with any tenant that was seen lately; --tenant names another"
	}
	return " with tenant " + clean(tenant, 80)
}
