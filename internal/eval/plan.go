package eval

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/spend"
)

// ErrPlan says that a workflow cannot be run like this.
var ErrPlan = errors.New("nothing to run")

// Plan is what will be sent to which tiers.
type Plan struct {
	Workflow    string
	Tiers       []Tier
	Requests    []Request
	Repeat      int          // how often each request goes to each tier
	Concurrency int          // calls at once to each tier
	MaxCost     spend.Amount // no call begins that may go beyond it; 0: no bound
	Header      http.Header  // of every request, as a client sends it

	config *policy.Config // as it is in force in production
	alone  *policy.Config // each tier by itself
}

// NewPlan chooses tiers of a workflow by their names, all of them without any. Without a workflow it is the only one with tiers,
// or the default. Errors: ErrPlan.
func NewPlan(cfg *policy.Config, workflow string, tiers []string) (*Plan, error) {
	if workflow == "" {
		var err error
		if workflow, err = usualWorkflow(cfg); err != nil {
			return nil, err
		}
	}
	w := cfg.Workflow(workflow)
	if w == nil {
		return nil, fmt.Errorf("%w: there is no workflow %q; workflows are %s", ErrPlan, workflow, strings.Join(workflows(cfg, false), ", "))
	}
	if w.Effect == policy.External {
		return nil, fmt.Errorf("%w: workflow %s has effect: external: each line would act once for each tier", ErrPlan, workflow)
	}
	p := &Plan{Workflow: workflow, Repeat: 1, Concurrency: 1, config: cfg}
	alone, names := cfg.Alone(workflow)
	p.alone = alone
	if len(w.Tiers) == 0 {
		p.Tiers = []Tier{{Name: "as asked", workflow: names[0], concurrent: w.Bulkhead.MaxConcurrent}}
	}
	for i := range w.Tiers {
		if name := w.Tiers[i].Provider; name != "" && cfg.Provider(name) == nil { // as a policy file alone may have it
			return nil, fmt.Errorf("%w: tier %s goes to provider %s, which is not configured here; name the configuration that has it", ErrPlan, w.Tiers[i].Name, name)
		}
		p.Tiers = append(p.Tiers, newTier(w, &w.Tiers[i], names[i]))
	}
	return p, p.choose(tiers)
}

func newTier(w *policy.Workflow, t *policy.Tier, name string) Tier {
	out := Tier{Name: t.Name, Provider: t.Provider, Model: t.Model, workflow: name, concurrent: w.Bulkhead.MaxConcurrent, conf: *t}
	if t.Bulkhead != nil {
		out.concurrent = t.Bulkhead.MaxConcurrent
	}
	if t.Prompt != nil {
		out.added = int64(len(t.Prompt.System) + len(t.Prompt.Template))
	}
	return out
}

// choose keeps the tiers of these names, in the order of the workflow.
func (p *Plan) choose(names []string) error {
	if len(names) == 0 {
		return nil
	}
	all := p.Tiers
	p.Tiers = slices.DeleteFunc(slices.Clone(all), func(t Tier) bool { return !slices.Contains(names, t.Name) })
	for _, name := range names {
		if !slices.ContainsFunc(all, func(t Tier) bool { return t.Name == name }) {
			var there []string
			for i := range all {
				there = append(there, all[i].Name)
			}
			return fmt.Errorf("%w: workflow %s has no tier %q; its tiers are %s", ErrPlan, p.Workflow, name, strings.Join(there, ", "))
		}
	}
	return nil
}

func usualWorkflow(cfg *policy.Config) (string, error) {
	switch with := workflows(cfg, true); len(with) {
	case 0:
		return policy.DefaultWorkflow, nil
	case 1:
		return with[0], nil
	default:
		return "", fmt.Errorf("%w: several workflows have tiers; name one of %s", ErrPlan, strings.Join(with, ", "))
	}
}

func workflows(cfg *policy.Config, tiers bool) (names []string) {
	for i := range cfg.Workflows {
		if w := &cfg.Workflows[i]; !tiers || len(w.Tiers) > 0 {
			names = append(names, w.Name)
		}
	}
	return names
}

// takes reports whether a request at a path would be one of the workflow's.
func (p *Plan) takes(path string) bool {
	return p.config.Match(path, p.Tiers[0].Model, headerOf(path)).Name == p.Workflow
}

// Calls is how many there will be.
func (p *Plan) Calls() int { return len(p.Requests) * len(p.Tiers) * p.Repeat }

// Estimate is what a plan may cost: each request once, without retries, its answer as long as it may be.
type Estimate struct {
	Total    spend.Amount
	Tiers    []spend.Amount
	Unpriced []string // models whose price nobody knows; they count as nothing
}

// Estimate adds up what each call may cost, as spend limits do.
func (p *Plan) Estimate() Estimate {
	e := Estimate{Tiers: make([]spend.Amount, len(p.Tiers))}
	for i := range p.Tiers {
		for j := range p.Requests {
			cost, known := p.mayCost(&p.Tiers[i], &p.Requests[j])
			e.Tiers[i] += cost * spend.Amount(p.Repeat)
			if model := p.model(&p.Tiers[i], &p.Requests[j]); !known && !slices.Contains(e.Unpriced, model) {
				e.Unpriced = append(e.Unpriced, model)
			}
		}
		e.Total += e.Tiers[i]
	}
	return e
}

func (p *Plan) model(t *Tier, r *Request) string {
	if t.Model != "" {
		return t.Model
	}
	return r.call.Model
}

// bytesPerToken is what gateway.Tokens counts with.
const bytesPerToken = 3

// mayCost is the estimate of one call.
func (p *Plan) mayCost(t *Tier, r *Request) (cost spend.Amount, known bool) {
	price, known := p.price(p.model(t, r))
	in, out := gateway.Tokens(r.call.Endpoint, r.Body, &t.conf)
	in += t.added / bytesPerToken
	return price.Of(in, out), known
}

func (p *Plan) price(model string) (price spend.Price, known bool) {
	price.Input, price.Output, known = p.config.Price(model)
	return price, known
}
