package ledger

import (
	"encoding/json"
	"time"
)

// State is where an intent stands; the diagram and the legal steps are in package intent.
type State uint8

const (
	Created    State = 1 // durable, nothing sent
	Dispatched State = 2 // at least one attempt may have left
	Unknown    State = 3 // an effect may have happened; only evidence or a person ends this
	Confirmed  State = 4 // the outcome is known and durable
	Settled    State = 5 // finished; the claim follows its ttl
)

// Outcome is what became of the operation.
type Outcome uint8

const (
	OutcomePending   Outcome = 1
	OutcomeSuccess   Outcome = 2
	OutcomeFailed    Outcome = 3
	OutcomeUnknown   Outcome = 4
	OutcomeDiscarded Outcome = 5
)

// AttemptEnd is how one upstream call ended (semantics 1).
type AttemptEnd uint8

const (
	AttemptRunning AttemptEnd = 0
	AttemptSuccess AttemptEnd = 1
	AttemptFailed  AttemptEnd = 2 // definite
	AttemptUnknown AttemptEnd = 3
	AttemptNotSent AttemptEnd = 4
)

// Visibility is how much of an answer a client may have seen.
type Visibility uint8

const (
	VisBackground Visibility = 1 // background_only
	VisBefore     Visibility = 2 // before_first_token
	VisPartial    Visibility = 3 // partial_output
	VisComplete   Visibility = 4 // complete
)

// Delivery is what is known of the answer's arrival at its client (semantics 19).
type Delivery uint8

const (
	DeliveryOpen    Delivery = 0
	DeliveryLost    Delivery = 1
	DeliverySent    Delivery = 2
	DeliveryAssumed Delivery = 3
)

// Effect is what a call does to the world.
type Effect uint8

const (
	EffectRead       Effect = 1 // nothing; not an intent
	EffectGeneration Effect = 2 // costs money
	EffectExternal   Effect = 3 // changes something
)

// Intent is the immutable head of one operation. Times are ledger time.
type Intent struct {
	ID             string // UUIDv7, its order is creation order
	JobID          string
	Tenant         string
	Workflow       string
	OwnerKey       string
	Effect         Effect
	Hold           bool   // on_unknown: hold
	Key            string // idempotency_key: the full idem:… form, claimed or derived; empty under derive: off
	Explicit       bool   // Key comes from the caller
	Fingerprint    [32]byte
	Method         string
	Path           string // normalised, without credentials
	Provider       string // wire format: openai, anthropic, gemini, tool
	Endpoint       string // endpoint family, e.g. chat.completions
	RequestedModel string
	Stream         bool
	Priority       string
	MaxAttempts    int
	FallbackOK     string // fallback_allowed: id of the approved contract
	EstimatedCost  float64
	PolicyRevision string
	Trigger        string // what made the client send it: "", "retry:1", "resume", …
	ParentID       string // predecessor, for a takeover or replayed generation
	Callback       string // callback_url: whom a job's end is told to; of a callback, where it goes
	CreatedAt      time.Time
}

// Status is the part of an intent that changes, one version at a time.
type Status struct {
	Version     int64
	State       State
	Outcome     Outcome
	Lane        string
	Visibility  Visibility
	Delivery    Delivery
	Attempt     int // upstream calls dispatched so far
	Crashes     int
	RouteKey    string
	ServedModel string
	Tier        string
	ReadyAt     time.Time // zero: now; in Dispatched: no attempt is on its way, the next is due then
	ExpiresAt   time.Time // zero: never
	RetryAfter  time.Duration
	LeaseOwner  string
	LeaseUntil  time.Time // zero: leans on the owner's heartbeat
	Partial     bool      // partial_output_committed
	BilledMaybe int       // attempts marked possibly_billed
	LastError   string    // last_error_type
	UsageIn     int64
	UsageOut    int64
	UpdatedAt   time.Time
}

// Owner is one engine that works on intents: what leases lean on.
type Owner struct {
	ID    string
	Until time.Time // ledger time until which it is known to live
	Info  []byte    // what it says of itself to the others, at most OwnerInfoMax bytes; opaque to the store
}

// OwnerInfoMax bounds Owner.Info.
const OwnerInfoMax = 4 << 10

// Answer is what a settled intent replays. The body is BodyAnswer of the same intent.
type Answer struct {
	HTTPStatus int
	Header     map[string][]string // allow-listed, without content-length
	Source     string              // tier that answered
	Events     int                 // complete stream events, 0 for a plain body
	HasBody    bool
}

// Event is one line of an intent's history. Only the fields that apply are set.
type Event struct {
	At       time.Time       `json:"at"`
	Kind     string          `json:"kind"` // transition, attempt, attempt_end, duplicate, evidence, note
	From     State           `json:"from,omitempty"`
	To       State           `json:"to,omitempty"`
	Actor    string          `json:"actor,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	Rule     string          `json:"rule,omitempty"`
	Attempt  int             `json:"attempt,omitempty"`
	Route    string          `json:"route,omitempty"`
	Tier     string          `json:"tier,omitempty"`
	End      AttemptEnd      `json:"end,omitempty"`
	Status   int             `json:"status,omitempty"`
	Billed   bool            `json:"possibly_billed,omitempty"`
	Error    string          `json:"error,omitempty"`
	Evidence json.RawMessage `json:"evidence,omitempty"`
}

// Record is an intent as read back.
type Record struct {
	Intent
	Status
	Answer     *Answer // settled with an answer kept
	SettledAt  time.Time
	ClaimUntil time.Time // when the claim ends; zero while held or when there is none
}
