package cli

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// replayTally counts what a policy would have decided. Its size depends on the policy, not on the log.
type replayTally struct {
	cfg       *policy.Config
	file      string
	since     time.Time
	workflows map[string]*workflowTally
	left      map[string]int // operations of workflows that the policy does not have
}

func newReplayTally(cfg *policy.Config, file string, since time.Time) *replayTally {
	return &replayTally{cfg: cfg, file: file, since: since, workflows: map[string]*workflowTally{}, left: map[string]int{}}
}

// workflowTally is one workflow's share of it.
type workflowTally struct {
	replayCounts
	wf        *policy.Workflow
	decide    decision.Policy
	decisions map[pair]*replayDecision
	models    map[string]*modelTally
}

// replayCounts are the numbers of a workflow.
type replayCounts struct {
	Operations    int `json:"operations"`
	Attempts      int `json:"attempts"`       // that have ended
	Running       int `json:"running"`        // that have not
	NotReplayable int `json:"not_replayable"` // failed without a record of what the decision rested on
	Changed       int `json:"changed"`        // decisions that differ

	Saved         int `json:"calls_saved"`          // that were made and would not have been
	AddedAtLeast  int `json:"calls_added_at_least"` // where one attempt more would have succeeded each time
	AddedAtMost   int `json:"calls_added_at_most"`  // where all that the policy allows would have failed
	Deferred      int `json:"calls_deferred"`       // to the background
	LostSuccesses int `json:"successes_lost"`       // operations that succeeded by a call that would not have been made
	TriedAgain    int `json:"tried_again"`          // operations that failed and would have had another attempt

	Billed      int `json:"possibly_billed"`       // attempts with an unknown outcome
	BilledSaved int `json:"possibly_billed_saved"` // of those, in calls that would not have been made
}

// pair is a decision then, and now.
type pair struct{ then, now ruling }

// ruling is a decision by its rule.
type ruling struct {
	Action decision.Action `json:"action"`
	Rule   string          `json:"rule"`
}

// replayDecision is one row of the table.
type replayDecision struct {
	Then     ruling   `json:"then"`
	Now      ruling   `json:"now"`
	Count    int      `json:"count"`
	Changed  bool     `json:"changed"`
	Examples []string `json:"examples,omitempty"` // ids of operations, for holdfast trace
}

// modelTally is what a model's calls used, and what the policy would have changed of them.
type modelTally struct {
	calls             int // that succeeded and said their usage
	in, out           int64
	savedIn, savedOut int64
	savedUnread       int // saved calls of which no usage is known
	atLeast, atMost   int // added
}

const (
	maxRulings  = 200 // rows of a table; a log that is not ours could hold any number
	maxModels   = 500
	maxExamples = 5
	maxLeftOut  = 50
	other       = "other"
	otherModel  = "other models"
)

// needsHistory says that an operation's own row does not tell of each of its attempts.
func (t *replayTally) needsHistory(v *admin.Intent) bool {
	once := v.Attempt == 1 && v.Outcome == "success" && v.PossiblyBilled == 0
	return replayed(t.cfg, v.Workflow) != nil && v.Attempt > 0 && !once
}

// add counts one operation, with its history where needsHistory asks for it.
func (t *replayTally) add(v *admin.Intent) {
	wf := replayed(t.cfg, v.Workflow)
	if wf == nil {
		if len(t.left) < maxLeftOut || t.left[v.Workflow] > 0 {
			t.left[v.Workflow]++
		}
		return
	}
	w := t.workflows[wf.Name]
	if w == nil {
		w = &workflowTally{wf: wf, decide: gateway.DecisionPolicy(wf), decisions: map[pair]*replayDecision{}, models: map[string]*modelTally{}}
		t.workflows[wf.Name] = w
	}
	w.Operations++
	m := w.model(v)
	if v.UsageUnits.Input > 0 || v.UsageUnits.Output > 0 {
		m.calls, m.in, m.out = m.calls+1, m.in+v.UsageUnits.Input, m.out+v.UsageUnits.Output
	}
	if !t.needsHistory(v) {
		if v.Attempt > 0 {
			w.Attempts++
			w.note(v.ID, doneRuling, doneRuling)
		}
		return
	}
	w.walk(v, m)
}

var doneRuling = ruling{decision.Done, "semantics 1"}

func (w *workflowTally) model(v *admin.Intent) *modelTally {
	name := v.ServedModel
	if name == "" {
		name = v.RequestedModel
	}
	if w.models[name] == nil {
		if len(w.models) >= maxModels {
			name = otherModel
		}
		if w.models[name] == nil {
			w.models[name] = &modelTally{}
		}
	}
	return w.models[name]
}

// walk follows an operation's attempts in order. From the first that the policy would not have followed by another, the
// later ones are calls saved: they are counted as such, and nothing is decided of them.
func (w *workflowTally) walk(v *admin.Intent, m *modelTally) {
	begun, ended, over := 0, 0, false
	for i := range v.History {
		e := &v.History[i]
		switch e.Kind {
		case "attempt":
			begun++
			if over {
				w.Saved++
			}
		case "attempt_end":
			ended++
			w.Attempts++
			if e.Billed {
				w.Billed++
			}
			if over {
				w.saved(v, m, e)
				continue
			}
			over = w.judge(v, m, e)
		}
	}
	w.Running += max(0, begun-ended)
}

// saved counts an attempt that would not have been made.
func (w *workflowTally) saved(v *admin.Intent, m *modelTally, e *ledger.Event) {
	if e.Billed {
		w.BilledSaved++
	}
	if e.End == ledger.AttemptSuccess {
		w.LostSuccesses++
		m.savedIn, m.savedOut = m.savedIn+v.UsageUnits.Input, m.savedOut+v.UsageUnits.Output
	}
	if e.Billed || e.End == ledger.AttemptSuccess && v.UsageUnits == (admin.Usage{}) {
		m.savedUnread++
	}
}

// judge decides anew what followed an attempt, and reports whether the operation would have ended there.
func (w *workflowTally) judge(v *admin.Intent, m *modelTally, e *ledger.Event) (over bool) {
	if e.End == ledger.AttemptSuccess {
		w.note(v.ID, doneRuling, doneRuling)
		return false
	}
	var kept struct {
		Facts    *decision.Facts    `json:"facts"`
		Decision *decision.Decision `json:"decision"`
	}
	if json.Unmarshal(e.Evidence, &kept) != nil || kept.Facts == nil || kept.Decision == nil {
		w.NotReplayable++
		return false
	}
	f := *kept.Facts
	f.Hold = heldNow(w.wf, v.Effect, f.Hold)
	if v.CreatedAt != nil {
		f.Remaining = min(f.Remaining, w.wf.Timeouts.Total-e.At.Sub(*v.CreatedAt))
	}
	now := decision.Decide(f, w.decide)
	w.note(v.ID, ruling{kept.Decision.Action, kept.Decision.Rule}, ruling{now.Action, now.Rule})
	then, sends := sendsAgain(kept.Decision.Action), sendsAgain(now.Action)
	if now.Action == decision.Queue && kept.Decision.Action != decision.Queue {
		w.Deferred++
	}
	if sends && !then {
		w.TriedAgain++
		w.AddedAtLeast++
		most := max(1, w.decide.MaxAttempts-f.Attempt)
		w.AddedAtMost += most
		m.atLeast, m.atMost = m.atLeast+1, m.atMost+most
	}
	return then && !sends
}

func sendsAgain(a decision.Action) bool { return a == decision.Retry || a == decision.Wait }

// note counts a decision then and now.
func (w *workflowTally) note(id string, then, now ruling) {
	k := pair{then, now}
	d := w.decisions[k]
	if d == nil {
		if len(w.decisions) >= maxRulings {
			k = pair{ruling{other, other}, ruling{now.Action, other}}
		}
		if d = w.decisions[k]; d == nil {
			d = &replayDecision{Then: k.then, Now: k.now, Changed: then.Action != now.Action}
			w.decisions[k] = d
		}
	}
	d.Count++
	if d.Changed {
		w.Changed++
		if len(d.Examples) < maxExamples {
			d.Examples = append(d.Examples, id)
		}
	}
}

// rows are the table's, in the order of the actions, the most frequent first.
func (w *workflowTally) rows() []replayDecision {
	order := []decision.Action{decision.Done, decision.Retry, decision.Wait, decision.Queue, decision.Hold, decision.Fail}
	rows := make([]replayDecision, 0, len(w.decisions))
	for _, d := range w.decisions {
		rows = append(rows, *d)
	}
	slices.SortFunc(rows, func(a, b replayDecision) int {
		for _, by := range []int{
			slices.Index(order, a.Then.Action) - slices.Index(order, b.Then.Action), slices.Index(order, a.Now.Action) - slices.Index(order, b.Now.Action),
			b.Count - a.Count,
		} {
			if by != 0 {
				return by
			}
		}
		return cmpRulings(a, b)
	})
	return rows
}

func cmpRulings(a, b replayDecision) int {
	if a.Then.Rule+"\x00"+a.Now.Rule < b.Then.Rule+"\x00"+b.Now.Rule {
		return -1
	}
	return 1
}

// report is the tally as it is printed.
func (t *replayTally) report() *replayReport {
	r := &replayReport{File: t.file, PolicyRevision: t.cfg.Revision, Since: t.since.UTC(), Workflows: []replayWorkflow{}}
	for _, name := range slices.Sorted(maps.Keys(t.workflows)) {
		w := t.workflows[name]
		r.Workflows = append(r.Workflows, replayWorkflow{Workflow: name, replayCounts: w.replayCounts, Decisions: w.rows(), Cost: t.cost(w)})
	}
	for _, name := range slices.Sorted(maps.Keys(t.left)) {
		r.LeftOut = append(r.LeftOut, leftOut{name, t.left[name]})
	}
	return r
}
