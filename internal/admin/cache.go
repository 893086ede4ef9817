package admin

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// cache serves what operators see of the answers that other requests may be given, and take out of it.
func (a *API) cache(mux *http.ServeMux) {
	if a.Gateway == nil {
		return
	}
	mux.HandleFunc("GET /holdfast/v1/cache", a.cached)
	mux.HandleFunc("GET /holdfast/v1/cache/{entry}", a.cachedEntry)
	mux.HandleFunc("POST /holdfast/v1/cache/purge", a.purge)
}

// CacheEntry is an answer that other requests may be given. Its id is that of the operation whose answer it is.
type CacheEntry struct {
	Entry    string            `json:"entry"`
	Kind     ledger.CachedKind `json:"kind"`
	Tenant   string            `json:"tenant"`
	Workflow string            `json:"workflow"`
	Template string            `json:"template,omitempty"`
	// Partition is a hash of all that the answer hangs on beside the user's last text.
	Partition  string    `json:"partition"`
	Dimensions int       `json:"dimensions,omitempty"` // of the question's vector
	Model      string    `json:"served_model,omitempty"`
	MadeAt     time.Time `json:"made_at"`
	ExpiresAt  time.Time `json:"expires_at"`
	Stale      bool      `json:"stale,omitempty"` // written by another version: it is found by nobody
}

func cacheEntry(c *gateway.CachedAnswer) CacheEntry {
	return CacheEntry{Entry: c.Intent, Kind: c.Kind, Tenant: c.Tenant, Workflow: c.Workflow, Template: c.Template, Partition: c.Partition,
		Dimensions: c.Dimensions, MadeAt: c.MadeAt, ExpiresAt: c.ExpiresAt, Stale: c.Stale}
}

// cached answers a page, newest first; the next begins behind its last entry (before, and before_kind).
func (a *API) cached(w http.ResponseWriter, r *http.Request) {
	q, err := parameters(r, []string{"tenant", "workflow", "before", "before_kind", "limit"})
	f := ledger.CachedFilter{Tenant: q.Get("tenant"), Workflow: q.Get("workflow"), Limit: 100}
	if err == nil && q.Has("limit") {
		if f.Limit, err = strconv.Atoi(q.Get("limit")); err != nil || f.Limit < 1 || f.Limit > 1000 {
			err = errors.New("limit is 1 to 1000")
		}
	}
	if f.Before.Intent = q.Get("before"); err == nil && f.Before.Intent != "" {
		if err = f.Before.Kind.UnmarshalText([]byte(q.Get("before_kind"))); err != nil || f.Before.Kind == 0 {
			err = errors.New("before goes with before_kind: template or semantic")
		}
	}
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	a.cachePage(w, r, f)
}

func (a *API) cachePage(w http.ResponseWriter, r *http.Request, f ledger.CachedFilter) {
	found, err := a.Gateway().Cached(r.Context(), f)
	if err != nil {
		a.away(w, err)
		return
	}
	page := make([]CacheEntry, len(found))
	for i := range found {
		page[i] = cacheEntry(&found[i])
	}
	answer(w, page)
}

// cachedEntry answers with the entries of one operation: one by template, one by meaning.
func (a *API) cachedEntry(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("entry")
	found, err := a.Gateway().Cached(r.Context(), ledger.CachedFilter{Intent: id})
	var rec *ledger.Record
	if err == nil && len(found) > 0 {
		rec, err = a.Ledger.Get(r.Context(), id)
	}
	switch {
	case errors.Is(err, ledger.ErrNotFound), err == nil && len(found) == 0:
		fail(w, http.StatusNotFound, "not_found", "no other request is given the answer of such an operation")
		return
	case err != nil:
		a.away(w, err)
		return
	}
	entries := make([]CacheEntry, len(found))
	for i := range found {
		entries[i] = cacheEntry(&found[i])
		entries[i].Model = rec.ServedModel
	}
	answer(w, entries)
}

// Purge is the body of POST …/cache/purge: what is to be found no more. All of it takes all: true.
type Purge struct {
	Entry    string `json:"entry,omitempty"`
	Tenant   string `json:"tenant,omitempty"`
	Workflow string `json:"workflow,omitempty"`
	All      bool   `json:"all,omitempty"`
	By       string `json:"by,omitempty"`
}

// Purged says what a purge took out.
type Purged struct {
	Purge
	Entries int `json:"entries"`
}

// purge takes answers out of the cache. The operations and their answers stay on record, and their keys go on replaying them.
func (a *API) purge(w http.ResponseWriter, r *http.Request) {
	var in Purge
	if !decode(w, r, &in, "{entry, tenant, workflow, all, by}") {
		return
	}
	if chosen := in.Entry != "" || in.Tenant != "" || in.Workflow != ""; chosen == in.All {
		fail(w, http.StatusBadRequest, "invalid_request", "say which: entry, tenant, workflow, or several of them; or all: true alone")
		return
	}
	n, err := a.Gateway().Purge(r.Context(), ledger.CachedFilter{Intent: in.Entry, Tenant: in.Tenant, Workflow: in.Workflow})
	if err != nil {
		a.away(w, err)
		return
	}
	a.Logger.Info("answers were taken out of the cache", "entries", n, "entry", in.Entry, "tenant", in.Tenant, "workflow", in.Workflow, "by", in.By)
	answer(w, Purged{in, n})
}
