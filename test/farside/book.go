package farside

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-ai/holdfast/ledger"
)

// Seen is one intent as the store has it.
type Seen struct {
	*ledger.Record
	Events   []ledger.Event       // its history
	Attempts map[int]ledger.Event // by number: the last that is said of its end
	Body     []byte
}

// String is what the log says of it, for complaints.
func (s *Seen) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s %s in %q, attempt %d, crashes %d, owner %q", s.ID, s.State, s.Outcome, s.Lane, s.Attempt, s.Crashes, s.LeaseOwner)
	for _, e := range s.Events {
		fmt.Fprintf(&b, "\n  %s %s %s→%s by %s attempt %d %s %d %s %s", e.At.Format("15:04:05.000"), e.Kind, e.From, e.To, e.Actor, e.Attempt, e.End, e.Status,
			e.Reason, e.Error)
	}
	return b.String()
}

// Book is everything that the store says.
type Book struct {
	ByID map[string]*Seen
	ByOp map[string][]*Seen
}

// Read reads a store, beside whoever works on it.
func (s *Side) Read(l ledger.Ledger) *Book {
	s.T.Helper()
	ctx := s.T.Context()
	b := &Book{ByID: map[string]*Seen{}, ByOp: map[string][]*Seen{}}
	for before := ""; ; {
		page, err := l.List(ctx, ledger.Filter{Before: before, Limit: 1000})
		if err != nil {
			s.T.Fatalf("list the store: %v", err)
		}
		for _, rec := range page {
			one, err := readOne(ctx, l, rec)
			if err != nil {
				s.T.Fatalf("read %s: %v", rec.ID, err)
			}
			before = rec.ID
			b.ByID[rec.ID] = one
			b.ByOp[rec.RequestedModel] = append(b.ByOp[rec.RequestedModel], one)
		}
		if len(page) == 0 {
			return b
		}
	}
}

func readOne(ctx context.Context, l ledger.Ledger, rec *ledger.Record) (*Seen, error) {
	s := &Seen{Record: rec, Attempts: map[int]ledger.Event{}}
	var err error
	if s.Events, err = l.History(ctx, rec.ID); err != nil {
		return nil, err
	}
	for _, e := range s.Events {
		if e.Kind == "attempt" || e.Kind == "attempt_end" {
			e.Billed = e.Billed || s.Attempts[e.Attempt].Billed
			s.Attempts[e.Attempt] = e
		}
	}
	if rec.Answer == nil || !rec.Answer.HasBody {
		return s, nil
	}
	body, err := l.Body(ctx, rec.ID, ledger.BodyAnswer)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("its answer"), err)
	}
	s.Body = body.Data
	return s, nil
}

// Tally is what the log says of an operation's attempts, over all its intents.
type Tally struct {
	Logged   int64 // attempts whose bytes may have left
	Answered int64 // … that ended with a status: the far side was there
	Excused  int64 // … that failed for certain, or are marked possibly_billed
	Possible int   // … that may have had their effect
	Success  int   // intents settled as success
}

// Count sums up what was tried for an operation.
func Count(intents []*Seen) Tally {
	var n Tally
	for _, s := range intents {
		if s.State == ledger.Settled && s.Outcome == ledger.OutcomeSuccess {
			n.Success++
		}
		for _, e := range s.Attempts {
			if e.End == ledger.AttemptNotSent {
				continue
			}
			n.Logged++
			if e.Status > 0 {
				n.Answered++
			}
			if e.End == ledger.AttemptFailed || e.Billed {
				n.Excused++
			}
			if e.End != ledger.AttemptFailed {
				n.Possible++
			}
		}
	}
	return n
}

// Judge holds measurements §5 and semantics 1 against one operation.
func (r *Side) Judge(o *Op, b *Book, effects int, calls int64) {
	r.T.Helper()
	n := Count(b.ByOp[o.Name])
	broken := func(law string) {
		r.T.Helper()
		r.T.Errorf("op %s (%s): %s: %d calls, %d effects; in the log %+v\n%s", o.Name, o.Kind.Name, law, calls, effects, n, o.Body)
	}
	if calls > n.Logged {
		broken("a call without an attempt on record")
	}
	if calls < n.Answered {
		broken("an attempt has an answer, and nobody was asked")
	}
	if o.Keyed && calls-1 > n.Excused {
		broken("it was called again although no earlier call failed or may have been billed")
	}
	if int64(effects) > n.Logged {
		broken("an effect before its intent was dispatched")
	}
	if o.External {
		if effects > 1 {
			broken("more than one effect")
		}
		if effects > n.Possible {
			broken("an effect of an attempt that is on record as failed")
		}
		if n.Success > 1 || n.Success == 1 && effects != 1 {
			broken("confirmed without exactly one effect")
		}
	}
	for _, a := range o.Acks {
		r.hold(o, b, a)
	}
}

// hold compares one answer that a client has with what the store recovered: nothing that was said is taken back.
func (r *Side) hold(o *Op, b *Book, a *Answer) {
	r.T.Helper()
	if a.Intent() == "" {
		return // nothing was sent, says the answer, and the counts above hold it to that
	}
	s := b.ByID[a.Intent()]
	if s == nil {
		r.T.Errorf("op %s (%s): lost: a client was told of %s\n%v", o.Name, o.Kind.Name, a.Intent(), a)
		return
	}
	least := ledger.Dispatched
	switch {
	case a.Code() == "outcome_unknown":
		least = ledger.Unknown
	case r.Away && a.Status != 200 && a.Code() == "" && s.Attempts[s.Attempt].End != ledger.AttemptUnknown:
		least = ledger.Created
	case a.Code() == "request_in_flight" || a.Status == 200 && !o.Whole(a):
	case o.Strict && !a.Pending:
		least = ledger.Settled
		if a.Status != 200 && s.Outcome != ledger.OutcomeSuccess {
			least = ledger.Unknown
		}
	}
	if s.State < least {
		r.T.Errorf("op %s (%s): a client was told what is at least %s, recovered is %s\n%v\n%v", o.Name, o.Kind.Name, least, s.State, a, s)
	}
	if !o.Whole(a) || !o.Keyed || s.State < ledger.Settled {
		return
	}
	// Under relaxed durability an answer may be lost with its record and the operation run again; after one
	// attempt there is only one answer that it can be.
	if (o.Strict && !a.Pending || len(s.Attempts) == 1 && s.Outcome == ledger.OutcomeSuccess) && !bytes.Equal(s.Body, a.Body) {
		r.T.Errorf("op %s (%s): the record differs from the client's answer\n%s\n%s\n%v", o.Name, o.Kind.Name, s.Body, a.Body, s)
	}
}
