// Package admin is the API behind the operator's commands and page, and the part of it that tenants may see.
package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/fleet"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/route"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Config makes an API.
type Config struct {
	Ledger ledger.Ledger
	Log    *intent.Log
	// Policy is the configuration in force.
	Policy func() *policy.Config
	// Configuration says which one that is, and what was refused; nil: nothing.
	Configuration func() Configuration
	Logger        *slog.Logger
	// Routes is the live state of the routes; nil where no gateway runs, and then nothing is said of them.
	Routes *route.Table
	// Peers are the other replicas; nil where the store admits one engine at a time.
	Peers *fleet.Peers
	// Bulkheads says what a gateway's bulkheads hold; nil: nothing.
	Bulkheads func() []gateway.Bulkhead
	// Gateway takes jobs; nil where none runs.
	Gateway func() *gateway.Gateway
}

// API serves /holdfast/v1/….
type API struct{ Config }

// New returns an API.
func New(c Config) *API { return &API{c} }

// scope is whose operations a request may see: one tenant's, or with "" everybody's.
type scope func(*http.Request) string

// Tenants serves what a tenant may see of its own operations.
func (a *API) Tenants(tenant func(*http.Request) string) http.Handler {
	mux := http.NewServeMux()
	a.reads(mux, tenant)
	a.jobs(mux, tenant)
	mux.HandleFunc("/", notFound)
	return strict(mux)
}

// ScopeHeader tells the admin port's answers, "operator", from the data port's, which show one tenant's operations.
const ScopeHeader = "Holdfast-Scope"

// Operators serves the admin port: everything, for operators only, with health and metrics beside it. guard is asked for
// each request: a reloaded configuration may have changed it.
func (a *API) Operators(guard func() *gateway.Guard, ready func() gateway.Readiness, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	a.reads(mux, func(*http.Request) string { return "" })
	a.jobs(mux, func(*http.Request) string { return "" })
	a.parked(mux)
	a.cache(mux)
	mux.HandleFunc("POST /holdfast/v1/intents/{id}/resolve", a.resolve)
	mux.HandleFunc("POST /holdfast/v1/explain", a.explain)
	a.configuration(mux)
	a.replicas(mux)
	a.routes(mux, func(r *http.Request) *policy.AuthKey { return guard().Client(r) })
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("/", notFound)
	served := strict(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz":
			_, _ = w.Write([]byte("ok\n"))
			return
		case "/readyz":
			gateway.WriteReady(w, r, ready())
			return
		}
		w.Header().Set(ScopeHeader, "operator")
		guard := guard()
		if !guard.HostAllowed(r) {
			fail(w, http.StatusForbidden, "forbidden", "this host name or origin is not allowed; add it to auth.hosts")
			return
		}
		if c := guard.Client(r); !guard.Open() && (c == nil || c.Role != policy.RoleOperator) {
			fail(w, http.StatusUnauthorized, "unauthorized", "the admin API takes a key of auth.keys with role: operator")
			return
		}
		served.ServeHTTP(w, r)
	})
}

func (a *API) reads(mux *http.ServeMux, tenant scope) {
	mux.HandleFunc("GET /holdfast/v1/intents", func(w http.ResponseWriter, r *http.Request) { a.list(w, r, tenant(r)) })
	mux.HandleFunc("GET /holdfast/v1/intents/{id}", func(w http.ResponseWriter, r *http.Request) { a.show(w, r, tenant(r)) })
}

func notFound(w http.ResponseWriter, r *http.Request) {
	fail(w, http.StatusNotFound, "not_found", "there is no "+r.Method+" "+r.URL.Path)
}

// list answers ?key= with one operation and its history, anything else with a page.
func (a *API) list(w http.ResponseWriter, r *http.Request, tenant string) {
	q, err := parameters(r, listParameters)
	var f ledger.Filter
	if err == nil && !q.Has("key") {
		f, err = filter(q)
	}
	if err == nil && q.Has("key") && q.Get("key") == "" {
		err = errors.New("key is empty; leave it out for a listing")
	}
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	if q.Has("key") {
		a.byKey(w, r, tenant, q.Get("key"))
		return
	}
	if tenant != "" {
		f.Tenant = tenant
	}
	a.page(w, r, &f)
}

// lanes are those in which an operation stands (interface.md §3).
var lanes = []string{intent.LaneAdmission, intent.LaneStream, intent.LaneBackground, intent.LaneReview, intent.LaneDead}

// filter reads a listing's parameters; the default is what is not settled (interface.md, settled questions).
func filter(q url.Values) (f ledger.Filter, err error) {
	get := q.Get
	f = ledger.Filter{Workflow: get("workflow"), Tenant: get("tenant"), Key: get("idempotency_key"), Before: get("before"), Lane: get("lane"), Limit: 100}
	if f.Lane != "" && !slices.Contains(lanes, f.Lane) {
		return f, fmt.Errorf("lane is one of %s, not %.64q", strings.Join(lanes, ", "), f.Lane)
	}
	if f.Jobs, err = flagOf(q, "jobs"); err != nil {
		return f, err
	}
	all, err := flagOf(q, "all")
	if err != nil {
		return f, err
	}
	f.Unsettled = !all && get("state") == "" && get("outcome") == ""
	for _, word := range split(get("state")) {
		var s ledger.State
		if err := s.UnmarshalText([]byte(word)); err != nil || s == 0 {
			return f, fmt.Errorf("state is one of intent_created, dispatched, unknown, confirmed, settled, not %q", word)
		}
		f.States = append(f.States, s)
	}
	for _, word := range split(get("outcome")) {
		var o ledger.Outcome
		if err := o.UnmarshalText([]byte(word)); err != nil || o == 0 {
			return f, fmt.Errorf("outcome is one of pending, success, failed, unknown, discarded, not %q", word)
		}
		f.Outcomes = append(f.Outcomes, o)
	}
	for name, to := range map[string]*time.Time{"older_than": &f.OlderThan, "newer_than": &f.NewerThan} {
		v := get(name)
		if v == "" {
			continue
		}
		t, err := instant(v, time.Now())
		if err != nil {
			return f, fmt.Errorf("%s: %w", name, err)
		}
		*to = t
	}
	if v := get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 1000 {
			return f, errors.New("limit is 1 to 1000")
		}
		f.Limit = n
	}
	return f, nil
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// instant is a time, or an age before now.
func instant(v string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(v); err == nil {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, v)
	if err != nil {
		return t, errors.New("give an age such as 10m or a time such as 2026-11-29T20:00:00Z")
	}
	return t, nil
}

func (a *API) show(w http.ResponseWriter, r *http.Request, tenant string) {
	rec, err := a.Ledger.Get(r.Context(), r.PathValue("id"))
	switch {
	case errors.Is(err, ledger.ErrNotFound), err == nil && tenant != "" && rec.Tenant != tenant:
		fail(w, http.StatusNotFound, "not_found", "there is no such operation")
	case err != nil:
		a.away(w, err)
	default:
		a.write(w, r, rec, "")
	}
}

func (a *API) write(w http.ResponseWriter, r *http.Request, rec *ledger.Record, warning string) {
	v := View(rec)
	v.Warning = warning
	var err error
	if v.History, err = a.Ledger.History(r.Context(), rec.ID); err != nil {
		a.away(w, err)
		return
	}
	if v.Call, err = a.toolCall(r.Context(), rec); err != nil {
		a.away(w, err)
		return
	}
	if v.Callbacks, err = a.callbacksOf(r.Context(), v.History); err != nil {
		a.away(w, err)
		return
	}
	if a.Gateway != nil {
		v.Missing = a.Gateway().Lacks(rec, intent.LifeOf(v.History))
	}
	answer(w, v)
}

// Resolution is the body of POST …/resolve.
type Resolution struct {
	Outcome string `json:"outcome"` // success or failed
	By      string `json:"by"`
	Reason  string `json:"reason"`
}

// resolve settles an unknown by a person's word, which the log keeps.
func (a *API) resolve(w http.ResponseWriter, r *http.Request) {
	var in Resolution
	if !decode(w, r, &in, "{outcome, by, reason}") {
		return
	}
	outcome, ok := map[string]ledger.Outcome{"success": ledger.OutcomeSuccess, "failed": ledger.OutcomeFailed}[in.Outcome]
	if !ok || strings.TrimSpace(in.By) == "" || strings.TrimSpace(in.Reason) == "" {
		fail(w, http.StatusBadRequest, "invalid_request", "outcome is success or failed; by and reason say who decided and why")
		return
	}
	rec, err := a.Ledger.Get(r.Context(), r.PathValue("id"))
	if errors.Is(err, ledger.ErrNotFound) {
		fail(w, http.StatusNotFound, "not_found", "there is no such operation")
		return
	}
	warning := ""
	if err == nil {
		warning = a.tooEarly(r.Context(), rec, outcome)
		err = a.Log.Load(rec).Resolve(outcome, in.By, in.Reason, nil, a.Ledger.Now().Add(a.termsOf(rec).ttl))
	}
	var illegal *intent.IllegalStepError
	switch {
	case errors.As(err, &illegal), errors.Is(err, ledger.ErrStale):
		fail(w, http.StatusConflict, "conflict", "only an operation in state unknown is resolved; this one is "+rec.State.String())
	case err != nil:
		a.away(w, err)
	default:
		a.Logger.Info("resolved by a person", "intent", rec.ID, "outcome", in.Outcome, "by", in.By, "reason", in.Reason)
		if rec, err = a.Ledger.Get(r.Context(), rec.ID); err != nil {
			a.away(w, err)
			return
		}
		a.write(w, r, rec, warning)
	}
}

func (a *API) away(w http.ResponseWriter, err error) {
	a.Logger.Warn("admin: store", "error", err)
	w.Header().Set("Retry-After", "2")
	fail(w, http.StatusServiceUnavailable, "store_unavailable", "the store cannot be read now")
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // a client that left
}

// Failure is the body of every error of this API.
type Failure struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// fail answers with an error, which says of itself what asking again would bring (interface.md §2).
func fail(w http.ResponseWriter, status int, code, message string) {
	gateway.Advise(w.Header(), code)
	var f Failure
	f.Error.Code, f.Error.Message = code, message
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Holdfast-Error", code)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(f)
}
