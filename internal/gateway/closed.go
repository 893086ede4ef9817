package gateway

import (
	"slices"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
)

// met are the policy's conditions that a failure meets, empty where it meets none: as its last tier's retries and as the tiers behind
// it see them.
type met struct{ retry, fallback string }

// meets keeps a condition as the last one of its kind.
func (e *execution) meets(at *string, condition string) {
	e.mu.Lock()
	*at = condition
	e.mu.Unlock()
}

func (e *execution) hasMet() met {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.met
}

// refusalConditions are those of what is refused before anything of it is sent.
var refusalConditions = map[Code]string{CodeSpendExceeded: decision.QuotaOrSpendExhausted, CodeContract: decision.ContractMismatch,
	CodeRateLimited: decision.RetryAfterExceedsDeadline}

// failsClosed says that the policy has a client see this failure, whatever might stand in its place (semantics 37, fail_closed_when).
func (c *call) failsClosed(failed Code) bool {
	conditions := []string{refusalConditions[failed]}
	if c.earlier != nil {
		conditions = append(conditions, c.earlier.met.retry, c.earlier.met.fallback)
	}
	if c.exec != nil {
		m := c.exec.hasMet()
		conditions = append(conditions, m.retry, m.fallback)
	}
	return closes(c.wf, conditions)
}

func closes(w *policy.Workflow, met []string) bool {
	if mutant.On("fails-open") {
		return false
	}
	return slices.ContainsFunc(met, func(s string) bool { return s != "" && slices.Contains(w.FailClosedWhen, s) })
}
