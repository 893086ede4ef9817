package admin

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Intent is one operation as JSON: the queue fields of interface.md §3 by their names, and what tells it apart.
// Times are RFC 3339 UTC, null where they do not apply.
type Intent struct {
	ID                     string         `json:"id"`
	JobID                  string         `json:"job_id"`
	IdempotencyKey         string         `json:"idempotency_key"`
	KeyOrigin              string         `json:"key_origin"`  // caller, derived, or "" without a key
	Fingerprint            string         `json:"fingerprint"` // hex
	ParentID               string         `json:"parent_id"`
	Tenant                 string         `json:"tenant"`
	Workflow               string         `json:"workflow"`
	OwnerKey               string         `json:"owner_key"`
	Effect                 string         `json:"effect"`
	OnUnknown              string         `json:"on_unknown"` // retry or hold
	Provider               string         `json:"provider"`
	RouteKey               string         `json:"route_key"`
	Tier                   string         `json:"tier"`
	Method                 string         `json:"method"`
	Path                   string         `json:"path"`
	Endpoint               string         `json:"endpoint"`
	RequestedModel         string         `json:"requested_model"`
	ServedModel            string         `json:"served_model"`
	Stream                 bool           `json:"stream"`
	Attempt                int            `json:"attempt"`
	MaxAttempts            int            `json:"max_attempts"`
	Crashes                int            `json:"crashes"`
	PossiblyBilled         int            `json:"possibly_billed"`
	CreatedAt              *time.Time     `json:"created_at"`
	UpdatedAt              *time.Time     `json:"updated_at"`
	ReadyAt                *time.Time     `json:"ready_at"`
	ExpiresAt              *time.Time     `json:"expires_at"`
	SettledAt              *time.Time     `json:"settled_at"`
	RetryAfterMS           int64          `json:"retry_after_ms"`
	FallbackAllowed        string         `json:"fallback_allowed"`
	PartialOutputCommitted bool           `json:"partial_output_committed"`
	LastErrorType          string         `json:"last_error_type"`
	EstimatedCost          float64        `json:"estimated_cost"`
	UsageUnits             Usage          `json:"usage_units"`
	VisibilityState        string         `json:"visibility_state"`
	Delivery               string         `json:"delivery"`
	Lane                   string         `json:"lane"`
	State                  string         `json:"state"`
	Outcome                string         `json:"outcome"`
	PolicyRevision         string         `json:"policy_revision"`
	Trigger                string         `json:"trigger"`
	HTTPStatus             int            `json:"http_status"`
	ClaimUntil             *time.Time     `json:"claim_until"`
	LeaseOwner             string         `json:"lease_owner"`
	CallbackURL            string         `json:"callback_url,omitempty"` // without what its query says
	CallbackOf             string         `json:"callback_of,omitempty"`  // of a callback: the job whose end it tells
	Callbacks              []Callback     `json:"callbacks,omitempty"`    // of a job that is asked for alone, the oldest first
	Call                   *ToolCall      `json:"call,omitempty"`         // of an MCP call that is asked for alone
	LaneReason             string         `json:"lane_reason,omitempty"`  // in a listing of owner_review or dead_letter: why it waits there
	Missing                string         `json:"missing,omitempty"`      // what a job needs and the configuration does not have
	Warning                string         `json:"warning,omitempty"`      // of what was just resolved: why it may be too early
	History                []ledger.Event `json:"history,omitempty"`
}

// Usage is what the provider reported, in tokens.
type Usage struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

// View is r as JSON shows it.
func View(r *ledger.Record) Intent {
	v := Intent{
		ID: r.ID, JobID: r.JobID, IdempotencyKey: r.Key, Tenant: r.Tenant, Workflow: r.Workflow, OwnerKey: r.OwnerKey,
		KeyOrigin: origin(r), Fingerprint: hex.EncodeToString(r.Fingerprint[:]), ParentID: r.ParentID, Provider: r.Provider, OnUnknown: "retry",
		Effect: r.Effect.String(), RouteKey: r.RouteKey, Tier: r.Tier, Method: r.Method, Path: r.Path, Endpoint: r.Endpoint,
		RequestedModel: r.RequestedModel, ServedModel: r.ServedModel, Stream: r.Stream, Attempt: r.Attempt,
		MaxAttempts: r.MaxAttempts, Crashes: r.Crashes, PossiblyBilled: r.BilledMaybe,
		CreatedAt: when(r.CreatedAt), UpdatedAt: when(r.UpdatedAt), ReadyAt: when(r.ReadyAt), ExpiresAt: when(r.ExpiresAt),
		SettledAt: when(r.SettledAt), RetryAfterMS: r.RetryAfter.Milliseconds(), FallbackAllowed: r.FallbackOK,
		PartialOutputCommitted: r.Partial, LastErrorType: r.LastError, EstimatedCost: r.EstimatedCost,
		UsageUnits: Usage{r.UsageIn, r.UsageOut}, VisibilityState: r.Visibility.String(), Delivery: r.Delivery.String(),
		Lane: r.Lane, State: r.State.String(), Outcome: r.Outcome.String(), PolicyRevision: r.PolicyRevision, Trigger: r.Trigger,
		ClaimUntil: when(r.ClaimUntil), LeaseOwner: r.LeaseOwner, CallbackURL: ledger.Masked(r.Callback), CallbackOf: intent.CallbackOf(&r.Intent),
	}
	if r.Hold {
		v.OnUnknown = "hold"
	}
	if r.Answer != nil {
		v.HTTPStatus = r.Answer.HTTPStatus
	}
	return v
}

// Why is the reason of the last step that has one: why an operation stands where it does. What was noted beside its steps is none.
func Why(history []ledger.Event) string {
	for i := range slices.Backward(history) {
		if e := &history[i]; e.Reason != "" && (e.Kind == "transition" || e.Kind == "attempt_end") {
			return e.Reason
		}
	}
	return ""
}

// page answers a listing.
func (a *API) page(w http.ResponseWriter, r *http.Request, f *ledger.Filter) {
	records, err := a.Ledger.List(r.Context(), *f)
	var views []Intent
	if err == nil {
		views, err = a.views(r.Context(), f, records)
	}
	if err != nil {
		a.away(w, err)
		return
	}
	answer(w, views)
}

// views shows a listing's records. Of a lane that only a person moves things out of, they are shown with why they are in it.
func (a *API) views(ctx context.Context, f *ledger.Filter, records []*ledger.Record) ([]Intent, error) {
	views := make([]Intent, len(records))
	for i, rec := range records {
		views[i] = View(rec)
		if !intent.Parked(f.Lane) || rec.State == ledger.Settled {
			continue
		}
		history, err := a.Ledger.History(ctx, rec.ID)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return nil, err
		}
		views[i].LaneReason = Why(history)
	}
	return views, nil
}

func origin(r *ledger.Record) string {
	switch {
	case r.Key == "":
		return ""
	case r.Explicit:
		return "caller"
	}
	return "derived"
}

func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
