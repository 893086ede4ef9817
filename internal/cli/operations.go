package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/admin"
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

var intentID = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// lookup finds an operation by its id, its full idem:… key, or its caller's own key. Callers like UUIDs for keys, so
// what looks like an id may be one.
func lookup(ctx context.Context, api *adminAPI, name, tenant string) (admin.Intent, error) {
	if intentID.MatchString(name) {
		v, err := api.intent(ctx, strings.ToLower(name))
		if !errors.Is(err, errNoSuch) {
			return v, err
		}
	}
	v, err := api.byKey(ctx, name, tenant)
	if errors.Is(err, errNoSuch) {
		return v, fmt.Errorf("no operation has the id or the key %q%s", clean(name, 80), ofTenant(tenant))
	}
	return v, err
}

func ofTenant(tenant string) string {
	if tenant == "" {
		return " with any tenant that was seen lately; --tenant names another"
	}
	return " with tenant " + clean(tenant, 80)
}
