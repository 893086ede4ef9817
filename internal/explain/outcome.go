package explain

import (
	"strings"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/signal"
)

// rolls is how finely chance is looked at.
const rolls = 1000

// decisions asks the decision over the whole range of chance.
func (x *explainer) decisions(f decision.Facts, p decision.Policy, j *gateway.Judgement) []Decision {
	if d, over := x.beforehand(j); over {
		return []Decision{d}
	}
	var all []Decision
	counts := make([]int, 0, 3)
	for i := range rolls {
		f.Roll = float64(i) / (rolls - 1) // the last is the end of the range
		d := decision.Decide(f, p)
		ms := d.Delay.Milliseconds()
		last := len(all) - 1
		if last < 0 || all[last].Action != d.Action || all[last].Rule != d.Rule {
			all = append(all, Decision{Action: d.Action, Words: words[d.Action], MinDelayMS: ms, Lane: lanes[d.Action], Rule: d.Rule,
				Place: x.place(d.Rule, f.Trigger()), Condition: d.Condition, Reason: d.Reason})
			counts, last = append(counts, 0), last+1
		}
		all[last].MaxDelayMS = ms
		counts[last]++
	}
	for i, n := range counts {
		all[i].Share = max(1, (n*100+rolls/2)/rolls)
	}
	return all
}

// beforehand is what is settled without the decision: an answer that belongs to its owner.
func (x *explainer) beforehand(j *gateway.Judgement) (Decision, bool) {
	if !j.Review {
		return Decision{}, false
	}
	return Decision{Action: decision.Hold, Words: words[decision.Hold], Share: 100, Lane: string(signal.OwnerReview), Rule: j.Rule,
		Reason: "a tool that the provider hosts had begun: its owner looks first"}, true
}

var words = map[decision.Action]string{
	decision.Done:  "done: the answer goes to the client",
	decision.Retry: "retry: the same route again after the delay; slot and permit are kept",
	decision.Wait:  "wait, then retry: slot and permit are given back meanwhile, the client's connection is kept",
	decision.Queue: "queue: to the background; the client gets the answer later",
	decision.Hold:  "hold: nothing is sent until evidence or a person says what happened",
	decision.Fail:  "fail: the client is told at once",
}

// lanes are where the operation waits meanwhile.
var lanes = map[decision.Action]string{decision.Wait: "interactive_admission", decision.Queue: "background_retry"}

// key says what becomes of the operation's key (semantics 14).
func (x *explainer) key(out *Explanation, j *gateway.Judgement) {
	next := map[decision.Action]bool{}
	for i := range out.Decisions {
		next[out.Decisions[i].Action] = true
	}
	ttl := policy.Span(x.wf.Idempotency.TTL)
	switch {
	case x.effect == policy.Read:
		out.Key, out.KeyWhy = "none", "a read has no key"
	case j.End == decision.Success:
		out.Key, out.KeyWhy = "kept", "the same key replays the answer for "+ttl+" (idempotency.ttl)"
	case next[decision.Hold]:
		out.Key, out.KeyWhy = "held", "the same key is refused with outcome_unknown until evidence or a person has spoken (semantics 2)"
	case !next[decision.Fail], out.Fallback.goesOn() && len(next) == 1:
		out.Key, out.KeyWhy = "held", "the operation goes on"
	case j.Keep:
		out.Key, out.KeyWhy = "kept", "the same request fails again: the same key replays this error for "+ttl+" (semantics 14)"
	default:
		out.Key, out.KeyWhy = "released", "the same key may be tried anew (semantics 14)"
		if len(next) > 1 {
			out.KeyWhy = "once the client is told: " + out.KeyWhy
		}
	}
	if x.wf.Mode == policy.Observe {
		out.Key, out.KeyWhy = "none", "the workflow only observes"
	}
}

// Say is what a person should know of where a decision comes from: the line, or that it is a default and what to write.
func (p Place) Say() string {
	switch {
	case p.Path == "":
		return "a rule of Holdfast's own, which no policy changes"
	case p.Written():
		return p.At
	case strings.HasPrefix(p.Path, "models"):
		return "nobody has said it; write " + p.Path
	case strings.HasPrefix(p.Path, "providers."):
		return "not written; write " + p.Path
	}
	return "the built-in default; write " + p.Path + " to change it"
}
