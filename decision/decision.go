// Package decision says what becomes of an operation when one of its attempts has ended: a pure function of facts.
package decision

import (
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/retry"
	"github.com/holdfast-ai/holdfast/signal"
)

// Action is what happens next.
type Action string

const (
	// Done: the answer is the client's.
	Done Action = "done"
	// Retry: the same route again after Delay; slot, permit and connection are kept meanwhile.
	Retry Action = "retry"
	// Wait: the same, but too long to hold a slot: slot and permit are given back until ready_at (semantics 36).
	Wait Action = "wait"
	// Queue: too long for the client that waits, who accepts an answer later: to the background (semantics 36).
	Queue Action = "queue"
	// Hold: the effect may have happened; nothing is sent until evidence or a person has spoken (semantics 2).
	Hold Action = "hold"
	// Fail: the client is told.
	Fail Action = "fail"
)

// End is how an attempt ended (semantics 1).
type End string

const (
	Success End = "success"
	Failed  End = "failed" // a definite failure
	Unknown End = "unknown"
	NotSent End = "not_sent"
)

// Conditions are what a policy can name in fail_closed_when and enter_when (interface.md §5).
const (
	RetryAfterExceedsDeadline = "retry_after_exceeds_deadline"
	PartialOutputCommitted    = "partial_output_committed"
	QuotaOrSpendExhausted     = "quota_or_spend_exhausted"
	PermissionDenied          = "permission_denied"
	NotIdempotent             = "not_idempotent"
	MaxAttemptsExhausted      = "max_attempts_exhausted"
	MaxQueueAgeExceeded       = "max_queue_age_exceeded"
	ContractMismatch          = "fallback_contract_mismatch"
)

// Facts are all that a decision rests on. Their JSON form is what the log keeps of each attempt that failed, so that
// another policy can be asked what it would have done.
type Facts struct {
	Signal signal.Signal `json:"signal"`
	// Status is the HTTP status that the failure stands for: an error inside a 200 has that of its kind; 0 when no
	// answer came.
	Status int `json:"status"`
	End    End `json:"end"`
	// Hold says that nothing automatic follows an unknown outcome (on_unknown: hold).
	Hold bool `json:"hold,omitempty"`
	// Visible says that a client has seen a part of the answer (semantics 22).
	Visible bool `json:"visible,omitempty"`
	// Elsewhere says that a further tier keeps the contract, where the wait for this one would be long.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Left says that no client waits for the answer (semantics 25).
	Left bool `json:"left,omitempty"`
	// Async says that the client accepts an answer later: a job.
	Async bool `json:"async,omitempty"`
	// Pass counts the attempts since the job was taken from its lane, this one included.
	Pass int `json:"pass,omitempty"`
	// Broken says that the route's breaker is open, or that the attempt was its probe (semantics 34).
	Broken bool `json:"broken,omitempty"`
	// Spent says that the route's share of retries is used up (semantics 35).
	Spent bool `json:"spent,omitempty"`
	// Unaffordable says that the workflow's limits of cost leave no room for a further attempt (semantics 39).
	Unaffordable bool `json:"unaffordable,omitempty"`
	// Attempt counts the attempts on this tier over the operation's whole life, this one included.
	Attempt int `json:"attempt"`
	// Life counts the attempts on all tiers over the operation's whole life; 0: as Attempt.
	Life int `json:"life,omitempty"`
	// Remaining is what is left of the operation's budget, in nanoseconds.
	Remaining time.Duration `json:"remaining_ns"`
	// Roll, in [0, 1), stands for chance: the same facts give the same delay. What is outside counts as the nearer end.
	Roll float64 `json:"roll"`
}

// Policy is what a workflow says about retries.
type Policy struct {
	// On lists statuses and the words connection_error and timeout.
	On      []string
	Backoff retry.Policy
	// MaxAttempts is the lesser of lane and retry for a call, the lane's for a job (semantics 37).
	MaxAttempts int
	// Bound is the policy's field that MaxAttempts is from; empty: retry.max_attempts.
	Bound string
	// MaxPass bounds the attempts of a job between two stays in its lane; 0: they are not bounded apart.
	MaxPass int
	// MaxWait bounds a wait of a client that does not accept an answer later.
	MaxWait time.Duration
}

func (p Policy) attempts() string {
	if p.Bound == "" {
		return "retry.max_attempts"
	}
	return p.Bound
}

// Decision is what happens next, and why.
type Decision struct {
	Action Action        `json:"action"`
	Delay  time.Duration `json:"delay_ns,omitempty"` // of Retry, Wait, Queue; with Fail what the client should wait
	// Rule is the rule or the policy field that decided: "semantics 22", "retry.max_attempts".
	Rule string `json:"rule"`
	// Condition is the policy's word for why nothing is sent again; empty where it has none.
	Condition string `json:"condition,omitempty"`
	Reason    string `json:"reason"`
}

// NestWait is the longest wait for which a call keeps its slot and its permit (semantics 36).
const NestWait = 2 * time.Second

// leastAttempt is what must be left of the budget for a further attempt to be worth its cost.
const leastAttempt = 100 * time.Millisecond

// Decide is the one place where it is decided what follows an attempt (semantics 5). It knows no clock, no chance and
// no state but f.
func Decide(f Facts, p Policy) Decision {
	if f.End == Success {
		return Decision{Action: Done, Rule: "semantics 1", Reason: "the attempt succeeded"}
	}
	if d, over := f.final(p); over {
		return d
	}
	stated, _ := f.Signal.RetryAfter()
	if stated > retry.Longest {
		return Decision{Action: Fail, Delay: stated, Rule: "semantics 34", Condition: RetryAfterExceedsDeadline,
			Reason: "the provider asks for a wait of " + text(stated) + "; nothing is kept waiting for more than " + text(retry.Longest)}
	}
	delay := p.Backoff.Delay(f.Attempt, stated, f.chance)
	d := Decision{Action: Retry, Delay: delay, Rule: "retry.on", Reason: "it may be tried again"}
	if delay > NestWait {
		d.Action, d.Rule = Wait, "semantics 36"
	}
	if f.Elsewhere && delay > NestWait && !f.Async {
		return Decision{Action: Fail, Delay: stated, Rule: "semantics 36", Reason: "the wait of " + text(delay) + " is longer than is slept in the nest (" +
			text(NestWait) + "), and another tier keeps the contract"}
	}
	if why := f.recess(p); why != "" {
		return Decision{Action: Queue, Delay: max(delay, NestWait), Rule: why, Reason: "it goes on from its lane"}
	}
	if delay > p.MaxWait && delay > NestWait || delay > f.Remaining || f.Remaining-delay < leastAttempt {
		return f.tooLong(p, delay, stated)
	}
	return d
}

// recess is the rule by which a job makes its next attempt from its lane, though it would not have to wait so long: what
// ends a call for whose answer a client waits only puts a job off.
func (f Facts) recess(p Policy) string {
	switch {
	case !f.Async:
		return ""
	case f.Broken:
		return "breaker"
	case f.Spent:
		return "retry.share"
	case p.MaxPass > 0 && f.Pass >= p.MaxPass:
		return "retry.max_attempts"
	}
	return ""
}

// chance draws from [0, n) by the roll.
func (f Facts) chance(n int64) int64 {
	if n <= 0 {
		return 0
	}
	at := f.Roll * float64(n)
	if !(at > 0) { // no number is the least
		return 0
	}
	if at >= float64(n-1) {
		return n - 1
	}
	return int64(at)
}

// final says whether nothing is sent again, whatever the wait.
func (f Facts) final(p Policy) (Decision, bool) {
	fail := func(rule, condition, reason string) (Decision, bool) {
		d := Decision{Action: Fail, Rule: rule, Condition: condition, Reason: reason}
		if f.End == Unknown && f.Hold {
			d.Action = Hold
		}
		return d, true
	}
	switch {
	case f.Visible:
		return fail("semantics 22", PartialOutputCommitted, "a part of the answer is with the client")
	case f.End == Unknown && f.Hold:
		return fail("on_unknown", NotIdempotent, "its effect may have happened")
	case f.Left:
		return fail("semantics 25", "", "no client waits for the answer")
	case !f.Signal.Retryable:
		return fail("signal.retryable", f.condition(), "the provider's answer rules it out"+f.class())
	case !f.triggers(p.On):
		return fail("retry.on", "", "retry.on does not list "+f.Trigger())
	case f.Broken && !f.Async && !mutant.On("retry-outside-breaker"):
		return fail("breaker", "", "the route's breaker is open")
	case f.counted(p) >= max(p.MaxAttempts, 1):
		return fail(p.attempts(), MaxAttemptsExhausted, made(f.counted(p)))
	case f.Unaffordable:
		return fail("spend", QuotaOrSpendExhausted, "a further attempt would go beyond the workflow's limit of cost")
	case f.Spent && !f.Async:
		return fail("retry.share", "", "the route's share of retries is used up")
	}
	return Decision{}, false
}

// counted are the attempts that MaxAttempts bounds: a lane's bound is over the whole life, retry's is for each tier (semantics 37).
func (f Facts) counted(p Policy) int {
	if p.Bound != "" && f.Life > 0 {
		return f.Life
	}
	return f.Attempt
}

func (f Facts) class() string {
	if f.Signal.Class == "" { // the policy's own words made it a failure
		return ""
	}
	return ": " + string(f.Signal.Class)
}

func (f Facts) condition() string {
	switch f.Signal.Class {
	case signal.QuotaExhausted:
		return QuotaOrSpendExhausted
	case signal.Auth, signal.Permission:
		return PermissionDenied
	}
	return ""
}

// tooLong ends, or puts off, what cannot be waited for here (semantics 36).
func (f Facts) tooLong(p Policy, delay, stated time.Duration) Decision {
	if f.Async {
		return Decision{Action: Queue, Delay: delay, Rule: "semantics 36", Reason: "the client accepts an answer later"}
	}
	d := Decision{Action: Fail, Delay: stated, Rule: "lanes.interactive_admission.max_wait_ms", Condition: RetryAfterExceedsDeadline,
		Reason: "the wait of " + text(delay) + " is longer than a call may wait (" + text(p.MaxWait) + ")"}
	if delay > f.Remaining || f.Remaining-delay < leastAttempt {
		d.Rule, d.Reason = "timeouts.total", "the wait of "+text(delay)+" leaves nothing of the budget ("+text(f.Remaining)+" are left)"
		if stated == 0 {
			d.Condition = ""
		}
	}
	return d
}

// text is a duration for people.
func text(d time.Duration) string {
	if d > 100*365*24*time.Hour {
		return "centuries"
	}
	return d.Round(time.Millisecond).String()
}

// Trigger is the failure in the words of retry.on: a status, connection_error or timeout.
func (f Facts) Trigger() string {
	switch {
	case f.Status >= 300:
		return strconv.Itoa(f.Status)
	case f.Signal.Class == signal.Timeout && f.End != NotSent:
		return "timeout"
	}
	return "connection_error" // refused, reset, cut: whatever came was no whole answer
}

func (f Facts) triggers(on []string) bool { return slices.Contains(on, f.Trigger()) }

func made(n int) string {
	if n == 1 {
		return "1 attempt was made"
	}
	return strconv.Itoa(n) + " attempts were made"
}
