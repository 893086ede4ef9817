package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/route"
)

const (
	// maxOrderBody bounds an order: a fault's body of 64 KiB may take six bytes for each when it is quoted.
	maxOrderBody = 512 << 10
	// maxWords bounds what an operator says of himself and of his reasons.
	maxWords = 500
)

// Order is the body of POST /holdfast/v1/routes/{pause,resume,trip,reset,heal}.
type Order struct {
	// Route is a route's name, or a pattern in which * stands for any characters. It holds for routes not seen yet, too.
	Route string `json:"route"`
	// Reason must be given for pause and trip; clients are shown it in their refusals.
	Reason string `json:"reason,omitempty"`
	// By names who orders, for the log; the name of the operator's credential is noted beside it.
	By string `json:"by,omitempty"`
}

// FaultOrder is the body of POST /holdfast/v1/routes/fault.
type FaultOrder struct {
	Order
	Probability *float64 `json:"probability,omitempty"` // above 0, at most 1; 1 if left out
	// Status answers in the provider's place, with RetryAfterMs and Body; 0 lets the call go on.
	Status       int    `json:"status,omitempty"`
	RetryAfterMs int64  `json:"retry_after_ms,omitempty"`
	Body         string `json:"body,omitempty"`
	LatencyMs    int64  `json:"latency_ms,omitempty"` // waited for first
	CutBytes     int    `json:"cut_bytes,omitempty"`  // the provider's answer breaks off after so many bytes
	ForMs        int64  `json:"for_ms"`               // ends by itself after this, at most drills.max
}

// Obeyed answers an order.
type Obeyed struct {
	Route  string `json:"route"`
	Action string `json:"action"`
	// Known is how many known routes the pattern names; for heal, how many faults have ended.
	Known int        `json:"known"`
	Until *time.Time `json:"until,omitempty"` // of a fault
	// Replicas is how many replicas obeyed, and Unreached those that did not: they go on as before. On a store of replicas only,
	// where Known is the number of the one that knows most, and for heal that of all.
	Replicas  int         `json:"replicas,omitempty"`
	Unreached []Unreached `json:"unreached,omitempty"`
}

// operator is whose credential a request carries; empty where none is configured.
type operator func(*http.Request) *policy.AuthKey

// giver is who gives an order: an operator, or the replica that one gave it to, which passes it on.
type giver struct {
	name   string
	passed bool
}

func (who operator) giver(r *http.Request) giver {
	if k := who(r); k != nil {
		return giver{name: cmp.Or(k.Name, "a key of tenant "+k.Tenant)}
	}
	return giver{}
}

func (a *API) routes(mux *http.ServeMux, who operator) {
	if a.Routes == nil {
		return
	}
	mux.HandleFunc("GET /holdfast/v1/routes", func(w http.ResponseWriter, r *http.Request) {
		list, unreached := a.fleetRoutes(r.Context())
		if len(unreached) > 0 {
			w.Header().Set(UnreachedHeader, unreachedIDs(unreached))
		}
		answer(w, list)
	})
	for action, h := range a.orders(who.giver) {
		mux.Handle("POST /holdfast/v1/routes/"+action, h)
	}
}

// orders are the handlers of what routes are told, by action.
func (a *API) orders(who func(*http.Request) giver) map[string]http.HandlerFunc {
	all := map[string]http.HandlerFunc{"fault": func(w http.ResponseWriter, r *http.Request) { a.fault(w, r, who(r)) }}
	for action, obey := range map[string]func(*http.Request, Order) (int, error){
		"pause":  func(_ *http.Request, o Order) (int, error) { return a.Routes.Pause(o.Route, o.Reason) },
		"resume": func(_ *http.Request, o Order) (int, error) { return a.Routes.Resume(o.Route) },
		"trip":   func(_ *http.Request, o Order) (int, error) { return a.Routes.Trip(o.Route, o.Reason) },
		"reset":  func(r *http.Request, o Order) (int, error) { return a.Routes.Reset(r.Context(), o.Route) },
		"heal":   func(_ *http.Request, o Order) (int, error) { return a.Routes.Heal(o.Route) },
	} {
		all[action] = func(w http.ResponseWriter, r *http.Request) {
			var in Order
			if !order(w, r, &in) {
				return
			}
			if err := in.check(action); err != nil {
				fail(w, http.StatusBadRequest, "invalid_request", err.Error())
				return
			}
			known, err := obey(r, in)
			a.reopen(action, in.Route)
			out := Obeyed{Route: in.Route, Action: action, Known: known}
			by := who(r)
			if err == nil && !by.passed {
				a.carry(r, action, in, &out)
			}
			a.obeyed(w, by, in, out, err)
		}
	}
	return all
}

// reopen lets jobs that wait for a route hear of an order now. A reset lifts the time, too, that the route has named to them.
func (a *API) reopen(action, pattern string) {
	if a.Gateway == nil {
		return
	}
	var lifted func(string) bool
	if action == "reset" {
		lifted = func(key string) bool { return route.Names(pattern, key) }
	}
	a.Gateway().Jobs().Reopen(lifted)
}

// order reads a body that is one JSON object of known fields and nothing more.
func order(w http.ResponseWriter, r *http.Request, to any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxOrderBody))
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more follows the object")
		}
	}
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request", `the body is one JSON object such as {"route":"openai/*","reason":"…"}: `+err.Error())
	}
	return err == nil
}

func (o *Order) check(action string) error {
	for _, f := range []struct{ name, text string }{{"route", o.Route}, {"reason", o.Reason}, {"by", o.By}} {
		switch {
		case utf8.RuneCountInString(f.text) > maxWords:
			return fmt.Errorf("%s is longer than %d characters", f.name, maxWords)
		case strings.ContainsFunc(f.text, unicode.IsControl):
			return fmt.Errorf("%s has control characters", f.name)
		}
	}
	if o.Route != "" && !strings.Contains(o.Route, "*") && strings.Count(o.Route, "/") < 3 { // a model's name may hold more
		return fmt.Errorf("%q can match nothing, as a route is provider/model/endpoint/credential; did you mean '%s/*'?", o.Route, strings.TrimRight(o.Route, "/"))
	}
	if (action == "pause" || action == "trip") && strings.TrimSpace(o.Reason) == "" {
		return fmt.Errorf("%s takes a reason: it is what clients are told, and what the next operator finds", action)
	}
	return nil
}

// fault injects a fault, where drills allow it.
func (a *API) fault(w http.ResponseWriter, r *http.Request, who giver) {
	var in FaultOrder
	if !order(w, r, &in) {
		return
	}
	drills := a.Policy().Drills
	if !drills.Allow && !mutant.On("drills-ignored") {
		fail(w, http.StatusForbidden, "forbidden", "faults may not be injected into this gateway (env "+a.Policy().Env+
			"): set drills: {allow: true} in its configuration and restart it")
		return
	}
	f, err := in.read(time.Now(), drills.Max)
	if err == nil {
		err = in.check("fault")
	}
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	known, err := a.Routes.Inject(in.Route, f)
	out := Obeyed{Route: in.Route, Action: "fault", Known: known, Until: &f.Until}
	if err == nil && !who.passed {
		a.carry(r, "fault", in, &out)
	}
	a.obeyed(w, who, in.Order, out, err)
}

// read turns the milliseconds of the wire into times, none of which overflows.
func (o *FaultOrder) read(now time.Time, most time.Duration) (route.Fault, error) {
	f := route.Fault{Probability: 1, Status: o.Status, Body: o.Body, Cut: o.CutBytes}
	if o.Probability != nil {
		f.Probability = *o.Probability
	}
	for _, t := range []struct {
		name string
		ms   int64
		to   *time.Duration
	}{{"retry_after_ms", o.RetryAfterMs, &f.RetryAfter}, {"latency_ms", o.LatencyMs, &f.Latency}} {
		if t.ms < 0 || t.ms > (24*time.Hour).Milliseconds() {
			return f, fmt.Errorf("%s is 0 to 24 hours, in milliseconds", t.name)
		}
		*t.to = time.Duration(t.ms) * time.Millisecond
	}
	switch {
	case o.ForMs <= 0 || o.ForMs > most.Milliseconds():
		return f, fmt.Errorf("a fault ends by itself: for_ms is above 0 and at most drills.max, %s here", policy.Span(most))
	case o.Status == 0 && (o.RetryAfterMs > 0 || o.Body != ""):
		return f, errors.New("retry_after_ms and body belong to an answer of the fault's own: give it a status")
	case o.Status != 0 && o.CutBytes != 0:
		return f, errors.New("status answers in the provider's place, cut_bytes breaks the provider's own answer off: give one of them")
	}
	f.Until = now.Add(time.Duration(o.ForMs) * time.Millisecond)
	return f, nil
}

// obeyed answers an order that was carried out, or says why it was not, and notes who gave it.
func (a *API) obeyed(w http.ResponseWriter, who giver, in Order, out Obeyed, err error) {
	log := a.Logger.With("action", out.Action, "pattern", in.Route, "by", in.By, "credential", who.name, "reason", in.Reason)
	switch {
	case errors.Is(err, route.ErrPattern), errors.Is(err, route.ErrFault):
		fail(w, http.StatusBadRequest, "invalid_request", strings.ReplaceAll(err.Error(), "route: ", ""))
	case err != nil:
		log.Warn("an operator's order was carried out in part", "error", err)
		w.Header().Set("Retry-After", "2")
		fail(w, http.StatusServiceUnavailable, "store_unavailable", strings.ReplaceAll(err.Error(), "route: ", ""))
	case out.Action == "heal" && out.Known == 0:
		log.Info("an operator's order found nothing to heal")
		answer(w, out)
	default:
		for _, u := range out.Unreached {
			log.Warn("an operator's order did not reach a replica", "replica", u.Replica, "address", u.Address, "why", u.Why)
		}
		log.Warn("an operator's order was carried out", "known", out.Known)
		answer(w, out)
	}
}

// Route is the live state of one route, or what was ordered of those that fit a pattern.
type Route struct {
	// Route is "provider/model/endpoint/credential", or a pattern with *.
	Route string `json:"route"`
	// Replica is whose state it is, on a store of replicas.
	Replica string `json:"replica,omitempty"`
	// Known is false for a pattern, and for a name that no call has used since the start.
	Known        bool        `json:"known"`
	Paused       bool        `json:"paused"`
	PausedReason string      `json:"paused_reason,omitempty"`
	Breaker      Breaker     `json:"breaker"`
	Cooldown     *Cooldown   `json:"cooldown,omitempty"`
	Backpressure *Pressure   `json:"backpressure,omitempty"` // none while it is easy
	RetryTokens  *float64    `json:"retry_tokens,omitempty"` // of a known route
	Fault        *Fault      `json:"fault,omitempty"`
	Bulkheads    []Bulkheads `json:"bulkheads,omitempty"` // of the workflows that may call it
}

// Breaker is a route's circuit breaker.
type Breaker struct {
	State    string     `json:"state"` // closed, half-open, open
	Since    *time.Time `json:"since,omitempty"`
	Until    *time.Time `json:"until,omitempty"` // until a probe may go, or the present one loses its place
	Failures int        `json:"failures"`        // in a row
	Forced   bool       `json:"forced"`          // tripped by hand; reset by hand alone
	Reason   string     `json:"reason,omitempty"`
}

// Cooldown is what a rate limit asked for.
type Cooldown struct {
	Until       *time.Time `json:"until,omitempty"` // none once it is over and a probe decides
	RemainingMs int64      `json:"remaining_ms"`
	Reason      string     `json:"reason,omitempty"`
	Probing     bool       `json:"probing"`
}

// Pressure is what the route's signals of too much have led to.
type Pressure struct {
	Level    string     `json:"level"`           // reduced, shedding
	MaxBatch int        `json:"max_concurrent"`  // low-urgency calls that may be in progress
	Batch    int        `json:"used"`            // … that are
	HoldMs   int64      `json:"hold_ms"`         // until further ones may begin
	Since    *time.Time `json:"since,omitempty"` // of the last signal
	Reason   string     `json:"reason,omitempty"`
}

// Fault is what is injected on purpose.
type Fault struct {
	Pattern      string    `json:"pattern"`
	Probability  float64   `json:"probability"`
	Status       int       `json:"status,omitempty"`
	RetryAfterMs int64     `json:"retry_after_ms,omitempty"`
	LatencyMs    int64     `json:"latency_ms,omitempty"`
	CutBytes     int       `json:"cut_bytes,omitempty"`
	Until        time.Time `json:"until"`
	Hits         int64     `json:"hits"`
}

// Bulkheads is a bulkhead that calls on the route go through.
type Bulkheads struct {
	Workflow string `json:"workflow"`
	Tier     string `json:"tier"`
	Name     string `json:"name,omitempty"` // shared
	Max      int    `json:"max_concurrent"`
	Used     int    `json:"used"`
	Waiting  int    `json:"waiting"`
}

// listRoutes are the known routes by name, and behind them the patterns that hold for routes not seen yet.
func (a *API) listRoutes() []Route {
	now := a.Ledger.Now()
	slots := []gateway.Bulkhead{}
	if a.Bulkheads != nil {
		slots = a.Bulkheads()
	}
	known := a.Routes.List()
	out := make([]Route, 0, len(known))
	for i := range known {
		v := viewRoute(&known[i], now)
		v.Bulkheads = bulkheadsOf(v.Route, slots)
		out = append(out, v)
	}
	return append(out, a.patterns(out)...)
}

func viewRoute(i *route.Info, now time.Time) Route {
	b := i.Breaker
	v := Route{Route: i.Route, Known: true, Paused: i.Paused, PausedReason: i.PausedBy, RetryTokens: &i.Tokens, Breaker: Breaker{State: b.State.String(),
		Since: present(b.Since), Until: present(b.Until), Failures: b.Failures, Forced: b.Forced, Reason: b.Reason}}
	if i.Cooling {
		v.Cooldown = &Cooldown{Until: present(i.Until), Reason: i.Reason, Probing: i.Probing}
		if !i.Until.IsZero() {
			v.Cooldown.RemainingMs = max(0, i.Until.Sub(now).Milliseconds())
		}
	}
	if p := i.Pressure; p.Level != route.Easy {
		v.Backpressure = &Pressure{Level: string(p.Level), MaxBatch: p.Limit, Batch: p.Inside, HoldMs: p.Hold.Milliseconds(),
			Since: present(p.Since), Reason: p.Reason}
	}
	if i.Fault != nil {
		v.Fault = viewFault(i.Fault)
	}
	return v
}

func present(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func viewFault(f *route.FaultInfo) *Fault {
	return &Fault{Pattern: f.Pattern, Probability: f.Probability, Status: f.Status, RetryAfterMs: f.RetryAfter.Milliseconds(),
		LatencyMs: f.Latency.Milliseconds(), CutBytes: f.Cut, Until: f.Until.UTC(), Hits: f.Hits}
}

// bulkheadsOf are those whose calls can go to a route: of its provider, or of any.
func bulkheadsOf(name string, slots []gateway.Bulkhead) []Bulkheads {
	provider, _, _ := strings.Cut(name, "/")
	var out []Bulkheads
	for _, b := range slots {
		if b.Provider == "" || b.Provider == provider {
			out = append(out, Bulkheads{Workflow: b.Workflow, Tier: b.Tier, Name: b.Name, Max: b.Max, Used: b.Used, Waiting: b.Waiting})
		}
	}
	return out
}

// patterns are the orders and faults that stand for routes not seen yet.
func (a *API) patterns(known []Route) []Route {
	byName := map[string]*Route{}
	at := func(pattern string) *Route {
		if slices.ContainsFunc(known, func(v Route) bool { return v.Route == pattern }) {
			return &Route{} // shown with the route itself
		}
		if byName[pattern] == nil {
			byName[pattern] = &Route{Route: pattern, Breaker: Breaker{State: "closed"}}
		}
		return byName[pattern]
	}
	for _, o := range a.Routes.Orders() {
		switch {
		case o.Lifted: // an exception from a wider order
		case o.Trip:
			at(o.Pattern).Breaker = Breaker{State: "open", Since: present(o.At), Forced: true, Reason: o.Reason}
		default:
			v := at(o.Pattern)
			v.Paused, v.PausedReason = true, o.Reason
		}
	}
	for _, f := range a.Routes.Faults() {
		at(f.Pattern).Fault = viewFault(&f)
	}
	out := make([]Route, 0, len(byName))
	for _, v := range byName {
		out = append(out, *v)
	}
	slices.SortFunc(out, func(a, b Route) int { return cmp.Compare(a.Route, b.Route) })
	return out
}
