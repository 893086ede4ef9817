package gateway

import (
	"encoding/json"
	"time"

	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
	"github.com/holdfast-ai/holdfast/signal"
	"github.com/holdfast-ai/holdfast/spend"
)

// Whether another tier may answer is decided where a call would fail, behind backpressure and retries (design.md §4), and put on
// record; what is decided is done by advance.go.

// Failing is a call that ends by a failure, as far as another tier is concerned.
type Failing struct {
	Failure             string // its word in fallback.on
	Refused             bool   // nothing was sent: the tier had no room, or its route was closed
	Visible, Held, Left bool
	Remaining           time.Duration
	Billed              spend.Amount // what counts of it as spent
	Reviewed            bool         // a person has spoken for it
}

func (f *Failing) facts(needs fallback.Needs, first fallback.Tier, later []fallback.Tier) fallback.Facts {
	return fallback.Facts{Failure: f.Failure, Refused: f.Refused, Visible: f.Visible, Held: f.Held, Left: f.Left, Remaining: f.Remaining,
		Needs: needs, From: first, Later: later}
}

func fallbackPolicy(w *policy.Workflow, f *Failing) *fallback.Policy {
	b := &w.Fallback
	return &fallback.Policy{On: b.On, Allowed: b.AllowedBeforeFirstToken, Tools: b.RequireEquivalentTools, Schema: b.RequireSchemaMatch,
		CostCap: b.RequireCostCap, DataBoundary: b.RequireDataBoundaryMatch, Safety: b.RequireSafetyMatch, Observability: b.RequireObservabilityMatch,
		Contract: b.Contract.ID, Approval: w.Approval == policy.ApproveFallback,
		Capped: w.Spend.PerRequest > 0, Cap: int64(spend.USD(w.Spend.PerRequest) - f.Billed), Reviewed: f.Reviewed}
}

// vectors says that an endpoint's answers mean something beside those of the same model alone.
func vectors(endpoint string) bool {
	return endpoint == wire.Embeddings || endpoint == wire.Embed || endpoint == wire.BatchEmbed
}

// tierFacts is what is known of a tier and its model, for a request of such a size; who it is says the course.
func tierFacts(cfg *policy.Config, t *policy.Tier, name, model string, z size) fallback.Tier {
	v := fallback.Tier{Provider: name, Model: model, QualityClass: t.QualityClass, CostClass: t.CostClass, DataBoundary: t.DataBoundary,
		SafetyClass: t.SafetyClass, Observability: t.Observability}
	m := cfg.Known(model)
	v.Tools, v.Schema, v.Parallel = said(m.Tools), said(m.JSONSchema), said(m.ParallelTools)
	v.Images, v.Audio, v.Video, v.Files = said(m.Images), said(m.Audio), said(m.Video), said(m.Files)
	if m.ContextTokens != nil {
		v.ContextTokens = *m.ContextTokens
	}
	z = z.at(t)
	v.Tokens, v.Least = z.in+z.out, z.least+z.bound
	var p spend.Price
	if p.Input, p.Output, v.Priced = cfg.Price(model); v.Priced {
		v.Cost = int64(p.Of(z.in, z.out))
	}
	return v
}

func said(b *bool) fallback.Answer {
	switch {
	case b == nil:
		return fallback.NotSaid
	case *b:
		return fallback.Yes
	}
	return fallback.No
}

// FailureWord is a failure's word in fallback.on; "" where it has none.
func FailureWord(s signal.Signal) string {
	switch s.Class {
	case signal.RateLimited, signal.Overloaded, signal.ServerError, signal.Timeout, signal.Connection, signal.Unknown, signal.QuotaExhausted,
		signal.NotFound, signal.Auth, signal.ContentFilter, signal.ContextLength:
		return string(s.Class)
	case signal.Permission:
		return string(signal.Auth)
	}
	return ""
}

// refusalWords are the words of what refuses a call before it is sent, and has one.
var refusalWords = map[Code]string{CodeRateLimited: string(signal.RateLimited), CodeSpendExceeded: string(signal.QuotaExhausted)}

// closed are the refusals that lead to the next tier whatever fallback.on says (semantics 33).
var closed = []Code{CodeBulkheadFull, CodeCircuitOpen, CodeShed, CodeAdmission}

// fallbackHeader is Holdfast-Fallback.
func fallbackHeader(d *fallback.Decision) string {
	text := string(d.Action)
	if d.Tier != "" {
		text += "; tier=" + d.Tier
	}
	if d.Approval {
		text += "; approval"
	}
	return text + "; rule=" + d.Rule
}

func fallbackEvidence(d *fallback.Decision) json.RawMessage {
	p, err := json.Marshal(map[string]*fallback.Decision{"fallback": d})
	if err != nil { // words and flags
		return nil
	}
	return p
}

// FallbackWords say to a person what was decided.
func FallbackWords(d *fallback.Decision) string {
	switch {
	case d.Action != fallback.Next:
		return "no other tier may answer: " + d.Reason
	case d.Approval:
		return "tier " + d.Tier + " may answer once its owner approves: " + d.Reason
	case d.Contract != "":
		return "tier " + d.Tier + " answers, by contract " + d.Contract
	}
	return "tier " + d.Tier + " answers: " + d.Reason
}
