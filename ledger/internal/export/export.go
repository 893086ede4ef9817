// Package export writes a log as lines of JSON.
package export

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// exported is one line of an export.
type exported struct {
	ID             string            `json:"id"`
	JobID          string            `json:"job_id,omitempty"`
	Key            string            `json:"idempotency_key,omitempty"`
	Tenant         string            `json:"tenant,omitempty"`
	Workflow       string            `json:"workflow,omitempty"`
	OwnerKey       string            `json:"owner_key,omitempty"`
	Effect         ledger.Effect     `json:"effect"`
	Method         string            `json:"method,omitempty"`
	Path           string            `json:"path,omitempty"`
	Provider       string            `json:"provider,omitempty"`
	Endpoint       string            `json:"endpoint,omitempty"`
	RouteKey       string            `json:"route_key,omitempty"`
	RequestedModel string            `json:"requested_model,omitempty"`
	ServedModel    string            `json:"served_model,omitempty"`
	Tier           string            `json:"tier,omitempty"`
	Stream         bool              `json:"stream,omitempty"`
	Priority       string            `json:"priority,omitempty"`
	Attempt        int               `json:"attempt"`
	MaxAttempts    int               `json:"max_attempts"`
	Crashes        int               `json:"crashes,omitempty"`
	CreatedAt      time.Time         `json:"created_at"`
	ReadyAt        time.Time         `json:"ready_at,omitzero"`
	ExpiresAt      time.Time         `json:"expires_at,omitzero"`
	UpdatedAt      time.Time         `json:"updated_at,omitzero"`
	SettledAt      time.Time         `json:"settled_at,omitzero"`
	ClaimUntil     time.Time         `json:"claim_until,omitzero"`
	RetryAfterMS   int64             `json:"retry_after_ms,omitempty"`
	Fallback       string            `json:"fallback_allowed,omitempty"`
	Partial        bool              `json:"partial_output_committed"`
	LastError      string            `json:"last_error_type,omitempty"`
	EstimatedCost  float64           `json:"estimated_cost"`
	UsageUnits     int64             `json:"usage_units"`
	Visibility     ledger.Visibility `json:"visibility_state"`
	Delivery       ledger.Delivery   `json:"delivery"`
	Lane           string            `json:"lane,omitempty"`
	State          ledger.State      `json:"state"`
	Outcome        ledger.Outcome    `json:"outcome"`
	BilledMaybe    int               `json:"possibly_billed,omitempty"`
	PolicyRevision string            `json:"policy_revision,omitempty"`
	Trigger        string            `json:"trigger,omitempty"`
	ParentID       string            `json:"parent_id,omitempty"`
	Callback       string            `json:"callback_url,omitempty"` // without its query
	Answer         *exportedAnswer   `json:"answer,omitempty"`
	History        []ledger.Event    `json:"history"`
}

type exportedAnswer struct {
	Status int                 `json:"status"`
	Header map[string][]string `json:"header,omitempty"`
	Source string              `json:"source,omitempty"`
	Events int                 `json:"events,omitempty"`
}

// page is how many intents are held at a time.
const page = 1000

// Write writes every intent of a log, newest first, as a line of JSON with its history: no bodies, and none of the store's secrets.
func Write(ctx context.Context, l ledger.Ledger, to io.Writer) error {
	w := bufio.NewWriterSize(to, 1<<16)
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	for before := ""; ; {
		records, err := l.List(ctx, ledger.Filter{Before: before, Limit: page})
		if err != nil {
			return err
		}
		for _, rec := range records {
			history, err := l.History(ctx, rec.ID)
			if errors.Is(err, ledger.ErrNotFound) {
				continue // swept since the page was read
			}
			if err != nil {
				return err
			}
			if err := lines.Encode(exportOf(rec, history)); err != nil {
				return err
			}
		}
		if len(records) < page {
			return w.Flush()
		}
		before = records[len(records)-1].ID
	}
}

// exportOf is a record in the words of interface.md §3.
func exportOf(r *ledger.Record, history []ledger.Event) exported {
	e := exported{
		ID: r.ID, JobID: r.JobID, Key: r.Key, Tenant: r.Tenant, Workflow: r.Workflow, OwnerKey: r.OwnerKey,
		Effect: r.Effect, Method: r.Method, Path: r.Path, Provider: r.Provider, Endpoint: r.Endpoint,
		RouteKey: r.RouteKey, RequestedModel: r.RequestedModel, ServedModel: r.ServedModel, Tier: r.Tier,
		Stream: r.Stream, Priority: r.Priority, Attempt: r.Attempt, MaxAttempts: r.MaxAttempts, Crashes: r.Crashes,
		CreatedAt: r.CreatedAt, ReadyAt: r.ReadyAt, ExpiresAt: r.ExpiresAt, UpdatedAt: r.UpdatedAt,
		SettledAt: r.SettledAt, ClaimUntil: r.ClaimUntil, RetryAfterMS: r.RetryAfter.Milliseconds(),
		Fallback: r.FallbackOK, Partial: r.Partial, LastError: r.LastError, EstimatedCost: r.EstimatedCost,
		UsageUnits: r.UsageIn + r.UsageOut, Visibility: r.Visibility, Delivery: r.Delivery, Lane: r.Lane,
		State: r.State, Outcome: r.Outcome, BilledMaybe: r.BilledMaybe, PolicyRevision: r.PolicyRevision,
		Trigger: r.Trigger, ParentID: r.ParentID, Callback: ledger.Masked(r.Callback), History: history,
	}
	if r.Answer != nil {
		e.Answer = &exportedAnswer{r.Answer.HTTPStatus, r.Answer.Header, r.Answer.Source, r.Answer.Events}
	}
	return e
}
