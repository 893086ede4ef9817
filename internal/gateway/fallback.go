package gateway

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
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
	Provider, Model     string // where it was sent, or was to be
	Endpoint            string
	Body                []byte
	Billed              spend.Amount // what counts of it as spent
	Reviewed            bool         // a person has spoken for it
}

// Fallback decides whether another tier of w may answer, for `holdfast explain`. f.Provider and f.Model say which tier has failed;
// what that one leaves out is the request's own.
func Fallback(cfg *policy.Config, w *policy.Workflow, f *Failing) fallback.Decision {
	if len(w.Tiers) < 2 {
		return fallback.Decide(&fallback.Facts{}, &fallback.Policy{})
	}
	needs := f.needs(cfg, w)
	at := slices.IndexFunc(w.Tiers, func(t policy.Tier) bool { return f.wasSentTo(&t) })
	z := sizeOf(f.Endpoint, f.Body)
	tiers := make([]fallback.Tier, len(w.Tiers))
	for i := range w.Tiers {
		tiers[i] = f.tier(cfg, &w.Tiers[i], needs.Wire, z)
	}
	facts := f.facts(needs, tiers[0], tiers[at+1:])
	return fallback.Decide(&facts, fallbackPolicy(w, f))
}

// Start decides at which tier of w a call begins, for `holdfast explain`; f.Provider is that which its path names.
func Start(cfg *policy.Config, w *policy.Workflow, f *Failing) fallback.Decision {
	needs := f.needs(cfg, w)
	z := sizeOf(f.Endpoint, f.Body)
	tiers := make([]fallback.Tier, len(w.Tiers))
	for i := range w.Tiers {
		tiers[i] = f.tier(cfg, &w.Tiers[i], needs.Wire, z)
	}
	if len(tiers) == 0 {
		return fallback.Decision{Action: fallback.Next, Tier: f.Provider, Rule: "tiers", Reason: "there are no tiers: the path names the provider"}
	}
	facts := f.facts(needs, tiers[0], tiers)
	return fallback.Start(&facts, fallbackPolicy(w, f))
}

// tier is a tier as a call would find it, which is told to it in its own format. Without a request the APIs alone are asked.
func (f *Failing) tier(cfg *policy.Config, t *policy.Tier, own string, z size) fallback.Tier {
	name, model := cmp.Or(t.Provider, f.Provider), cmp.Or(t.Model, f.Model)
	v := tierFacts(cfg, t, name, model, z)
	p := cfg.Provider(name)
	if v.Wire == own || p == nil || !translates(f.Endpoint, provider.Wire(v.Wire)) {
		return v
	}
	v.Wire = own
	if len(f.Body) == 0 {
		return v
	}
	if _, err := told(f.Endpoint, p, model, f.Body, &cfg.Limits); err != nil {
		v.Lack = unsaid(err)
	}
	return v
}

func (f *Failing) needs(cfg *policy.Config, w *policy.Workflow) fallback.Needs {
	needs := needsOf(f.Body)
	needs.Wire = string(wireOf(f.Endpoint))
	if p := cfg.Provider(f.Provider); p != nil && needs.Wire == "" {
		needs.Wire = p.Type
	}
	needs.SameModel = vectors(f.Endpoint)
	for i := len(w.Tiers) - 1; i >= 0; i-- {
		name := cmp.Or(w.Tiers[i].Provider, f.Provider)
		if p := cfg.Provider(name); p != nil && p.Type == needs.Wire {
			needs.Home = name
		}
	}
	return needs
}

func (f *Failing) facts(needs fallback.Needs, first fallback.Tier, later []fallback.Tier) fallback.Facts {
	return fallback.Facts{Failure: f.Failure, Refused: f.Refused, Visible: f.Visible, Held: f.Held, Left: f.Left, Remaining: f.Remaining,
		Needs: needs, From: first, Later: later}
}

func fallbackPolicy(w *policy.Workflow, f *Failing) *fallback.Policy {
	b := &w.Fallback
	return &fallback.Policy{On: b.On, Allowed: b.AllowedBeforeFirstToken, Tools: b.RequireEquivalentTools, Schema: b.RequireSchemaMatch,
		CostCap: b.RequireCostCap, DataBoundary: b.RequireDataBoundaryMatch, Contract: b.Contract.ID, Approval: w.Approval == policy.ApproveFallback,
		Capped: w.Spend.PerRequest > 0, Cap: int64(spend.USD(w.Spend.PerRequest) - f.Billed), Reviewed: f.Reviewed}
}

// wasSentTo reports whether a tier is the one that failed. What its tier leaves out is the request's own.
func (f *Failing) wasSentTo(t *policy.Tier) bool {
	return (t.Provider == "" || t.Provider == f.Provider) && (t.Model == "" || policy.IsVersion(f.Model, t.Model))
}

// vectors says that an endpoint's answers mean something beside those of the same model alone.
func vectors(endpoint string) bool {
	return endpoint == wire.Embeddings || endpoint == wire.Embed || endpoint == wire.BatchEmbed
}

// tierFacts is a tier with what is known of its model, for a request of such a size.
func tierFacts(cfg *policy.Config, t *policy.Tier, name, model string, z size) fallback.Tier {
	v := fallback.Tier{Name: t.Name, Provider: name, Model: model, QualityClass: t.QualityClass, CostClass: t.CostClass, DataBoundary: t.DataBoundary}
	if p := cfg.Provider(name); p != nil {
		v.Wire = p.Type
	}
	m := cfg.Known(model)
	v.Tools, v.Schema, v.Parallel = said(m.Tools), said(m.JSONSchema), said(m.ParallelTools)
	v.Images, v.Audio, v.Video, v.Files = said(m.Images), said(m.Audio), said(m.Video), said(m.Files)
	if m.ContextTokens != nil {
		v.ContextTokens = *m.ContextTokens
	}
	if t.Prompt != nil && t.Prompt.MaxTokens > 0 {
		z.out, z.bound = min(z.out, int64(t.Prompt.MaxTokens)), min(z.bound, int64(t.Prompt.MaxTokens))
	}
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
