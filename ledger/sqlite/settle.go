package sqlite

import (
	"cmp"
	"slices"

	"github.com/holdfast-ai/holdfast/ledger"
)

// result is a row of the table result that is still to be written.
type result struct {
	it       *item
	seq      int64
	events   []byte
	at       int64 // settled_at
	until    int64 // claim_until, and claim_due until the sweep
	bodiesAt int64 // body_due; 0: the sweep of the claim makes the bodies due
}

// settle ends an intent whose open row is gone. Its result waits until somebody looks or the batch ends: intents are
// settled in another order than they were made, and rows that come sorted are appended where others split pages.
func (s *session) settle(it *item, p place, events []byte) error {
	w, at := it.w, it.w.Status.UpdatedAt
	if at.IsZero() {
		at = s.now
	}
	r := result{it: it, seq: p.seq, events: events, at: micros(at), bodiesAt: micros(at)}
	switch {
	case it.claim == nil || !p.claimed:
	case w.Claim == ledger.ClaimKeep && !w.ClaimUntil.IsZero():
		r.until, r.bodiesAt = micros(w.ClaimUntil), 0
	default:
		if err := run(s.dropClaim.Stmt, it.claim, p.seq); err != nil {
			return err
		}
	}
	s.results = append(s.results, r)
	if it.inline != nil && w.Version > 1 {
		// Of an answer that an earlier change left in a row of its own.
		if err := run(s.dropBody.Stmt, slot(p.seq, it.inline.kind)); err != nil {
			return err
		}
	}
	return s.bodies(it, p.seq)
}

// flushResults writes the results that wait. Whoever is about to read the table calls it first.
func (s *session) flushResults() error {
	slices.SortFunc(s.results, func(a, b result) int { return cmp.Compare(a.seq, b.seq) })
	for i := range s.results {
		if err := s.putResultOf(&s.results[i]); err != nil {
			s.culprit = s.results[i].it
			return err
		}
	}
	s.forgetResults()
	return nil
}

func (s *session) forgetResults() {
	clear(s.results)
	s.results, s.culprit = s.results[:0], nil
}

func (s *session) putResultOf(r *result) error {
	b := binder{st: s.putResult}
	b.int(r.seq)
	b.status(&r.it.w.Status)
	b.int(r.at)
	b.int(r.until)
	b.answer(r.it.w.Answer, r.it.header)
	b.int(r.until)
	b.int(r.bodiesAt)
	b.raw(r.events)
	b.inline(r.it.inline)
	return b.exec()
}
