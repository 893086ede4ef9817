package explain

import (
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/policy"
)

// Place is where a policy says something, or would.
type Place struct {
	// Path is the field, such as workflows.support_chat.retry.on; "" for a rule of Holdfast's own that no policy changes.
	Path string `json:"path,omitempty"`
	// At is file:line:col of what was written; "" for a default.
	At string `json:"at,omitempty"`
	// Value is what is in force there.
	Value string `json:"value,omitempty"`
}

// Written reports whether the place stands in a file.
func (p Place) Written() bool { return p.At != "" }

// field is the place of a field of the workflow.
func (x *explainer) field(name, value string) Place {
	p := Place{Path: x.wf.Path() + "." + name, Value: value}
	if x.cfg.Written(p.Path) {
		pos, _ := x.cfg.Pos(p.Path)
		p.At = pos.String()
	}
	return p
}

// workflow is where the workflow begins.
func (x *explainer) workflow() Place {
	p := Place{Path: x.wf.Path()}
	if x.cfg.Written(p.Path) {
		pos, _ := x.cfg.Pos(p.Path)
		p.At = pos.String()
	}
	return p
}

// place finds the field behind the rule that decided. Rules of Holdfast's own have none.
func (x *explainer) place(rule, trigger string) Place {
	w := x.wf
	switch rule {
	case "retry.on":
		return x.trigger(trigger)
	case "retry.max_attempts":
		if lane := w.Lanes.InteractiveAdmission.MaxAttempts; lane > 0 && lane < w.Retry.MaxAttempts {
			return x.field("lanes.interactive_admission.max_attempts", strconv.Itoa(lane))
		}
		return x.field(rule, strconv.Itoa(w.Retry.MaxAttempts))
	case "retry.share":
		return x.field(rule, strconv.FormatFloat(w.Retry.Share, 'g', -1, 64))
	case "breaker":
		return x.field("breaker.failure_threshold", strconv.Itoa(w.Breaker.FailureThreshold))
	case "timeouts.total":
		return x.field(rule, policy.Span(w.Timeouts.Total))
	case "semantics 36", "lanes.interactive_admission.max_wait_ms":
		return x.field("lanes.interactive_admission.max_wait_ms", strconv.FormatInt(w.Lanes.InteractiveAdmission.MaxWait.Milliseconds(), 10))
	case "fallback.on":
		return x.field(rule, strings.Join(w.Fallback.On, ", "))
	case "fallback.allowed_before_first_token", "fallback.require_data_boundary_match", "fallback.require_safety_match",
		"fallback.require_observability_match", "fallback.require_equivalent_tools",
		"fallback.require_schema_match", "fallback.require_cost_cap", "fallback.contract", "tiers":
		return x.field(rule, "")
	case "on_unknown":
		return x.field(rule, string(w.UnknownRule(x.acts != "")))
	}
	return Place{}
}

// trigger is the entry of retry.on that names the failure, or the list that does not.
func (x *explainer) trigger(word string) Place {
	on := x.wf.Retry.On
	p := x.field("retry.on", strings.Join(on, ", "))
	i := slices.Index(on, word)
	if i < 0 || !p.Written() {
		return p
	}
	if entry := p.Path + "[" + strconv.Itoa(i) + "]"; x.cfg.Written(entry) {
		pos, _ := x.cfg.Pos(entry)
		p.Path, p.At, p.Value = entry, pos.String(), word
	}
	return p
}
