package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/admin"
)

// showIntent prints every field that says something, then the history.
func showIntent(out io.Writer, v *admin.Intent, now time.Time) error {
	err := table(out, func(w io.Writer) {
		for _, f := range intentFields(v, now) {
			if f[1] != "" && f[1] != "0" {
				fmt.Fprintf(w, "%s\t%s\n", f[0], clean(f[1], 0))
			}
		}
	})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s\n", sayArguments(v.Call)); err != nil {
		return err
	}
	return writeTimeline(out, timelineOf([]admin.Intent{*v}))
}

// sayCallbacks says of each callback what it tells and whether it has arrived.
func sayCallbacks(all []admin.Callback, now time.Time) string {
	said := make([]string, len(all))
	for i := range all {
		c := &all[i]
		said[i] = c.ID + " " + c.Type + ": "
		switch {
		case c.State == "":
			said[i] += "no longer kept"
		case c.Outcome == "success":
			said[i] += "arrived " + stampAgo(c.SettledAt, now)
		case c.State == "settled", c.Lane == "dead_letter":
			said[i] += "did not arrive"
		default:
			said[i] += "on its way"
		}
		if c.Attempt > 1 || c.Attempt == 1 && c.Outcome != "success" {
			said[i] += fmt.Sprintf(", %d attempts", c.Attempt)
		}
		if c.LastErrorType != "" && c.Outcome != "success" {
			said[i] += ", last error " + c.LastErrorType
		}
		if c.Lane == "dead_letter" && c.State != "settled" {
			said[i] += "; holdfast deadletter replay sends it again"
		}
	}
	return strings.Join(said, "; ")
}

// intentFields are the fields by their names in JSON, in the order in which they are looked for.
func intentFields(v *admin.Intent, now time.Time) [][2]string {
	when := func(t *time.Time) string { return stampAgo(t, now) }
	n := func(i int) string { return strconv.Itoa(i) }
	partial := ""
	if v.PartialOutputCommitted {
		partial = "true"
	}
	stream := ""
	if v.Stream {
		stream = "true"
	}
	wait := ""
	if v.RetryAfterMS > 0 {
		wait = (time.Duration(v.RetryAfterMS) * time.Millisecond).String()
	}
	usage := ""
	if v.UsageUnits != (admin.Usage{}) {
		usage = fmt.Sprintf("%d in, %d out", v.UsageUnits.Input, v.UsageUnits.Output)
	}
	cost := ""
	if v.EstimatedCost > 0 {
		cost = strconv.FormatFloat(v.EstimatedCost, 'f', -1, 64)
	}
	billed := n(v.PossiblyBilled)
	if isTool(v) || v.CallbackOf != "" {
		billed = "" // a tool sends no bill, and no receiver either
	}
	return [][2]string{
		{"id", v.ID}, {"state", v.State}, {"outcome", v.Outcome}, {"lane", v.Lane}, {"missing", v.Missing},
		{"effect", v.Effect}, {"on_unknown", v.OnUnknown}, {"workflow", v.Workflow}, {"tenant", v.Tenant}, {"owner_key", v.OwnerKey},
		{"idempotency_key", v.IdempotencyKey}, {"key_origin", v.KeyOrigin}, {"fingerprint", v.Fingerprint}, {"claim_until", when(v.ClaimUntil)},
		{"method", v.Method}, {"path", v.Path}, {"provider", v.Provider}, {"endpoint", v.Endpoint}, {"stream", stream},
		{"requested_model", v.RequestedModel}, {"served_model", v.ServedModel}, {"route_key", v.RouteKey}, {"tier", v.Tier},
		{"attempt", n(v.Attempt)}, {"max_attempts", n(v.MaxAttempts)}, {"crashes", n(v.Crashes)}, {"possibly_billed", billed},
		{"http_status", n(v.HTTPStatus)}, {"last_error_type", v.LastErrorType}, {"retry_after", wait},
		{"visibility_state", v.VisibilityState}, {"partial_output_committed", partial}, {"delivery", v.Delivery},
		{"usage_units", usage}, {"estimated_cost", cost}, {"fallback_allowed", v.FallbackAllowed},
		{"job_id", v.JobID}, {"parent_id", v.ParentID}, {"trigger", v.Trigger}, {"lease_owner", v.LeaseOwner},
		{"callback_url", v.CallbackURL}, {"callback_of", v.CallbackOf}, {"callbacks", sayCallbacks(v.Callbacks, now)},
		{"created_at", when(v.CreatedAt)}, {"updated_at", when(v.UpdatedAt)}, {"ready_at", when(v.ReadyAt)},
		{"expires_at", when(v.ExpiresAt)}, {"settled_at", when(v.SettledAt)}, {"policy_revision", v.PolicyRevision},
	}
}
