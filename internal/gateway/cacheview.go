package gateway

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// CachedAnswer is an answer that other requests may be given, as an operator sees it.
type CachedAnswer struct {
	ledger.CachedRef
	Tenant, Workflow, Template string
	Partition                  string // hexadecimal
	Dimensions                 int
	MadeAt, ExpiresAt          time.Time
	Stale                      bool // it cannot be read by this version
}

// Cached pages through what the log lists as answers to other requests, newest first.
func (g *Gateway) Cached(ctx context.Context, f ledger.CachedFilter) ([]CachedAnswer, error) {
	rows, err := g.ledger.Cached(ctx, f)
	if err != nil {
		return nil, err
	}
	found := make([]CachedAnswer, len(rows))
	for i := range rows {
		r := &rows[i]
		found[i] = CachedAnswer{CachedRef: r.CachedRef, Tenant: r.Tenant, Workflow: r.Workflow, Partition: hex.EncodeToString(r.Partition[:]),
			MadeAt: r.SettledAt, ExpiresAt: r.ExpiresAt}
		if e, err := entry(r); err != nil {
			found[i].Stale = true
		} else {
			found[i].Template, found[i].Dimensions = e.Template, len(e.Vector.Steps)
		}
	}
	return found, nil
}

// Purge takes out what f selects and returns how many entries that were. The answers stay those of their own operations. What has no
// row yet, since its vector is being made, gets none any more, whatever f selects: it may be meant.
func (g *Gateway) Purge(ctx context.Context, f ledger.CachedFilter) (n int, err error) {
	g.answers.purges.Add(1)
	for f.Limit = indexPage; ; {
		rows, err := g.ledger.Cached(ctx, f)
		if err != nil {
			return n, err
		}
		refs := make([]ledger.CachedRef, len(rows))
		for i := range rows {
			refs[i] = rows[i].CachedRef
			g.answers.index.Drop(shelved(rows[i].Tenant), rows[i].Workflow, rows[i].Intent)
		}
		if err := g.ledger.Uncache(ctx, refs); err != nil {
			return n, err
		}
		if n += len(rows); len(rows) < indexPage {
			return n, nil
		}
		f.Before = refs[len(refs)-1]
	}
}
