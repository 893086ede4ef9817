package postgres

import "strings"

// The columns of the tables as reads and writes name them, in the order of their rows in batch.go.
const (
	intentColumns = `id, created_at, tenant, workflow, idempotency_key, job_id, owner_key, effect, hold, explicit,
		claimed, claim_key, fingerprint, method, path, provider, endpoint, requested_model, stream, priority, max_attempts,
		fallback_allowed, estimated_cost, policy_revision, cause, parent_id, callback`
	statusColumns = `version, state, outcome, lane, visibility, delivery, attempt, crashes, route_key, served_model,
		tier, ready_at, expires_at, retry_after, lease_owner, lease_until, partial, billed_maybe, last_error_type,
		usage_in, usage_out, updated_at`
	resultColumns = `settled_at, claim_until, answer_status, answer_header, answer_source, answer_events, answer_body`
	bodyColumns   = `content_type, packed, size, digest, data`
	inlineColumns = `body_type, body_packed, body_size, body_digest, body_data`
)

// The kinds of due lists.
const (
	dueClaims = 1
	dueBodies = 2
)

// dueGrain is how finely times are told apart in due lists, in microseconds: a list stands at its second, rounded down, and each row has its exact time.
const dueGrain = 1_000_000

// qualified is a column list of one table of a query.
func qualified(table, list string) string {
	names := strings.Split(list, ",")
	for i, n := range names {
		names[i] = table + "." + strings.TrimSpace(n)
	}
	return strings.Join(names, ", ")
}
