package mcp

import (
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Observer is told what happens, for telemetry. Its methods must not block.
type Observer interface {
	// Lookup is a call of a write tool; workflow is the server's name.
	Lookup(workflow string)
	// Duplicate is a call that repeats one that is settled, in_flight, unknown or observed.
	Duplicate(workflow, of string)
	StoreError(workflow string)
	// ToolAttempt is one call of a write tool that was sent and has ended, as it stands in the log; kind says what went wrong,
	// and is empty after a success.
	ToolAttempt(workflow, tier string, end ledger.AttemptEnd, kind string, took time.Duration)
}

type silent struct{}

func (silent) Lookup(string)            {}
func (silent) Duplicate(string, string) {}
func (silent) StoreError(string)        {}

func (silent) ToolAttempt(string, string, ledger.AttemptEnd, string, time.Duration) {}

// attempted reports the end of the flight's attempt.
func (f *flight) attempted(end ledger.AttemptEnd, kind string) {
	name := f.c.s.srv.name
	f.p.observer.ToolAttempt(name, name, end, kind, time.Since(f.begun))
}

// observe passes a call on unchanged (mode: observe). What would have been done is put on record beside it, and a store that is
// away only costs the record.
func (s *session) observe(c *call, to sink) {
	ctx, stop := s.p.commitWait()
	defer stop()
	r := &pending{client: c.m.id, m: c.m, name: c.tool, head: c.head, to: to}
	would := "execute"
	if seen, err := s.p.ledger.Derived(ctx, c.key, 1); err == nil && len(seen) > 0 && c.key != "" {
		would = "replay or wait for " + seen[0].ID
		if seen[0].Fingerprint != c.fingerprint {
			would = "refuse: the key was used for another call, " + seen[0].ID
		}
		s.p.observer.Duplicate(s.srv.name, "observed")
		s.p.logger.Info("observe: a repeated call", "server", s.srv.name, "tool", c.tool, "would", would)
	}
	f := &flight{p: s.p, c: c}
	op, err := s.p.log.Begin(intent.Begin{Head: c.intentHead(), Visibility: ledger.VisBackground, DerivedUntil: s.p.ledger.Now().Add(f.window()),
		Attempt: &intent.Attempt{Route: "mcp/" + s.srv.name + "/" + c.tool, Tier: s.srv.name},
		Request: s.p.keep(ledger.BodyRequest, c.m.raw)})
	if err != nil {
		s.p.observer.StoreError(s.srv.name)
		s.p.logger.Warn("observe: not on record; the call goes on", "server", s.srv.name, "tool", c.tool, "error", err)
		s.forward(r)
		return
	}
	op.Note(ledger.Event{Kind: "note", Reason: "observe: would " + would, Rule: c.rule.path + ".mode"})
	if c.base != "" {
		s.srv.history.add(written{id: op.ID(), base: c.base, fingerprint: c.fingerprint})
	}
	begun := time.Now()
	r.done = func(got reply) {
		if got.fail != nil && s.again(r, got.fail) { // what was not sent
			return
		}
		s.p.begin(func() { s.observed(c, op, begun, got) })
		r.resent = true
		s.answer(r, got)
	}
	s.forward(r)
}

// observed puts on record how a call that was only watched ended.
func (s *session) observed(c *call, op *intent.Op, begun time.Time, got reply) {
	v := c.rule.judge(got)
	s.p.observer.ToolAttempt(s.srv.name, s.srv.name, v.end, v.kind, time.Since(begun))
	var err error
	switch {
	case v.end == ledger.AttemptUnknown && op.Head().Hold:
		err = op.Lose(v.ending(), nil)
	case v.end == ledger.AttemptNotSent:
		err = op.NotSent(v.reason, v.rule)
	default:
		out := ledger.OutcomeSuccess
		if v.end != ledger.AttemptSuccess && v.stage == stageEnd {
			out = ledger.OutcomeFailed
		}
		if v.stage != stageEnd {
			v.end = ledger.AttemptSuccess
		}
		err = op.Settle(intent.Settlement{Ending: v.ending(), Outcome: out, Reason: v.reason, Visibility: ledger.VisComplete}, true, nil)
	}
	if err != nil {
		s.p.logger.Error("a watched call could not be recorded", "intent", op.ID(), "error", err)
	}
}
