package audit

import (
	"context"
	"time"
)

// givenUp sends a call, gives it up while it runs, and repeats it. A server that hears of it may stop half-way: what it
// remembers of the call and what the call has done are then two things.
//
// When to give it up is a guess: too soon, and the server has not begun; too late, and the answer is there. Where that is what
// came of it, another call is given up later, or sooner.
func (a *auditor) givenUp(ctx context.Context, s *subject) Finding {
	var f Finding
	after := s.took / 2
	for range giveUpTries {
		pr := a.giveUp(ctx, s, after)
		f = a.judgeGivenUp(s, pr)
		switch {
		case ctx.Err() != nil || f.Verdict.Bad() || s.consumes() || s.quiet > a.cfg.Settle:
			return f
		case pr.first.err == nil:
			after /= 2
		case len(s.own(a.changes(pr.s0, pr.s1))) > 0:
			return f
		default:
			after = (after + max(s.took, 2*time.Millisecond)) / 2
		}
	}
	return f
}

// giveUpTries are calls that may be given up to find one with an effect.
const giveUpTries = 3

func (a *auditor) giveUp(ctx context.Context, s *subject, after time.Duration) pair {
	s.turn++
	p := a.prepare(ctx, s, s.turn, nil)
	s.calls++
	first := a.server.callGivenUp(ctx, s.t.name, p.args, after)
	_ = sleep(ctx, s.took) // it may go on all the same; the look fails too where this does
	s1 := a.still(ctx, p.before, max(s.quiet, a.cfg.Settle))
	second := a.send(ctx, s, p.args)
	s2, _ := a.settled(ctx, s1, s.quiet)
	return pair{probe: GivenUp, args: p.args, s0: p.before, s1: s1, s2: s2, first: first, second: second, reader: s.t.presumedReader()}
}

// stillTries bounds the looks at a server that goes on moving.
const stillTries = 8

// still is settled behind a call that no answer says to be over: what a look finds may be half of its effect, so that it
// looks until a further look finds no more.
func (a *auditor) still(ctx context.Context, from state, quiet time.Duration) state {
	for range stillTries {
		now, _ := a.settled(ctx, from, quiet)
		moved := len(a.changes(from, now)) > 0
		if from, quiet = now, a.cfg.Settle; !moved {
			break
		}
	}
	return from
}

// judgeGivenUp knows of no first answer: a call that was given up may have had its effect or not, and either is fine if
// the repeat makes it one.
func (a *auditor) judgeGivenUp(s *subject, pr pair) Finding {
	did, again := s.own(a.changes(pr.s0, pr.s1)), s.own(a.changes(pr.s1, pr.s2))
	effects := append(evidence("call given up", did), evidence("repeat", again)...)
	switch {
	case len(did) > 0 && len(again) > 0:
		return pr.finding(DuplicateEffect, "a call that its client gave up had its effect, and the repeat had one of its own", effects...)
	case len(did) > 0 && pr.second.held:
		return pr.finding(Safe, "a call that its client gave up had its effect, and the repeat did nothing and was told that the outcome is not known", effects...)
	case len(did) > 0 && pr.second.silent: // who stands before the server may wait for the call's own end
		return pr.finding(CannotTell, "a call that its client gave up had its effect, and its repeat, which changed nothing, was not answered in time; a longer --timeout tells", effects...)
	case len(did) > 0 && pr.second.wrong():
		return pr.finding(ErrorOnRepeat, "a call that its client gave up had its effect, and the repeat was answered with an error", effects...)
	case len(did) > 0:
		return pr.finding(Safe, "a call that its client gave up had its effect, and the repeat changed nothing", effects...)
	case len(again) > 0 && !pr.second.wrong():
		return pr.finding(Safe, "a call that its client gave up had no effect, and the repeat did the work", effects...)
	}
	return pr.finding(CannotTell, "neither a call that its client gave up nor its repeat had an effect", effects...)
}

// callGivenUp sends one tools/call and cancels it after a while, at once if its answer is usually there at once.
func (s *server) callGivenUp(ctx context.Context, tool string, args Args, after time.Duration) answer {
	session, err := s.live(ctx)
	if err != nil {
		return answer{err: err}
	}
	wait, cancel := context.WithTimeout(ctx, max(after, time.Millisecond))
	defer cancel()
	got := s.callOn(wait, session, tool, args)
	if got.err != nil {
		got = answer{err: errGivenUp, silent: true}
	}
	return got
}
