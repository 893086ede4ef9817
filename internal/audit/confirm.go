package audit

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// A state is everything that reads show, and what changes in it between two calls need not be the second one's doing: another
// call's effect may come late, somebody else may write, a machine may have stood still in between. That a tool is safe is
// said of all that changed, so that it is said of too little at worst; that it is at fault is said of what it does again.

// confirmTries are further pairs that may show an accusation to be chance.
const confirmTries = 2

// proven is what a probe found. Where a repeat seems to have had an effect elsewhere than the tool's calls have theirs, another
// pair must show it again before the tool is accused of it.
func (a *auditor) proven(ctx context.Context, s *subject, try func() (Finding, pair)) Finding {
	f, p := try()
	if !accuses(f) || p.related || s.bad(DuplicateEffect, WrongRecord) || mutant.On("audit-accuses-at-once") {
		return f
	}
	cleared := unproven(f)
	for range confirmTries {
		more, _ := try()
		if ctx.Err() != nil || accuses(more) {
			return f
		}
		if cleared = more; more.Verdict != CannotTell {
			break
		}
	}
	return cleared
}

func accuses(f Finding) bool { return f.Verdict == DuplicateEffect || f.Verdict == WrongRecord }

// relates reports whether a repeat's changes are shown by a read that showed the first call's, and those of earlier calls.
func (s *subject) relates(first, repeat []change) bool {
	return slices.ContainsFunc(s.own(first), func(c change) bool {
		return slices.ContainsFunc(repeat, func(d change) bool { return readerOf(c.source) == readerOf(d.source) })
	})
}

// affects notes where a call of the tool had its effect.
func (s *subject) affects(changes []change) {
	for _, c := range changes {
		if s.where == nil {
			s.where = map[string]bool{}
		}
		s.where[readerOf(c.source)] = true
	}
}

// own are those of the changes that are where the tool's calls have had effects before; all, while none is known of.
func (s *subject) own(changes []change) []change {
	if len(s.where) == 0 {
		return changes
	}
	return slices.DeleteFunc(slices.Clone(changes), func(c change) bool { return !s.where[readerOf(c.source)] })
}

// ownAmounts are the amounts of classes where the tool's calls have had effects before.
func (s *subject) ownAmounts(amounts map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for class, n := range amounts {
		reader, _, _ := strings.Cut(class, " ")
		if len(s.where) == 0 || s.where[reader] {
			out[class] = n
		}
	}
	return out
}

// lateLook looks once more, after a long wait, before a call that was answered well is said to have had no effect. It reports
// whether there was one after all, which came late.
func (a *auditor) lateLook(ctx context.Context, s *subject, from state) (state, bool) {
	now := from
	if s.quiet >= a.cfg.Late {
		return now, false // it was waited for as long
	}
	for begun := time.Now(); time.Since(begun) < a.cfg.Late && ctx.Err() == nil; {
		now, _ = a.settled(ctx, from, a.cfg.Settle)
		if len(a.changes(from, now)) > 0 {
			s.slow = true
			return now, true
		}
	}
	return now, false
}
