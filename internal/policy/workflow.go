package policy

import "time"

// Mode says whether a policy acts or only reports.
type Mode string

const (
	Enforce Mode = "enforce"
	Observe Mode = "observe"
)

// Effect is what a call does in the world. Empty is "by path" (interface.md §5).
type Effect string

const (
	ByPath     Effect = ""
	Read       Effect = "read"
	Generation Effect = "generation"
	External   Effect = "external"
)

// OnUnknown is what an unknown outcome leads to (semantics 2).
type OnUnknown string

const (
	RetryUnknown OnUnknown = "retry"
	HoldUnknown  OnUnknown = "hold"
)

// Derive is what a derived key is taken for (interface.md §4).
type Derive string

const (
	DeriveRetries Derive = "retries"
	DeriveAlways  Derive = "always"
	DeriveOff     Derive = "off"
)

// InFlight is what a concurrent duplicate gets.
type InFlight string

const (
	Attach   InFlight = "attach"
	Wait     InFlight = "wait"
	Conflict InFlight = "conflict"
)

// StoreError is what happens while the store cannot be read (semantics 18).
type StoreError string

const (
	Deny  StoreError = "deny"
	Local StoreError = "local"
	Allow StoreError = "allow"
)

// Durability says whether an answer may end before it is durable (semantics 28).
type Durability string

const (
	Relaxed Durability = "relaxed"
	Strict  Durability = "strict"
)

// Disconnect is what happens to an attempt whose client left (semantics 25).
type Disconnect string

const (
	Finish Disconnect = "finish"
	Cancel Disconnect = "cancel"
)

// Words of Workflow.Approval.
const (
	ApproveNone     = "none"
	ApproveDispatch = "dispatch" // an owner approves before anything is sent
	ApproveFallback = "fallback" // … before another tier is tried
)

// DefaultWorkflow takes what no other matches (semantics 46).
const DefaultWorkflow = "default"

// Workflow is the policy of a kind of call, with every default applied.
type Workflow struct {
	Name  string `yaml:"-"`
	Match Match  `yaml:"match" doc:"Which calls; everything if left out."`
	Mode  Mode   `yaml:"mode" default:"enforce" enum:"enforce|observe" doc:"observe records and reports what would have been done and changes nothing."`
	// Effect is ByPath when it was not written: use EffectOf.
	Effect Effect `yaml:"effect" enum:"read|generation|external" doc:"What a call does; by path if left out: GET, count_tokens and models read, the rest generation."`
	// OnUnknown is empty when it was not written: use UnknownRule.
	OnUnknown OnUnknown `yaml:"on_unknown" enum:"retry|hold" doc:"After an unknown outcome; retry for generation, hold for external and for requests that make the provider act."`

	Idempotency Idempotency `yaml:"idempotency" doc:"What counts as the same call, and for how long."`
	Timeouts    Timeouts    `yaml:"timeouts" doc:"first_token ≤ attempt ≤ total < request."`
	Retry       Retry       `yaml:"retry" doc:"Attempts on one tier."`
	Breaker     Breaker     `yaml:"breaker" doc:"When a route is left alone."`
	Bulkhead    Bulkhead    `yaml:"bulkhead" doc:"Calls in progress per tier."`
	Tiers       []Tier      `yaml:"tiers" doc:"Providers in order of preference; without tiers the one that the path names."`
	Cache       Cache       `yaml:"cache" doc:"Answers without a provider, as the last resort."`

	Strategy `yaml:"ai_api_queueing_strategy,alias" doc:"The same fields as classify, lanes, backpressure, fallback and fail_closed_when beside it."`

	OnDisconnect  Disconnect    `yaml:"on_disconnect" default:"finish" enum:"finish|cancel" doc:"What becomes of an attempt whose client left."`
	FinishLimit   time.Duration `yaml:"finish_limit" default:"60s" is:"positive" doc:"How long an attempt without a client may go on."`
	FinishQuota   float64       `yaml:"finish_quota" default:"0.2" is:"ratio" doc:"Share of a tier's slots that such attempts may hold."`
	BridgeAfter   time.Duration `yaml:"bridge_after" default:"15s" is:"positive" doc:"A held stream shows signs of life after this."`
	AdoptGrace    time.Duration `yaml:"adopt_grace" default:"20ms" doc:"How long a newcomer watches its predecessor's connection."`
	DeliveryGrace time.Duration `yaml:"delivery_grace" default:"2s" is:"positive" doc:"Sent becomes delivered after this without a reset."`
	ErrorHold     time.Duration `yaml:"error_hold" default:"7s" doc:"Our own failures answer the same derived key this long."`

	Durability Durability `yaml:"durability" enum:"relaxed|strict" doc:"strict holds the answer's end until it is durable; relaxed for generation, strict for external."`
	Succeeded  Conditions `yaml:"succeeded" doc:"Expressions or statuses that mean success."`
	Failed     Conditions `yaml:"failed" doc:"Expressions or statuses that mean failure."`
	Definite   Conditions `yaml:"definite" doc:"Further failures of external calls that certainly had no effect; \"!503\": this status proves nothing."`
	Reconcile  *Reconcile `yaml:"reconcile" doc:"How an unknown outcome is found out, read-only."`
	Approval   string     `yaml:"approval" default:"none" enum:"none|dispatch|fallback" doc:"An owner approves first."`
	Spend      Spend      `yaml:"spend" doc:"USD, per workflow and owner."`
	Callbacks  Callbacks  `yaml:"callbacks" doc:"How a job's callback_url is called."`
	Topic      string     `yaml:"topic" is:"line" doc:"Template over the body, shown in alerts."`

	matcher matcher
	at      string // its path, where that is not workflows.NAME
}

// Match says which calls a workflow takes. Lists are alternatives; the three fields must all hold.
type Match struct {
	Paths   []string      `yaml:"paths" is:"pathglob" doc:"Globs of the path; * is any run of characters, ? one."`
	Models  []string      `yaml:"models" is:"glob" doc:"Globs of the model asked for."`
	Headers []HeaderMatch `yaml:"headers,map" is:"header" doc:"Header: glob of its value."`
}

// HeaderMatch asks for a header whose value fits a glob.
type HeaderMatch struct {
	Name  string `yaml:"-"`
	Value string `yaml:",value" is:"glob"`
}

// Idempotency says what counts as the same call.
type Idempotency struct {
	Derive        Derive        `yaml:"derive" enum:"retries|always|off" doc:"What a derived key is taken for; retries, but always for external."`
	Window        time.Duration `yaml:"window" is:"positive" doc:"From the first sighting: 5m; external 24h with a key template, else 10m."`
	TTL           time.Duration `yaml:"ttl" is:"positive" doc:"From settlement: 30m; external 24h."`
	Ignore        []string      `yaml:"ignore" is:"field" doc:"Body fields without meaning, a or a.b.c."`
	SchemaVersion string        `yaml:"schema_version" is:"line" doc:"Stands for the response schema in the key."`
	Key           string        `yaml:"key" is:"template" doc:"Key from business arguments, e.g. {customer_id}:{item_id}:{date}."`
	OnInFlight    InFlight      `yaml:"on_in_flight" default:"attach" enum:"attach|wait|conflict" doc:"What a concurrent duplicate gets."`
	OnStoreError  StoreError    `yaml:"on_store_error" default:"local" enum:"deny|local|allow" doc:"While the store cannot be read."`
}

// Timeouts are nested: FirstToken ≤ Attempt ≤ Total < Request. Idle and Stream count after a stream's boundary.
type Timeouts struct {
	FirstToken time.Duration `yaml:"first_token" is:"positive" doc:"Streams: 300s to the first content."`
	Idle       time.Duration `yaml:"idle" default:"300s" is:"positive" doc:"Between two events of a stream."`
	Attempt    time.Duration `yaml:"attempt" is:"positive" doc:"One upstream call: 590s."`
	Total      time.Duration `yaml:"total" is:"positive" doc:"All attempts and waits: 590s."`
	Request    time.Duration `yaml:"request" is:"positive" doc:"The whole call as the client sees it: 600s."`
	Stream     time.Duration `yaml:"stream" default:"60m" is:"positive" doc:"A whole stream."`
}

// Retry bounds the attempts on one tier.
type Retry struct {
	MaxAttempts int           `yaml:"max_attempts" default:"3" is:"attempts" doc:"First attempt included."`
	Base        time.Duration `yaml:"base" default:"500ms" is:"positive" doc:"Full jitter up to base × 2ⁿ; Retry-After is a floor."`
	Max         time.Duration `yaml:"max" default:"8s" is:"positive" doc:"Longest backoff."`
	Share       float64       `yaml:"share" default:"0.2" is:"ratio" doc:"Retries as a share of a route's traffic."`
	// On lists statuses as text, and signal classes such as connection_error.
	On []string `yaml:"on" default:"429,500,502,503,504,529,connection_error" is:"trigger" doc:"Statuses and connection_error."`
}

// Breaker says when a route is left alone.
type Breaker struct {
	FailureThreshold int           `yaml:"failure_threshold" default:"10" is:"positive" doc:"Consecutive failures."`
	ResetTimeout     time.Duration `yaml:"reset_timeout" default:"30s" is:"positive" doc:"Until one probe is let through."`
	Scope            string        `yaml:"scope" default:"local" enum:"local|shared" doc:"local counts failures of this process; shared those of all replicas, and needs shared_state."`
	Replicas         int           `yaml:"replicas" default:"1" is:"positive" doc:"Local thresholds are divided by it."`
}

// Bulkhead bounds calls in progress.
type Bulkhead struct {
	MaxConcurrent      int     `yaml:"max_concurrent" default:"0" is:"nonnegative" doc:"Per tier, which without tiers is each provider that a path can name; 0: only limits.workers. Mean seconds × requests/s × 1.3."`
	Wait               bool    `yaml:"wait" default:"false" doc:"When full and no tier is left, wait up to the lane's max_wait_ms."`
	Name               string  `yaml:"name" is:"name" doc:"Workflows with the same name share one."`
	InteractiveReserve float64 `yaml:"interactive_reserve" default:"0.2" is:"ratio" doc:"Share that batch work never takes."`
}

// Tier is one provider and model in order of preference.
type Tier struct {
	Name          string        `yaml:"name" is:"tier" doc:"Shown in Holdfast-Source; tier1, tier2, … if left out."`
	Provider      string        `yaml:"provider" doc:"A name from providers; without it the one that the path names."`
	Model         string        `yaml:"model" is:"line" doc:"Without it the one asked for."`
	Prompt        *Prompt       `yaml:"prompt" doc:"Changes the request for this tier."`
	Timeouts      *TierTimeouts `yaml:"timeouts" doc:"What differs from the workflow's."`
	Bulkhead      *Bulkhead     `yaml:"bulkhead" doc:"Instead of the workflow's."`
	CostClass     string        `yaml:"cost_class" is:"name" doc:"low, medium, high, or a name of yours: another tier is no dearer."`
	QualityClass  string        `yaml:"quality_class" is:"name" doc:"Tiers of one class are equal."`
	DataBoundary  string        `yaml:"data_boundary" is:"name" doc:"Where data may go."`
	SafetyClass   string        `yaml:"safety_class" is:"name" doc:"How its provider treats unsafe content: tiers of one class are equal."`
	Observability string        `yaml:"observability" is:"name" doc:"What is logged and kept of a call there: tiers of one word are equal."`
	Notice        string        `yaml:"notice" doc:"Text for a degraded answer."`
}

// TierTimeouts override the workflow's where they are not zero.
type TierTimeouts struct {
	FirstToken time.Duration `yaml:"first_token" is:"positive" doc:"Streams: to the first content."`
	Idle       time.Duration `yaml:"idle" is:"positive" doc:"Between two events of a stream."`
	Attempt    time.Duration `yaml:"attempt" is:"positive" doc:"One upstream call."`
}

// Prompt changes the request for one tier.
type Prompt struct {
	System    string `yaml:"system" doc:"Replaces the system text."`
	MaxTokens int    `yaml:"max_tokens" default:"0" is:"nonnegative" doc:"Bounds the answer."`
	Examples  *int   `yaml:"examples" is:"nonnegative" doc:"How many of the examples at the front of the conversation are kept (Holdfast-Examples says how many there are); all of them if left out."`
	Template  string `yaml:"template" is:"prompt" doc:"Stands in the place of the last user text, which it holds as {input}."`
}

// Cache answers without a provider.
type Cache struct {
	First    bool          `yaml:"first" default:"false" doc:"Look before calling, not only as the last resort; for requests with temperature: 0."`
	Sampled  bool          `yaml:"sampled" default:"false" doc:"With first: also for requests whose answer is drawn, or that leave temperature out."`
	Semantic *Semantic     `yaml:"semantic" doc:"An earlier answer to nearly the same question."`
	Template []CachePrompt `yaml:"template" doc:"An earlier answer to the same template with the same values."`
	Default  string        `yaml:"default" doc:"A fixed text when nothing else is left."`
}

// Semantic is the semantic cache.
type Semantic struct {
	Embedder   string        `yaml:"embedder" doc:"A name from embedders; may be left out if there is one."`
	Threshold  float64       `yaml:"threshold" default:"0.95" is:"ratio" doc:"Cosine similarity."`
	TTL        time.Duration `yaml:"ttl" default:"24h" is:"positive" doc:"Age of an answer."`
	MaxEntries int           `yaml:"max_entries" default:"10000" is:"positive" doc:"Per tenant and workflow."`
}

// CachePrompt is a template of the last user text.
type CachePrompt struct {
	Name    string        `yaml:"name" is:"required,name" doc:"Shown in traces."`
	Pattern string        `yaml:"pattern" is:"required,pattern" doc:"Text with {values}, which are part of the key."`
	TTL     time.Duration `yaml:"ttl" default:"24h" is:"positive" doc:"Age of an answer."`
}

// Spend bounds cost in USD; 0 is no bound.
type Spend struct {
	PerRequest float64 `yaml:"per_request" default:"0" is:"nonnegative" doc:"One operation."`
	PerDay     float64 `yaml:"per_day" default:"0" is:"nonnegative" doc:"Per owner and day."`
}

// Callbacks says how callback_url is called.
type Callbacks struct {
	Secret Secret   `yaml:"secret" doc:"Signs callbacks (Standard Webhooks): whsec_ and base64, or any text. Without it a callback_url is refused."`
	Allow  []string `yaml:"allow" is:"cidr" doc:"What may be called although it is no public address, and over http and at any port: host, address or CIDR."`
}

// Reconcile finds out, read-only, whether an effect happened (semantics 8). Exactly one of Get, OpenAIResponse,
// Tool and SQL is set.
type Reconcile struct {
	Get            string        `yaml:"get" is:"line" doc:"Path to read, e.g. /charges?ref={key}."`
	OpenAIResponse bool          `yaml:"openai_response" default:"false" doc:"GET /v1/responses/{id} of a background response."`
	Metadata       bool          `yaml:"metadata" default:"false" doc:"With openai_response: write metadata.holdfast into chat completions with store: true, and find them by it."`
	Tool           string        `yaml:"tool" is:"line" doc:"A read tool of the same MCP server."`
	SQL            string        `yaml:"sql" doc:"One SELECT; $1 is the key, or $1, $2, … are arguments in their order."`
	DSN            DSN           `yaml:"dsn" is:"sqldsn" doc:"Database of sql."`
	Arguments      []Argument    `yaml:"arguments,map" doc:"Arguments of tool or sql, as key templates."`
	Happened       Expr          `yaml:"happened" doc:"Expression over status, body, result: the effect took place."`
	NotHappened    Expr          `yaml:"not_happened" doc:"Expression: it did not. Without it: not happened."`
	When           string        `yaml:"when" default:"realtime" enum:"realtime|batch" doc:"Once at once, then batched; or batched only."`
	Every          time.Duration `yaml:"every" default:"1m" is:"positive" doc:"Interval of batched checks."`
	Quiet          time.Duration `yaml:"quiet" is:"positive" doc:"Earliest trusted 'did not happen': the greater of 60s and twice the attempt timeout."`
	Attempts       int           `yaml:"attempts" default:"5" is:"positive" doc:"Checks before a person is asked."`
}

// Argument is one mapped argument of a reconciling tool.
type Argument struct {
	Name  string `yaml:"-"`
	Value string `yaml:",value"`
}
