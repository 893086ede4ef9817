package gateway

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/signal"
	"github.com/holdfast-ai/holdfast/spend"
)

// Whether another tier may answer is decided where a call finally fails, behind backpressure and retries (design.md §4), and
// put on record. What is sent does not change by it.

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
}

// Fallback decides whether another tier of w may answer, for traffic and for `holdfast explain`.
func Fallback(cfg *policy.Config, w *policy.Workflow, f *Failing) fallback.Decision {
	if len(w.Tiers) < 2 {
		return fallback.Decide(&fallback.Facts{}, &fallback.Policy{})
	}
	facts := fallback.Facts{Failure: f.Failure, Refused: f.Refused, Visible: f.Visible, Held: f.Held, Left: f.Left, Remaining: f.Remaining,
		Needs: needsOf(f.Body)}
	if p := cfg.Provider(f.Provider); p != nil {
		facts.Needs.Wire = p.Type
	}
	in, out := tokens(f.Endpoint, f.Body)
	facts.Needs.Tokens = in + out
	own := policy.Tier{Provider: f.Provider, Model: f.Model}
	at := slices.IndexFunc(w.Tiers, func(t policy.Tier) bool { return f.wasSentTo(&t) })
	if at >= 0 {
		own = w.Tiers[at]
	}
	facts.From = f.tier(cfg, &own, in, out)
	for i := at + 1; i < len(w.Tiers); i++ {
		facts.Later = append(facts.Later, f.tier(cfg, &w.Tiers[i], in, out))
	}
	return fallback.Decide(&facts, fallbackPolicy(w, f.Billed))
}

func fallbackPolicy(w *policy.Workflow, billed spend.Amount) *fallback.Policy {
	b := &w.Fallback
	return &fallback.Policy{On: b.On, Allowed: b.AllowedBeforeFirstToken, Tools: b.RequireEquivalentTools, Schema: b.RequireSchemaMatch,
		CostCap: b.RequireCostCap, DataBoundary: b.RequireDataBoundaryMatch, Contract: b.Contract.ID, Approval: w.Approval == policy.ApproveFallback,
		Capped: w.Spend.PerRequest > 0, Cap: int64(spend.USD(w.Spend.PerRequest) - billed)}
}

// wasSentTo reports whether a tier is the one that failed. What its tier leaves out is the request's own.
func (f *Failing) wasSentTo(t *policy.Tier) bool {
	return (t.Provider == "" || t.Provider == f.Provider) && (t.Model == "" || policy.IsVersion(f.Model, t.Model))
}

// tier is a tier with what is known of its model.
func (f *Failing) tier(cfg *policy.Config, t *policy.Tier, in, out int64) fallback.Tier {
	name, model := cmp.Or(t.Provider, f.Provider), cmp.Or(t.Model, f.Model)
	v := fallback.Tier{Name: t.Name, Provider: name, Model: model, QualityClass: t.QualityClass, CostClass: t.CostClass, DataBoundary: t.DataBoundary}
	if p := cfg.Provider(name); p != nil {
		v.Wire = p.Type
	}
	m := cfg.Known(model)
	v.Tools, v.Images, v.Schema = said(m.Tools), said(m.Images), said(m.JSONSchema)
	if m.ContextTokens != nil {
		v.ContextTokens = *m.ContextTokens
	}
	var p spend.Price
	if p.Input, p.Output, v.Priced = cfg.Price(model); v.Priced {
		v.Cost = int64(p.Of(in, out))
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

// elsewhere decides whether another tier may answer what an attempt, or the wait for one, has ended with.
func (e *execution) elsewhere(f Failing) fallback.Decision {
	if len(e.wf.Tiers) < 2 {
		return fallback.Decision{}
	}
	f.Provider, f.Body = e.target.conf.Name, e.request.Body
	return e.fallBack(&f)
}

// afterFailure is elsewhere behind an attempt.
func (e *execution) afterFailure(o *outcome) {
	o.elsewhere = e.elsewhere(Failing{Failure: FailureWord(o.signal), Visible: o.visible, Held: o.end == ledger.AttemptUnknown && e.op.Head().Hold})
}

// afterRefusal is elsewhere for what is refused before an attempt of it.
func afterRefusal(code Code) Failing {
	return Failing{Failure: refusalWords[code], Refused: slices.Contains(closed, code)}
}

// elsewhere decides whether another tier may answer a call for which this one has no permit. A job waits for one in its lane.
func (c *call) elsewhere(refusal *Error) {
	if len(c.wf.Tiers) < 2 || c.job != nil {
		return
	}
	f := afterRefusal(refusal.Code)
	f.Provider, f.Body = c.target.conf.Name, c.body
	c.exec.fallBack(&f)
}

// fallBack decides and puts the decision on record. What it is asked about is told to the clients in a header.
func (e *execution) fallBack(f *Failing) fallback.Decision {
	f.Endpoint, f.Billed, f.Model = e.spec.Endpoint, e.purse.billed, cmp.Or(e.next.Model, plainName(e.spec.Model))
	f.Left, f.Remaining = e.job == nil && (e.attached() == 0 || e.stopped()), e.budget.Remaining(time.Now())
	d := Fallback(e.g.policy, e.wf, f)
	if d.Action == fallback.None {
		return d
	}
	e.mu.Lock()
	op := e.op
	e.fallback = fallbackHeader(&d)
	e.mu.Unlock()
	id := ""
	if op != nil {
		id = op.ID()
		op.Note(ledger.Event{Kind: "note", Reason: FallbackWords(&d), Rule: d.Rule, Evidence: fallbackEvidence(&d)})
	}
	e.g.logger.Info("fallback decided", "intent", id, "workflow", e.wf.Name, "action", string(d.Action), "tier", d.Tier, "rule", d.Rule,
		"condition", d.Condition, "reason", d.Reason)
	return d
}

// FallbackWords say to a person what was decided.
func FallbackWords(d *fallback.Decision) string {
	switch {
	case d.Action != fallback.Next:
		return "no other tier may answer: " + d.Reason
	case d.Approval:
		return "tier " + d.Tier + " could answer, once its owner approves: " + d.Reason
	case d.Contract != "":
		return "tier " + d.Tier + " could answer, by contract " + d.Contract
	}
	return "tier " + d.Tier + " could answer: " + d.Reason
}

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

// told says in a client's header what was decided about other tiers.
func (e *execution) told() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.fallback
}
