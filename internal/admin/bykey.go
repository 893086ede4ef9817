package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/ledger"
)

// byKey takes a full idem:… key, or the caller's own key for the tenant that asks. An operator may name a tenant
// (?tenant=); without it the key is looked for with every tenant that was seen lately, since a tenant may be the
// salted hash of a credential, which nobody knows by heart.
func (a *API) byKey(w http.ResponseWriter, r *http.Request, tenant, key string) {
	if tenant == "" {
		tenant = r.URL.Query().Get("tenant")
	}
	keys, err := a.fullKeys(r.Context(), tenant, key)
	var found []*ledger.Record
	if err == nil {
		found, err = a.newest(r.Context(), keys)
	}
	if tenant != "" {
		found = slices.DeleteFunc(found, func(rec *ledger.Record) bool { return rec.Tenant != tenant })
	}
	switch {
	case err != nil:
		a.away(w, err)
	case len(found) == 0:
		fail(w, http.StatusNotFound, "not_found", "no operation has this key")
	case len(found) > 1:
		names := make([]string, len(found))
		for i, rec := range found {
			names[i] = rec.Tenant
		}
		fail(w, http.StatusConflict, "conflict", "several tenants use this key; name one of "+strings.Join(names, ", ")+" with --tenant (over HTTP: ?tenant=)")
	default:
		a.write(w, r, found[0], "")
	}
}

// lately is how many operations are looked at for tenants, tenantsMost how many of those are tried.
const (
	lately      = 1000
	tenantsMost = 100
)

// fullKeys are the forms that a caller's own key has in the log.
func (a *API) fullKeys(ctx context.Context, tenant, key string) ([]string, error) {
	if strings.HasPrefix(key, "idem:") {
		return []string{key}, nil
	}
	tenants := []string{tenant}
	if tenant == "" {
		tenants = []string{"main"}
		records, err := a.Ledger.List(ctx, ledger.Filter{Limit: lately})
		if err != nil {
			return nil, err
		}
		for _, rec := range records {
			if !slices.Contains(tenants, rec.Tenant) && len(tenants) < tenantsMost {
				tenants = append(tenants, rec.Tenant)
			}
		}
	}
	keys := make([]string, len(tenants))
	for i, t := range tenants {
		keys[i] = idempotency.ExplicitKey(a.Policy().Env, t, key)
	}
	return keys, nil
}

// newest is the latest operation under each of the keys. The indexed ways come first for all of them: the listing
// reads every row.
func (a *API) newest(ctx context.Context, keys []string) ([]*ledger.Record, error) {
	var found []*ledger.Record
	for _, look := range []func(context.Context, string) ([]*ledger.Record, error){a.indexed, a.listed} {
		for _, key := range keys {
			records, err := look(ctx, key)
			if err != nil {
				return nil, err
			}
			found = append(found, records...)
		}
		if found != nil {
			break
		}
	}
	return found, nil
}

func (a *API) indexed(ctx context.Context, key string) ([]*ledger.Record, error) {
	rec, err := a.Ledger.Holder(ctx, key)
	if err == nil {
		return []*ledger.Record{rec}, nil
	}
	if !errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	return a.Ledger.Derived(ctx, key, 1)
}

func (a *API) listed(ctx context.Context, key string) ([]*ledger.Record, error) {
	return a.Ledger.List(ctx, ledger.Filter{Key: key, Limit: 1})
}
