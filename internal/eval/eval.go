// Package eval measures what a configuration does to a person's examples: a set of requests through each tier of a workflow, or pairs of
// questions against the thresholds of the semantic cache.
package eval

import (
	"time"

	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/spend"
)

// Tier is what answers: one tier of a workflow, or, of a workflow without tiers, the provider that a request's path names.
type Tier struct {
	Name     string `json:"tier"`
	Provider string `json:"provider,omitempty"` // "": the one that the path names
	Model    string `json:"model,omitempty"`    // "": the one that a request names

	workflow   string // in which it stands alone
	concurrent int    // calls at once that production allows it; 0: no bound
	added      int64  // bytes that its prompt puts into a request
	conf       policy.Tier
}

// Request is one line of a set, ready to be sent.
type Request struct {
	Line int    // from 1
	ID   string // as the line says it; "" where it does not
	Path string
	Body []byte

	call        provider.Call
	schema      *schema // nil: none was asked for
	schemaFault string  // why the request's own schema cannot be judged by
}

// Result is one answer of one tier.
type Result struct {
	Line int    `json:"line"`
	ID   string `json:"id,omitempty"`
	Tier string `json:"tier"`
	Run  int    `json:"run"` // 1, 2, … of a line that is sent several times

	OK      bool   `json:"ok"` // a whole answer under a status of success
	Status  int    `json:"status"`
	Error   string `json:"error,omitempty"`   // the gateway's code, or the provider's
	Message string `json:"message,omitempty"` // … in words

	Answer      string `json:"answer"`              // its text, whole
	ToolCall    bool   `json:"tool_call,omitempty"` // it asks for a tool
	Stop        string `json:"stop_reason,omitempty"`
	ServedModel string `json:"served_model,omitempty"`
	Attempts    int    `json:"attempts"`

	SchemaValid *bool  `json:"schema_valid,omitempty"` // nil: no schema, or no answer that it is about
	SchemaFault string `json:"schema_fault,omitempty"`

	Chars        int      `json:"chars"`
	InputTokens  *int64   `json:"input_tokens,omitempty"` // nil: the answer does not say
	OutputTokens *int64   `json:"output_tokens,omitempty"`
	CostUSD      *float64 `json:"cost_usd,omitempty"` // nil: tokens or price are not known

	FirstMS   *int64 `json:"first_token_ms,omitempty"` // streams: to the first content
	LatencyMS int64  `json:"latency_ms"`               // to the end of the answer, retries and waits included

	intent string // in the run's own log; "": nothing was begun
}

// Report is what a set has shown so far.
type Report struct {
	File     string    `json:"file"`
	Workflow string    `json:"workflow"`
	Revision string    `json:"policy_revision"`
	Started  time.Time `json:"started"`
	Lines    int       `json:"lines"`
	Repeat   int       `json:"repeat"`
	Calls    int       `json:"calls"` // wanted: lines × tiers × repeat
	Made     int       `json:"calls_made"`
	Stopped  string    `json:"stopped,omitempty"` // why fewer were made: interrupted, max_cost
	Prices   string    `json:"prices_as_of"`      // of the built-in list

	Tiers   []Summary `json:"tiers"`
	Results []Result  `json:"results"` // in the order of lines, then tiers, then runs
}

// Words of Report.Stopped.
const (
	Interrupted = "interrupted"
	MaxCost     = "max_cost"
)

// dollars is an amount as JSON shows it.
func dollars(a spend.Amount) *float64 {
	usd := a.USD()
	return &usd
}
