package sqlite

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
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
	r := result{it: it, seq: p.seq, events: events, at: stored.Micros(at), bodiesAt: stored.Micros(at)}
	switch {
	case it.claim == nil || !p.claimed:
	case w.Claim == ledger.ClaimKeep && !w.ClaimUntil.IsZero():
		r.until, r.bodiesAt = stored.Micros(w.ClaimUntil), 0
	default:
		if err := run(s.dropClaim.Stmt, it.claim, p.seq); err != nil {
			return err
		}
	}
	s.results = append(s.results, r)
	if it.inline != nil && w.Version > 1 && (p.batch == 0 || p.answered) {
		// Of an answer that an earlier change left in a row of its own, or may have.
		if err := run(s.dropBody.Stmt, slot(p.seq, it.inline.Kind)); err != nil {
			return err
		}
	}
	if err := s.cache(it, p.seq); err != nil {
		return err
	}
	return s.bodies(it, p.seq)
}

// flushResults writes the results that wait, and lists when the sweep has to look at them.
func (s *session) flushResults() error {
	slices.SortFunc(s.results, func(a, b result) int { return cmp.Compare(a.seq, b.seq) })
	for i := range s.results {
		if err := s.putResultOf(&s.results[i]); err != nil {
			s.culprit = s.results[i].it
			return err
		}
	}
	if err := s.listResults(); err != nil {
		return err
	}
	clear(s.results)
	s.results = s.results[:0]
	return nil
}

// forget drops what waits of a run that was undone.
func (s *session) forget() {
	clear(s.heads)
	clear(s.results)
	s.heads, s.results, s.culprit = s.heads[:0], s.results[:0], nil
}

// The kinds of due lists.
const (
	dueClaims = 1
	dueBodies = 2
)

// dueGrain is how finely times are told apart in due lists, in microseconds. A list begins with its second, and the
// sweep asks each row for its exact time.
const dueGrain = 1_000_000

// dueSecond is the second of a time.
func dueSecond(at int64) int64 { return at - at%dueGrain }

// dueAt names a list.
type dueAt struct{ kind, at int64 }

// listResults lists every result that waits once: by its claim, or else by its bodies. What is settled together is
// mostly due together, and one row says so for all.
func (s *session) listResults() error {
	if len(s.results) == 0 {
		return nil
	}
	lists := map[dueAt][]int64{}
	for i := range s.results {
		r := &s.results[i]
		at := dueAt{dueBodies, dueSecond(r.bodiesAt)}
		if r.until != 0 {
			at = dueAt{dueClaims, dueSecond(r.until)}
		}
		lists[at] = append(lists[at], r.seq)
	}
	for at, seqs := range lists {
		if err := s.listDue(at.kind, at.at, seqs); err != nil {
			return err
		}
	}
	return nil
}

// listDue puts intents, in the order of their seq, on a list of kind for the second of at.
func (s *session) listDue(kind, at int64, seqs []int64) error {
	at = dueSecond(at)
	for more := appendSeqs(nil, seqs); ; at++ {
		b := binder{st: s.putDue}
		b.number(kind)
		b.number(at)
		b.number(seqs[0])
		b.blobOrNull(more)
		if err := b.exec(); err != nil || s.conn.Changes() > 0 || len(seqs) == 1 {
			return err // who leads a list already is on it
		}
	}
}

// appendSeqs writes the distances between rising seqs.
func appendSeqs(b []byte, seqs []int64) []byte {
	for i := 1; i < len(seqs); i++ {
		b = binary.AppendUvarint(b, uint64(seqs[i]-seqs[i-1]))
	}
	return b
}

// readSeqs is what appendSeqs wrote behind first; ok says that all of it could be read.
func readSeqs(first int64, more []byte) (seqs []int64, ok bool) {
	seqs = append(make([]int64, 0, 1+len(more)/2), first)
	for len(more) > 0 {
		d, n := binary.Uvarint(more)
		if n <= 0 {
			return seqs, false
		}
		first += int64(d)
		seqs, more = append(seqs, first), more[n:]
	}
	return seqs, true
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
