package audit

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// auditor is one audit on its way.
type auditor struct {
	cfg      Config
	run      *run
	server   *server
	all      []*tool
	readings []reading // of every snapshot
	derived  []reading // of the probe at hand
	restless *restless
	looked   map[string]look // by source
	noisy    map[string]bool // readers whose lists grow by themselves
	pool     *pool
	last     state    // as last read
	begun    state    // before the first write
	watched  *subject // whose calls came last
	subjects []*subject
	makers   []*subject // tools whose calls make records, with a recipe that works
	report   *Report
	journal  *journal
}

func newAuditor(c Config) *auditor {
	return &auditor{cfg: c, run: newRun(), pool: newPool(), restless: newRestless(), noisy: map[string]bool{}, looked: map[string]look{},
		journal: &journal{probe: idleWatch}}
}

// restart connects anew; the first time it also asks what the server has.
func (a *auditor) restart(ctx context.Context) error {
	a.server.close()
	if a.cfg.Reset != "" {
		out, err := exec.CommandContext(ctx, "sh", "-c", a.cfg.Reset).CombinedOutput()
		if err != nil {
			return fmt.Errorf("--reset %q: %w: %s", a.cfg.Reset, err, cut(string(out), 300))
		}
	}
	var err error
	if a.server, err = dial(ctx, a.cfg, a.journal); err != nil {
		return err
	}
	known := a.all
	if a.all, err = a.server.tools(ctx); err != nil {
		return err
	}
	for i, t := range a.all {
		if j := slices.IndexFunc(known, func(k *tool) bool { return k.name == t.name }); j >= 0 {
			a.all[i] = known[j] // with what is known of it
		}
	}
	return nil
}

// choose picks the tools to audit: those that make records first, for the others to refer to.
func (a *auditor) choose() ([]*tool, error) {
	var out []*tool
	for _, t := range a.all {
		if t.writes() && (len(a.cfg.Tools) == 0 || slices.Contains(a.cfg.Tools, t.name)) {
			out = append(out, t)
		}
	}
	for _, name := range a.cfg.Tools {
		if !slices.ContainsFunc(out, func(t *tool) bool { return t.name == name }) {
			return nil, fmt.Errorf("%w: %q; the server's are %s", ErrNoTool, name, strings.Join(a.writeNames(), ", "))
		}
	}
	slices.SortStableFunc(out, func(x, y *tool) int { return x.order() - y.order() })
	return out, nil
}

func (a *auditor) writeNames() []string {
	var out []string
	for _, t := range a.all {
		if t.writes() {
			out = append(out, t.name)
		}
	}
	return out
}

// tool audits one tool. Only the end of ctx, a failing reset or a server that cannot be started again are errors; a tool
// that takes longer than its limit is left as it is.
func (a *auditor) tool(ctx context.Context, t *tool) error {
	a.endOf(ctx, a.watched)
	if a.cfg.Reset != "" && len(a.subjects) > 0 {
		if err := a.anew(ctx); err != nil {
			return err
		}
	}
	a.journal.begin(t.name, firstCall)
	s := &subject{t: t, quiet: a.cfg.Settle}
	a.subjects = append(a.subjects, s)
	limited, cancel := context.WithTimeout(ctx, a.cfg.Limit)
	defer cancel()
	a.probe(limited, s)
	if ctx.Err() == nil && limited.Err() != nil {
		s.late, a.watched = nil, nil // what the last call did is not known
		s.findings = append(s.findings, Finding{Probe: "all", Verdict: CannotTell, Says: fmt.Sprintf("the %s for one tool were over before its last probe", a.cfg.Limit)})
	}
	return ctx.Err()
}

// probe makes all probes of a tool but the late repeat, which waits, unless the data are restored before the next tool.
func (a *auditor) probe(ctx context.Context, s *subject) {
	a.seed(ctx, s)
	first := a.trial(ctx, s)
	if first == nil {
		return
	}
	s.late, s.lateAt = first, time.Now()
	steps := a.steps(ctx, s)
	for i := 0; i < len(steps) && ctx.Err() == nil; i++ {
		a.journal.begin(s.t.name, steps[i].name)
		a.seed(ctx, s)
		a.step(ctx, s, steps[i])
		if s.slow && s.quiet < a.cfg.Late && !s.bad(DuplicateEffect, WrongRecord) {
			a.slower(ctx, s)
			i = -1
		}
	}
	if a.cfg.Reset != "" {
		a.lateRepeat(ctx, s)
	}
}

// step is one probe. asked is false where it did not apply.
type step struct {
	name string
	try  func() (f Finding, asked bool)
}

// step makes a probe. Where the server ended under it, what was in memory alone is gone, and nobody undid or lost it.
func (a *auditor) step(ctx context.Context, s *subject, p step) {
	before := a.journal.count()
	f, asked := p.try()
	if !asked || ctx.Err() != nil { // what was not read to its end shows nothing
		return
	}
	if ended := a.journal.count() - before; ended > 0 {
		f.Evidence = append(f.Evidence, "the server ended by itself during this probe, and was started again")
		if f.undone || f.Verdict == LostWrite {
			f.Verdict, f.Says = CannotTell, "the server ended during the probe, and what it kept in memory with it"
		}
	}
	s.found(f)
}

// steps are the probes of a tool in their order. What a finding has made pointless is left out.
func (a *auditor) steps(ctx context.Context, s *subject) []step {
	worst := func() bool { return s.bad(DuplicateEffect, WrongRecord) }
	always := func(probe func() Finding) func() (Finding, bool) {
		return func() (Finding, bool) { return probe(), true }
	}
	return []step{
		{InSequence, always(func() Finding { return a.firstSequence(ctx, s) })},
		{AtOnce, always(func() Finding { return a.atOnce(ctx, s) })},
		{LostReply, always(func() Finding { return a.sequence(ctx, s, LostReply, s.quiet, true) })},
		{GivenUp, func() (f Finding, asked bool) {
			if asked = s.once != nil && !worst() && !mutant.On("audit-never-gives-up"); asked {
				f = a.givenUp(ctx, s)
			}
			return f, asked
		}},
		{ManyAtOnce, func() (f Finding, asked bool) {
			if asked = s.once != nil && !(s.quiet > a.cfg.Settle && worst()); asked {
				f = a.manyAtOnce(ctx, s)
			}
			return f, asked
		}},
		{WriteAgain, func() (f Finding, asked bool) {
			if s.once != nil && !s.consumes() && !worst() {
				f, asked = a.writeAgain(ctx, s)
			}
			return f, asked
		}},
	}
}

// slower begins a tool's probes anew, with a long wait after each call: what came late has been taken for the effect of
// another call.
func (a *auditor) slower(ctx context.Context, s *subject) {
	fmt.Fprintf(a.cfg.Progress, "      %s: an effect came late; again, with a wait of %s after each call\n", s.t.name, a.cfg.Late)
	s.quiet, s.slow, s.findings, s.once = a.cfg.Late, false, nil, nil
	a.last, _ = a.settled(ctx, a.snapshot(ctx), s.quiet)
	a.watched = nil
}

// firstSequence is twice in sequence; when the records have run out that the tool does something to once, with more.
func (a *auditor) firstSequence(ctx context.Context, s *subject) Finding {
	f := a.sequence(ctx, s, InSequence, s.quiet, false)
	if f.Verdict == CannotTell && s.seen && !s.recipe.fresh && len(s.recipe.given) == 0 {
		s.recipe.fresh = true
		f = a.sequence(ctx, s, InSequence, s.quiet, false)
	}
	if f.Verdict == CannotTell && s.seen && !s.consumes() && len(needs(s.t)) > 0 {
		s.uses = true
		a.seed(ctx, s)
		f = a.sequence(ctx, s, InSequence, s.quiet, false)
	}
	for n := 0; n < 2 && f.Verdict == CannotTell && s.seen && !s.slow && s.consumes() && len(s.recipe.given) == 0; n++ {
		f = a.sequence(ctx, s, InSequence, s.quiet, false) // the record that it named may have been gone
	}
	if f.Verdict == CannotTell && s.seen && !s.slow && !s.uses && len(s.recipe.given) == 0 && len(s.recipe.existing) == 0 && s.swallowed(f, a.run) {
		f.Verdict, f.Says = LostWrite, "a call with other arguments than the one before it was answered well, and had no effect"
	}
	return f
}

// swallowed reports whether a probe's calls were new, answered well, and without any effect.
func (s *subject) swallowed(f Finding, r *run) bool {
	return r.owns(text(f.Args)) && !slices.ContainsFunc(f.Evidence, func(e string) bool {
		return strings.Contains(e, "answer: error") || strings.HasPrefix(e, "first call") || strings.HasPrefix(e, "repeat")
	})
}

// anew restores the server's data, and forgets what was known of it.
func (a *auditor) anew(ctx context.Context) error {
	if err := a.restart(ctx); err != nil {
		return err
	}
	a.pool = newPool()
	a.derived, a.watched = nil, nil
	a.last = a.snapshot(ctx)
	a.pool.look(a.last, a.run)
	return ctx.Err()
}

// endOf looks once more for effects that came after all waits, and asks a tool that has such without hurry.
func (a *auditor) endOf(ctx context.Context, s *subject) {
	if s == nil {
		return
	}
	a.fresh(ctx, s)
	if !s.slow || s.quiet >= a.cfg.Late || s.bad(DuplicateEffect, WrongRecord) || len(s.findings) == 0 {
		return
	}
	s.slow = false
	fmt.Fprintf(a.cfg.Progress, "      %s: an effect came late; once more, with a wait of %s\n", s.t.name, a.cfg.Late)
	s.notes = append(s.notes, "its effects come after its answer, and not all at once")
	s.findings = slices.DeleteFunc(s.findings, func(f Finding) bool { return f.Probe != ManyAtOnce && f.Verdict == CannotTell })
	a.journal.begin(s.t.name, Unhurried)
	a.step(ctx, s, step{Unhurried, func() (Finding, bool) { return a.sequence(ctx, s, Unhurried, a.cfg.Late, false), true }})
}

// trial finds arguments that have an effect. The call that had it waits for its late repeat.
func (a *auditor) trial(ctx context.Context, s *subject) *pair {
	ways := a.pool.recipes(s.t)
	if given := a.cfg.Args[s.t.name]; len(given) > 0 {
		ways = []recipe{{given: given}}
	}
	var best *pair
	var bestRecipe recipe
	var bestUsed map[string]any
	rank, silent := -1, 0
	for _, r := range ways {
		if ctx.Err() != nil {
			return nil
		}
		s.recipe = r
		p, used, got := a.try(ctx, s, silent == 0)
		if got > rank {
			best, bestRecipe, bestUsed, rank = p, r, used, got
		}
		if got == 3 {
			break
		}
		if got == 1 {
			if silent++; silent == 3 {
				break
			}
		}
	}
	s.recipe = bestRecipe
	if rank >= 2 {
		s.recipe = bestRecipe.settled(bestUsed)
	}
	if rank >= 2 {
		s.seen = true
	}
	if rank == 3 && s.t.order() == 0 && !slices.ContainsFunc(a.makers, func(m *subject) bool { return m.t.name == s.t.name }) {
		a.makers = append(a.makers, s)
	}
	return best
}

// try sends one call: 3 it went well and had an effect, 2 an effect and an error, 1 no effect, 0 an error.
func (a *auditor) try(ctx context.Context, s *subject, patient bool) (*pair, map[string]any, int) {
	s.turn++
	p := a.prepare(ctx, s, s.turn, nil)
	pr := &pair{probe: LateRepeat, args: p.args, s0: p.before, reader: s.t.presumedReader()}
	pr.first = a.send(ctx, s, p.args)
	var took time.Duration
	pr.s1, took = a.settled(ctx, pr.s0, s.quiet)
	if len(a.changes(pr.s0, pr.s1)) == 0 && !pr.first.wrong() && patient && !s.t.presumedReader() {
		// The effect may take longer than others do.
		waited := time.Now()
		for time.Since(waited) < max(3*a.cfg.Settle, a.cfg.Late/2) && ctx.Err() == nil && len(a.changes(pr.s0, pr.s1)) == 0 {
			pr.s1, _ = a.settled(ctx, pr.s1, a.cfg.Settle/2)
		}
		took = time.Since(waited) + s.quiet
	}
	did := a.changes(pr.s0, pr.s1)
	effect := len(did) > 0
	s.affects(did)
	if effect && took == 0 {
		s.quiet = min(s.quiet, a.cfg.Settle/3) // there with the answer; what comes later all the same is noticed before the next step
	}
	if effect && 2*took > s.quiet {
		s.quiet = min(2*took, max(a.cfg.Late, a.cfg.Settle))
		pr.s1, _ = a.settled(ctx, pr.s1, s.quiet)
	}
	switch {
	case effect && !pr.first.wrong():
		return pr, p.used, 3
	case effect:
		return pr, p.used, 2
	case !pr.first.wrong():
		return pr, p.used, 1
	}
	return pr, p.used, 0
}

// finish writes the report.
func (a *auditor) finish() {
	for _, s := range a.subjects {
		t := s.conclude()
		if note := a.journal.endNote(t.Name); note != "" {
			t.Notes = append(t.Notes, note)
		}
		a.report.Tools = append(a.report.Tools, t)
	}
	a.report.Ended = a.journal.list()
	if a.report.Tools == nil {
		a.report.Tools = []ToolReport{}
	}
	a.report.Late = a.cfg.Late.Seconds()
	a.report.Left, a.report.Moving = a.left(), a.restless.list()
	a.report.Seconds = time.Since(a.report.Started).Round(100 * time.Millisecond).Seconds()
}

const maxLeft = 200

// left lists what was not there before the first write.
func (a *auditor) left() []string {
	out := []string{}
	for _, c := range a.changes(a.begun, a.last) {
		if len(out) == maxLeft {
			return append(out, "…")
		}
		out = append(out, c.String())
	}
	return out
}
