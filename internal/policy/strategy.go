package policy

import "time"

// Strategy is the queueing strategy of a workflow: the block ai_api_queueing_strategy of a policy file, or the same
// fields directly in the workflow.
type Strategy struct {
	Classify       Classify     `yaml:"classify" doc:"Which facts of a signal are logged with a decision."`
	Lanes          Lanes        `yaml:"lanes" doc:"Where a call may wait, and how long."`
	Backpressure   Backpressure `yaml:"backpressure" doc:"What is bounded together, and who goes first."`
	Fallback       Fallback     `yaml:"fallback" doc:"When the next tier may answer."`
	FailClosedWhen []string     `yaml:"fail_closed_when" is:"condition" doc:"Conditions that the client sees as an error: no earlier answer or fixed text of cache stands in for it."`
}

// Classify names the signal fields that are logged with a decision.
type Classify struct {
	Fields []string `yaml:"fields" enum:"http_status|provider_error_type|class|retryable|retry_after_ms|limit_dimension|route_key|visibility_state|outcome_known" doc:"Signal fields; all if left out."`
}

// Lanes are the four places where an intent may wait.
type Lanes struct {
	InteractiveAdmission Interactive `yaml:"interactive_admission" doc:"Before a call is started."`
	BackgroundRetry      Background  `yaml:"background_retry" doc:"Durable, aged out."`
	OwnerReview          Enter       `yaml:"owner_review" doc:"Parked for a person."`
	DeadLetter           DeadLetter  `yaml:"dead_letter" doc:"Jobs and tools that were given up."`
}

// Interactive is the admission lane.
type Interactive struct {
	MaxWait time.Duration `yaml:"max_wait_ms" default:"8000" is:"ms" doc:"How long a call may wait before it is started."`
	// MaxAttempts is Retry.MaxAttempts when it was not written.
	MaxAttempts       int    `yaml:"max_attempts" is:"attempts" doc:"Over the whole life of a call; retry.max_attempts if left out."`
	ShedPriorityBelow string `yaml:"shed_priority_below" enum:"low|normal|high" doc:"Calls below this priority are shed first: they leave the last tenth of the slots and of limits.workers to others, and wait neither for a slot nor for a route that cools down."`
}

// Background is the lane of jobs.
type Background struct {
	MaxQueueAge           time.Duration `yaml:"max_queue_age_ms" default:"900000" is:"ms,positive" doc:"Age at which a job expires."`
	MaxAttempts           int           `yaml:"max_attempts" default:"5" is:"attempts" doc:"Over the whole life of a job."`
	RequireIdempotencyKey bool          `yaml:"require_idempotency_key" default:"false" doc:"Refuse jobs without the caller's own key."`
}

// Enter lists what brings an intent into owner review.
type Enter struct {
	EnterWhen []string `yaml:"enter_when" is:"condition" doc:"Conditions; the lane is closed without any."`
}

// DeadLetter lists what brings a job or tool call into the dead letter.
type DeadLetter struct {
	EnterWhen []string `yaml:"enter_when" default:"max_attempts_exhausted,max_queue_age_exceeded,partial_output_committed" is:"condition" doc:"Conditions."`
}

// Backpressure says what is bounded together and who goes first.
type Backpressure struct {
	ConcurrencyKey []string `yaml:"concurrency_key" enum:"owner_key|tenant|workflow|provider|requested_model|served_model|endpoint_type|route_key" doc:"Calls with the same values share a limit."`
	ReleaseOrder   []string `yaml:"release_order" default:"ready_at,priority,created_at" enum:"ready_at|priority|created_at|expires_at|attempt" doc:"Order in which jobs leave."`
}

// Fallback says when the next tier may answer.
type Fallback struct {
	On                        []string `yaml:"on" default:"rate_limited,overloaded,server_error,timeout,connection_error,unknown_outcome" enum:"rate_limited|overloaded|server_error|timeout|connection_error|unknown_outcome|quota_exhausted|not_found|auth|content_filter|context_length" doc:"Failures after which the next tier may answer."`
	AllowedBeforeFirstToken   bool     `yaml:"allowed_before_first_token" default:"true" doc:"false: no fallback at all; after the first token there is never one."`
	RequireEquivalentTools    bool     `yaml:"require_equivalent_tools" default:"true" doc:"The tier must be able to call the request's tools."`
	RequireSchemaMatch        bool     `yaml:"require_schema_match" default:"true" doc:"The tier must keep the request's JSON schema, and those of its strict tools."`
	RequireCostCap            bool     `yaml:"require_cost_cap" default:"true" doc:"The tier must stay within spend.per_request, and be in no dearer cost_class."`
	RequireDataBoundaryMatch  bool     `yaml:"require_data_boundary_match" default:"true" doc:"The tier must have the same data_boundary."`
	RequireSafetyMatch        bool     `yaml:"require_safety_match" default:"true" doc:"The tier must have the same safety_class."`
	RequireObservabilityMatch bool     `yaml:"require_observability_match" default:"true" doc:"The tier must have the same observability."`
	Contract                  Contract `yaml:"contract" doc:"Who approved this fallback; shown as fallback_allowed."`
}

// Contract is an approved fallback.
type Contract struct {
	ID       string `yaml:"id" is:"line" doc:"Id of the approval."`
	Approver string `yaml:"approver" is:"line" doc:"Who approved."`
}
