package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// conclude records what an answer means and hands it on.
func (f *flight) conclude(got reply) {
	v := f.c.rule.judge(got)
	if mutant.On("tool-unknown-is-failed") && v.end == ledger.AttemptUnknown {
		v.end = ledger.AttemptFailed
	}
	if mutant.On("resend-after-loss") && got.fail != nil {
		f.c.s.forward(&pending{m: f.c.sent, name: f.c.tool, done: func(reply) {}})
	}
	switch {
	case v.stage == stageTask:
		f.task(got.msg.result)
	case v.stage == stageInput:
		f.input(v, got)
	case v.end == ledger.AttemptSuccess:
		f.succeed(v, got.msg.result, got.msg.result)
	case v.end == ledger.AttemptUnknown:
		f.lose(v, got.msg)
	default:
		f.fail(v, got)
	}
}

// keepUntil is the end of the claim: the window from the first sighting (semantics 13), or from when a call was sent that had
// waited for its owner.
func (f *flight) keepUntil() time.Time {
	seen, now := f.op.Head().CreatedAt, f.p.ledger.Now()
	if f.approved.After(seen) {
		seen = f.approved
	}
	until := seen.Add(f.window())
	if until.Before(now) {
		return now
	}
	return until
}

// success is the settlement of a call that took place. stored is what is replayed.
func (f *flight) success(v verdict, stored json.RawMessage) intent.Settlement {
	const kind = "application/json"
	return intent.Settlement{Ending: v.ending(), Outcome: ledger.OutcomeSuccess, Reason: v.reason, Visibility: ledger.VisComplete,
		Delivery: ledger.DeliverySent, KeepUntil: f.keepUntil(),
		Answer: &ledger.Answer{HTTPStatus: 200, Header: map[string][]string{"Content-Type": {kind}}, Source: f.c.s.srv.name, HasBody: true},
		Body:   &ledger.Body{Kind: ledger.BodyAnswer, ContentType: kind, Data: stored}}
}

// succeed settles the call, before its answer leaves where durability is strict (semantics 28), and answers.
func (f *flight) succeed(v verdict, stored, shown json.RawMessage) {
	f.attempted(v.end, v.kind)
	err := f.op.Settle(f.success(v, stored), !f.strict(), f.landed(stored))
	f.record(err)
	meta := map[string]any{metaIntent: f.op.ID()}
	if err != nil {
		meta[metaStored] = "pending"
	}
	f.tell(shown, meta)
}

// tell hands a result to everybody: the one who asked first, and those whose calls were the same.
func (f *flight) tell(value json.RawMessage, meta map[string]any) {
	f.each(func(i int, w *waiter) {
		if i == 0 {
			w.answer(result(w.id, marked(value, "", meta)))
			return
		}
		w.again(f.op.ID(), value, f.p.since(f.op))
	})
}

// landed keeps an answer as evidence whose intent another has moved meanwhile (semantics 6).
func (f *flight) landed(value json.RawMessage) func(error) {
	return func(err error) {
		if errors.Is(err, ledger.ErrStale) {
			f.record(f.op.Evidence(intent.Ending{End: ledger.AttemptSuccess, Reason: "came after its intent had moved on"},
				&ledger.Body{ContentType: "application/json", Data: value}))
		}
	}
}

// fail records a call that certainly did nothing, and frees its key before anybody hears of it.
func (f *flight) fail(v verdict, got reply) {
	f.c.s.srv.history.remove(f.op.ID())
	f.attempted(v.end, v.kind)
	if v.end == ledger.AttemptNotSent && f.op.Status().Attempt == 1 {
		f.record(f.op.NotSent(v.reason, v.rule))
	} else {
		f.record(f.op.Settle(intent.Settlement{Ending: v.ending(), Outcome: ledger.OutcomeFailed, Reason: v.reason, Visibility: ledger.VisComplete}, false, nil))
	}
	id := f.op.ID()
	switch {
	case got.msg != nil && got.msg.error != nil:
		f.each(func(_ int, w *waiter) { w.answer(got.msg.withID(w.id)) })
	case got.msg != nil:
		f.each(func(_ int, w *waiter) {
			w.answer(result(w.id, marked(got.msg.result, "", map[string]any{metaIntent: id})))
		})
	case got.fail.status != 0 && !got.fail.gone:
		f.each(func(_ int, w *waiter) { w.pass(got.fail) })
	default:
		code := "server_unavailable"
		if got.fail.gone {
			code = v.kind
		}
		f.refuse(refusal{code: code, safe: safeYes, intent: id, text: "Nothing was executed: " + v.reason + ". It is safe to call again (intent " + id + ")."})
	}
}

// lose records that nobody knows whether the call took effect (semantics 2), and says so.
func (f *flight) lose(v verdict, said *message) {
	var body *ledger.Body
	if said != nil {
		body = &ledger.Body{Kind: ledger.BodyPartial, ContentType: "application/json", Data: said.raw}
	}
	v.end = ledger.AttemptUnknown
	f.attempted(v.end, v.kind)
	id := f.op.ID()
	if !f.op.Head().Hold {
		f.record(f.op.Settle(intent.Settlement{Ending: v.ending(), Outcome: ledger.OutcomeFailed, Reason: v.reason, Visibility: ledger.VisComplete}, false, nil))
		f.refuse(refusal{code: "outcome_unknown", safe: safeYes, intent: id, unknown: true, text: "There is no answer: " + v.reason +
			". The call may have cost something; its policy (on_unknown: retry) allows calling again (intent " + id + ")."})
		return
	}
	f.p.held.add(f.c, id)
	f.record(f.op.Lose(v.ending(), body))
	f.p.logger.Warn("the outcome of an MCP call is unknown; it is held", "intent", id, "server", f.c.s.srv.name, "tool", f.c.tool, "reason", v.reason)
	f.refuse(f.c.unknownWords(id, v.reason))
}

// interrupt records a call that this process can no longer wait for.
func (f *flight) interrupt() {
	const why = "holdfast was told to stop before the answer came"
	f.attempted(ledger.AttemptUnknown, "interrupted")
	f.p.held.add(f.c, f.op.ID())
	f.record(f.op.Interrupt(why))
	f.refuse(f.c.unknownWords(f.op.ID(), why))
}

// late takes an answer that came after the call was given up. It is evidence (semantics 40): from the far side itself, and of
// this very call, so that it ends what was unknown (semantics 8).
func (f *flight) late(got reply) {
	if got.msg == nil {
		return
	}
	v := f.c.rule.judge(got)
	value := got.msg.result
	if value == nil {
		value = got.msg.error
	}
	f.record(f.op.Evidence(intent.Ending{End: v.end, Error: v.kind, Reason: "the answer came after the call had been given up"},
		&ledger.Body{ContentType: "application/json", Data: value}))
	if f.op.Status().State != ledger.Unknown {
		return
	}
	known := intent.Ending{End: ledger.AttemptRunning, Rule: "semantics 8"} // the attempt's end is on record
	var err error
	switch {
	case v.end == ledger.AttemptSuccess && v.stage == stageEnd:
		s := f.success(v, value)
		s.Ending, s.Reason = known, "the far side's own answer came late"
		err = f.op.Settle(s, false, nil)
	case v.end == ledger.AttemptFailed && v.stage == stageEnd:
		f.c.s.srv.history.remove(f.op.ID())
		err = f.op.Settle(intent.Settlement{Ending: known, Outcome: ledger.OutcomeFailed, Reason: "the far side's own answer came late: " + v.reason,
			Visibility: ledger.VisComplete}, false, nil)
	}
	if err != nil && !errors.Is(err, ledger.ErrStale) {
		f.record(err)
	}
}

// record logs what could not be put on record; recovery finds it at the next start.
func (f *flight) record(err error) {
	if err != nil {
		f.p.logger.Error("what became of an MCP call could not be recorded yet", "intent", f.op.ID(), "error", err)
	}
}

// input ends an attempt over which the server asks the client for something first. The client's next call with the same
// arguments goes on with it; what the client adds to it is no part of its key, so that a continuation is never a duplicate.
func (f *flight) input(v verdict, got reply) {
	f.attempted(v.end, v.kind)
	f.c.s.srv.history.remove(f.op.ID())
	f.record(f.op.EndAttempt(v.ending()))
	f.p.park(f.op.ID())
	f.tell(got.msg.result, map[string]any{metaIntent: f.op.ID()})
}

// task answers with the task that the call became, and stays until that ends (semantics 40).
func (f *flight) task(created json.RawMessage) {
	id := gjson.GetBytes(created, "task.taskId").Str
	f.mu.Lock()
	f.early = created
	all := f.waiters
	f.mu.Unlock()
	s := f.c.s
	s.mu.Lock()
	s.tasks[id] = f
	s.mu.Unlock()
	f.op.Note(ledger.Event{Kind: "note", Reason: fmt.Sprintf("became task %.100q", id), Rule: "semantics 40"})
	for i, w := range all {
		if i == 0 {
			w.answer(result(w.id, marked(created, "", map[string]any{metaIntent: f.op.ID()})))
			continue
		}
		w.again(f.op.ID(), created, f.p.since(f.op))
	}
	f.follow(id, created)
	s.mu.Lock()
	delete(s.tasks, id)
	s.mu.Unlock()
	f.each(func(int, *waiter) {})
}
