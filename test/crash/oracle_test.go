package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// seen is one intent as the store has it.
type seen struct {
	*ledger.Record
	events   []ledger.Event       // its history
	attempts map[int]ledger.Event // by number: the last that is said of its end
	body     []byte
}

// book is everything that the store says.
type book struct {
	byID map[string]*seen
	byOp map[string][]*seen
}

// read opens the store beside the gateway that runs on it.
func (r *rig) read() *book {
	r.t.Helper()
	ctx := context.Background()
	l, err := sqlite.OpenReadOnly(ctx, r.store())
	if err != nil {
		r.t.Fatalf("read the store: %v", err)
	}
	defer l.Close()
	b := &book{byID: map[string]*seen{}, byOp: map[string][]*seen{}}
	for before := ""; ; {
		page, err := l.List(ctx, ledger.Filter{Before: before, Limit: 1000})
		if err != nil {
			r.t.Fatalf("list the store: %v", err)
		}
		for _, rec := range page {
			s, err := readOne(ctx, l, rec)
			if err != nil {
				r.t.Fatalf("read %s: %v", rec.ID, err)
			}
			before = rec.ID
			b.byID[rec.ID] = s
			b.byOp[rec.RequestedModel] = append(b.byOp[rec.RequestedModel], s)
		}
		if len(page) == 0 {
			return b
		}
	}
}

func readOne(ctx context.Context, l ledger.Ledger, rec *ledger.Record) (*seen, error) {
	s := &seen{Record: rec, attempts: map[int]ledger.Event{}}
	var err error
	if s.events, err = l.History(ctx, rec.ID); err != nil {
		return nil, err
	}
	for _, e := range s.events {
		if e.Kind == "attempt" || e.Kind == "attempt_end" {
			e.Billed = e.Billed || s.attempts[e.Attempt].Billed
			s.attempts[e.Attempt] = e
		}
	}
	if rec.Answer == nil || !rec.Answer.HasBody {
		return s, nil
	}
	body, err := l.Body(ctx, rec.ID, ledger.BodyAnswer)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("its answer"), err)
	}
	s.body = body.Data
	return s, nil
}

// tally is what the log says of an operation's attempts, over all its intents.
type tally struct {
	logged   int64 // attempts whose bytes may have left
	answered int64 // … that ended with a status: the far side was there
	excused  int64 // … that failed for certain, or are marked possibly_billed
	possible int   // … that may have had their effect
	success  int   // intents settled as success
}

func count(intents []*seen) tally {
	var n tally
	for _, s := range intents {
		if s.State == ledger.Settled && s.Outcome == ledger.OutcomeSuccess {
			n.success++
		}
		for _, e := range s.attempts {
			if e.End == ledger.AttemptNotSent {
				continue
			}
			n.logged++
			if e.Status > 0 {
				n.answered++
			}
			if e.End == ledger.AttemptFailed || e.Billed {
				n.excused++
			}
			if e.End != ledger.AttemptFailed {
				n.possible++
			}
		}
	}
	return n
}

// judge holds measurements §5 and semantics 1 against one operation.
func (r *rig) judge(o *op, b *book, effects int, calls int64) {
	r.t.Helper()
	n := count(b.byOp[o.name])
	broken := func(law string) {
		r.t.Helper()
		r.t.Errorf("op %s (%s): %s: %d calls, %d effects; in the log %+v\n%s", o.name, o.kind.name, law, calls, effects, n, o.body)
	}
	if calls > n.logged {
		broken("a call without an attempt on record")
	}
	if calls < n.answered {
		broken("an attempt has an answer, and nobody was asked")
	}
	if o.keyed && calls-1 > n.excused {
		broken("it was called again although no earlier call failed or may have been billed")
	}
	if int64(effects) > n.logged {
		broken("an effect before its intent was dispatched")
	}
	if o.external {
		if effects > 1 {
			broken("more than one effect")
		}
		if effects > n.possible {
			broken("an effect of an attempt that is on record as failed")
		}
		if n.success > 1 || n.success == 1 && effects != 1 {
			broken("confirmed without exactly one effect")
		}
	}
	for _, a := range o.acks {
		r.hold(o, b, a)
	}
}

// hold compares one answer that a client has with what the store recovered: nothing that was said is taken back.
func (r *rig) hold(o *op, b *book, a *answer) {
	r.t.Helper()
	if a.intent() == "" {
		return // nothing was sent, says the answer, and the counts above hold it to that
	}
	s := b.byID[a.intent()]
	if s == nil {
		r.t.Errorf("op %s (%s): lost: a client was told of %s\n%v", o.name, o.kind.name, a.intent(), a)
		return
	}
	least := ledger.Dispatched
	switch {
	case a.code() == "outcome_unknown":
		least = ledger.Unknown
	case a.code() == "request_in_flight" || a.status == 200 && !o.whole(a):
	case o.strict && !a.pending:
		least = ledger.Settled
		if a.status != 200 && s.Outcome != ledger.OutcomeSuccess {
			least = ledger.Unknown
		}
	}
	if s.State < least {
		r.t.Errorf("op %s (%s): a client was told what is at least %s, recovered is %s\n%v", o.name, o.kind.name, least, s.State, a)
	}
	if !o.whole(a) || !o.keyed || s.State < ledger.Settled {
		return
	}
	// Under relaxed durability an answer may be lost with its record and the operation run again; after one
	// attempt there is only one answer that it can be.
	if (o.strict && !a.pending || len(s.attempts) == 1 && s.Outcome == ledger.OutcomeSuccess) && !bytes.Equal(s.body, a.body) {
		r.t.Errorf("op %s (%s): the record differs from the client's answer\n%s\n%s", o.name, o.kind.name, s.body, a.body)
	}
}

// oracle checks every operation so far against the store that the gateway beside us has recovered.
func (r *rig) oracle(ops []*op) *book {
	r.t.Helper()
	// The far side first: what it does while we read may be in the store only later, never the other way round.
	effects, calls := r.effects(), r.calls()
	b := r.read()
	for _, o := range ops {
		r.judge(o, b, effects[o.name], calls[o.name].Calls)
	}
	found, err := sqlite.Verify(r.t.Context(), r.store())
	if err != nil {
		r.t.Fatalf("verify: %v", err)
	}
	for _, v := range found {
		r.t.Errorf("store verify: %s", v)
	}
	return b
}

// replay asks again for what clients were told, before anybody else does: a success comes back byte for byte,
// an unknown stays one, and nothing is sent.
func (r *rig) replay(ops []*op, b *book) {
	r.t.Helper()
	for _, o := range ops {
		if o.key == "" || o.ended == "" || o.ended == "failed" {
			continue
		}
		before := r.callsOf(o)
		for _, s := range b.byOp[o.name] {
			kept := s.State == ledger.Settled && s.Outcome == ledger.OutcomeSuccess
			if !kept && s.State != ledger.Unknown {
				continue
			}
			a, err := r.send(r.gateway.URL, "/v1/chat/completions", o.body,
				map[string]string{"Holdfast-Workflow": o.workflow, "Idempotency-Key": o.key})
			switch {
			case err != nil:
				r.mustDie(fmt.Sprintf("op %s (%s): asked again: %v", o.name, o.kind.name, err))
				return
			case kept && (a.status != 200 || !a.replayed() || !bytes.Equal(a.body, s.body)):
				r.t.Errorf("op %s (%s): replay differs: %v\non record: %s", o.name, o.kind.name, a, s.body)
			case !kept && (a.code() != "outcome_unknown" || a.intent() != s.ID):
				r.t.Errorf("op %s (%s): is unknown as %s, asked again: %v", o.name, o.kind.name, s.ID, a)
			}
			if r.callsOf(o) != before {
				r.t.Errorf("op %s (%s): asking again sent it again", o.name, o.kind.name)
			}
		}
	}
}
