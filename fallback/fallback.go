// Package fallback decides whether another tier may answer what one has failed at: a pure function of facts and policy.
//
// It comes last, behind backpressure and retries (design.md §4), and only by contract: what is not known of a tier is never
// taken for a yes.
package fallback

import (
	"slices"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// Action is what follows.
type Action string

// The actions.
const (
	// None: there is no further tier.
	None Action = "none"
	// Denied: a rule says that no other tier answers this failure, whatever the tiers are; or each that is left is past.
	Denied Action = "denied"
	// Next: Decision.Tier keeps the contract.
	Next Action = "next"
	// Mismatch: no tier keeps the contract.
	Mismatch Action = "mismatch"
	// Unknown: of no tier it is known that it keeps the contract, and of one or more it is not known that it does not.
	Unknown Action = "unknown"
)

// Conditions are the words of fail_closed_when and owner_review.enter_when (interface.md §5).
const (
	ContractUnknown  = "fallback_contract_unknown"
	ContractMismatch = "fallback_contract_mismatch"
	BoundaryMismatch = "data_boundary_mismatch"
)

// Answer is a yes, a no, or that nobody has said.
type Answer int8

// The answers.
const (
	NotSaid Answer = iota
	Yes
	No
)

// Tier is a place where a call can be answered, as far as a contract asks. Empty words and zero counts are not known.
type Tier struct {
	Name, Provider, Model string
	Wire                  string // format that it speaks
	QualityClass          string
	CostClass             string
	DataBoundary          string
	SafetyClass           string
	Observability         string
	ContextTokens         int64
	Tools, Images, Schema Answer
	Audio, Video, Files   Answer
	Parallel              Answer // several tools at once
	// Cost is what the call is expected to cost there, in billionths of a US dollar, where Priced.
	Cost   int64
	Priced bool
	// Tokens are those of request and answer there, by an estimate that is rather too high.
	Tokens int64
	// Least are those that there will be at least, as far as that can be told from a text: what does not fit by them does not fit.
	Least int64
	// Lack is what it cannot be called without, whatever the contract; nil: nothing.
	Lack *Lack
	// Ready says the same of what costs something to find out; nil: nothing is left to ask. It is asked of a tier whose turn it is, and says
	// the same each time.
	Ready func() *Lack
	// Past says why the call does not come to it any more: it was there. That is no part of the contract; nil: it may be asked.
	Past *Lack
}

// Lack says why a tier cannot be called, by the policy's field Rule.
type Lack struct{ Rule, Reason string }

// Needs is what a request asks of whoever answers it.
type Needs struct {
	Wire                  string // its own format
	Tools, Images, Schema bool
	Audio, Video, Files   bool
	// Other names content, of the request or wanted in the answer, that nobody has said anything about; "": none.
	Other string
	// Held says that it names what its provider keeps for it, which no other provider has.
	Held string
	// Home is the provider that keeps it, the first that reads the request as it came; "": that of the first tier.
	Home string
	// Hosted names a tool that its provider runs, or knows by its type alone; "": none.
	Hosted string
	// Strict says that the arguments of a tool's calls are to keep its schema.
	Strict bool
	// Parallel says that it asks for calls of several tools at once.
	Parallel bool
	// SameModel says that another model's answer is none: vectors of two models are not comparable.
	SameModel bool
}

// Facts are all that a decision rests on.
type Facts struct {
	// Failure is the failure's word in fallback.on; "" where it has none.
	Failure string
	// Refused says that nothing was sent, for the tier had no room or its route was closed: that leads to the next tier
	// whatever fallback.on lists (semantics 33).
	Refused bool
	Visible bool // a client has seen a part of the answer
	Held    bool // the effect may have happened, under on_unknown: hold
	Left    bool // no client waits
	// Remaining is what is left of the operation's budget.
	Remaining time.Duration

	Needs Needs
	From  Tier   // the first one, which the contract is measured by
	Later []Tier // behind that which failed, in order
}

// Policy is what a workflow says about fallback (interface.md §5).
type Policy struct {
	On                                   []string
	Allowed                              bool // allowed_before_first_token
	Tools, Schema, CostCap, DataBoundary bool
	Safety, Observability                bool
	Contract                             string // id of what somebody approved
	Approval                             bool   // approval: fallback
	// Cap is what is left of spend.per_request, in billionths of a US dollar, where Capped.
	Cap    int64
	Capped bool
	// Reviewed says that a person has spoken for the call: what is not known of a tier stands in its way no more.
	Reviewed bool
}

// Skipped is a tier that does not keep the contract, or of which that is not known.
type Skipped struct {
	Tier      string `json:"tier"`
	Rule      string `json:"rule"` // the policy's field
	Condition string `json:"condition"`
	Reason    string `json:"reason"`
}

// Decision is what follows, and why. Its JSON form is what the log keeps.
type Decision struct {
	Action Action `json:"action"`
	Tier   string `json:"tier,omitempty"`
	// Contract is the id of the approval by which Tier may answer; "" where it is equal by itself.
	Contract  string    `json:"contract,omitempty"`
	Approval  bool      `json:"approval,omitempty"` // an owner is asked first
	Rule      string    `json:"rule"`
	Condition string    `json:"condition,omitempty"`
	Reason    string    `json:"reason"`
	Skipped   []Skipped `json:"skipped,omitempty"`
}

// leastAttempt is what must be left of the budget for another tier to be worth asking.
const leastAttempt = 100 * time.Millisecond

// Decide is the one place where it is decided whether another tier may answer.
func Decide(f *Facts, p *Policy) Decision {
	if len(f.Later) == 0 {
		return Decision{Action: None, Rule: "tiers", Reason: "there is no further tier"}
	}
	if d, denied := f.denied(p); denied {
		return d
	}
	return f.among(p)
}

// among finds the first tier that keeps the contract.
func (f *Facts) among(p *Policy) Decision {
	d := Decision{Rule: "tiers"}
	for i := range f.Later {
		t := &f.Later[i]
		s := f.keeps(t, p)
		if s == nil || s.Condition == ContractUnknown && (p.Reviewed || mutant.On("unknown-contract-is-yes")) {
			d.Action, d.Tier, d.Approval = Next, t.Name, p.Approval && !p.Reviewed
			d.Reason = t.Name + " keeps the contract"
			if t.QualityClass != f.From.QualityClass {
				d.Contract = p.Contract
			}
			return d
		}
		d.Skipped = append(d.Skipped, *s)
	}
	return d.closed()
}

// Start decides at which tier a call begins: at the first, Facts.From, or where that cannot keep what is asked, at the first of those
// behind it that does. Facts.Later are all tiers, From among them. Next with the first tier's name is the usual case.
func Start(f *Facts, p *Policy) Decision {
	if len(f.Later) == 0 {
		return Decision{Action: None, Rule: "tiers", Reason: "there is no tier"}
	}
	first := &f.Later[0]
	s := f.begins(first, p)
	if s == nil {
		if d, ok := f.roomier(first, p); ok {
			return d
		}
		return Decision{Action: Next, Tier: first.Name, Rule: "tiers", Reason: first.Name + " is the first tier"}
	}
	d := Decision{Rule: s.Rule, Skipped: []Skipped{*s}}
	if len(f.Later) > 1 && p.Allowed {
		rest := *f
		rest.Later = f.Later[1:]
		next := rest.among(p)
		next.Skipped = append(d.Skipped, next.Skipped...)
		if next.Action == Next {
			return next
		}
		d = next
	}
	return d.closed()
}

// begins says why a call cannot begin at the first tier, nil where it can. Its own model can do what it was asked for unless somebody
// says that it cannot, and what it costs is bounded where that is reserved.
func (f *Facts) begins(t *Tier, p *Policy) *Skipped {
	for _, ask := range []func(*Tier, *Policy) *Skipped{f.past, f.lack, f.shape, f.tools, f.schema, f.media} {
		s := ask(t, p)
		if s == nil || s.Condition == ContractUnknown {
			continue
		}
		s.Tier = t.Name
		return s
	}
	return nil
}

// roomier is the decision for a later tier where the request is too long for the first. How long it is, is an estimate, and the
// provider knows better: it moves a call that goes elsewhere freely, and keeps none from a tier that it would be sent to if that were the only one.
func (f *Facts) roomier(first *Tier, p *Policy) (Decision, bool) {
	if !p.Allowed || first.ContextTokens == 0 {
		return Decision{}, false
	}
	s := f.context(first, p)
	if mutant.On("estimate-binds-the-first") && first.Tokens > first.ContextTokens {
		s = tooLong(first)
	}
	if s == nil || s.Condition == ContractUnknown {
		return Decision{}, false
	}
	s.Tier = first.Name
	rest := *f
	rest.Later = f.Later[1:]
	d := rest.among(p)
	d.Skipped = append([]Skipped{*s}, d.Skipped...)
	return d, d.Action == Next && !d.Approval
}

// denied says whether no tier at all may answer.
func (f *Facts) denied(p *Policy) (Decision, bool) {
	deny := func(rule, reason string) (Decision, bool) {
		return Decision{Action: Denied, Rule: rule, Reason: reason}, true
	}
	switch {
	case f.Visible && !mutant.On("fallback-after-boundary"):
		return deny("semantics 22", "a part of the answer is with the client")
	case f.Held:
		return deny("on_unknown", "its effect may have happened")
	case f.Left:
		return deny("semantics 25", "no client waits for the answer")
	case !p.Allowed && !mutant.On("fallback-not-allowed"):
		return deny("fallback.allowed_before_first_token", "the policy has no other tier answer")
	case f.Failure == "" && !f.Refused:
		return deny("fallback.on", "fallback.on has no word for this failure")
	case !f.Refused && !slices.Contains(p.On, f.Failure):
		return deny("fallback.on", "fallback.on does not list "+f.Failure)
	case f.Remaining < leastAttempt:
		return deny("timeouts.total", "nothing is left of the budget")
	}
	return Decision{}, false
}

// closed is the decision where no tier keeps the contract: unknown where one might, else the mismatch, of boundaries alone
// where nothing else stands in the way.
func (d Decision) closed() Decision {
	first := func(condition string) bool {
		i := slices.IndexFunc(d.Skipped, func(s Skipped) bool { return s.Condition == condition })
		if i < 0 {
			return false
		}
		s := &d.Skipped[i]
		d.Rule, d.Condition, d.Reason = s.Rule, s.Condition, s.Tier+": "+s.Reason
		return true
	}
	d.Action = Mismatch
	switch {
	case first(ContractUnknown):
		d.Action = Unknown
	case first(ContractMismatch), first(BoundaryMismatch):
	case first(""):
		d.Action = Denied
	}
	return d
}
