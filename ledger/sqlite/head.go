package sqlite

import (
	"cmp"
	"errors"
	"slices"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

// head is a new intent whose rows are still to be written.
type head struct {
	it  *item
	seq int64
}

// flush writes what waits. Whoever is about to read the tables calls it first.
func (s *session) flush() error {
	if err := s.flushHeads(); err != nil {
		return err
	}
	return s.flushResults()
}

// flushHeads writes the new intents in the order of their rows: callers are served in another order than they drew
// their ids, and rows that come sorted are appended where others split pages.
func (s *session) flushHeads() error {
	slices.SortFunc(s.heads, func(a, b head) int { return cmp.Compare(a.seq, b.seq) })
	for _, h := range s.heads {
		if err := s.putHead(h); err != nil {
			s.culprit = h.it
			return err
		}
	}
	for _, h := range s.heads {
		if h.it.w.Settle {
			continue
		}
		b := binder{st: s.putOpen}
		b.number(h.seq)
		b.status(&h.it.w.Status)
		if err := b.exec(); err != nil {
			s.culprit = h.it
			return err
		}
	}
	clear(s.heads)
	s.heads = s.heads[:0]
	return nil
}

// putHead writes one head, unless its place is taken.
func (s *session) putHead(h head) error {
	if err := s.insertHead(h.it, h.seq); err != nil || s.conn.Changes() > 0 {
		return err
	}
	defer s.idAt.Reset()
	if err := s.idAt.BindInt64(1, h.seq); err != nil {
		return err
	}
	if s.idAt.Step() && s.idAt.ColumnText(0) != h.it.w.Insert.ID {
		return errTaken
	}
	// The id exists: the same write was queued before and was durable after all.
	h.it.refused = ledger.ErrStale
	return errors.Join(s.idAt.Err(), errRefused)
}

func (s *session) insertHead(it *item, seq int64) error {
	b, i := binder{st: s.putIntent}, it.w.Insert
	b.number(seq)
	b.unique(i.ID)
	b.number(stored.Micros(i.CreatedAt))
	b.text(i.Tenant)
	b.text(i.Workflow)
	b.unique(i.Key)
	b.unique(i.JobID)
	b.text(i.OwnerKey)
	b.int(int64(i.Effect))
	b.bool(i.Hold)
	b.bool(i.Explicit)
	if it.w.ClaimKey == i.Key {
		b.bool(i.Key != "")
	} else {
		b.unique(it.w.ClaimKey)
	}
	if i.Fingerprint == [32]byte{} {
		b.null()
	} else {
		b.blob(i.Fingerprint[:])
	}
	b.text(i.Method)
	b.text(i.Path)
	b.text(i.Provider)
	b.text(i.Endpoint)
	b.text(i.RequestedModel)
	b.bool(i.Stream)
	b.text(i.Priority)
	b.int(int64(i.MaxAttempts))
	b.text(i.FallbackOK)
	b.float(i.EstimatedCost)
	b.text(i.PolicyRevision)
	b.text(i.Trigger)
	b.text(i.ParentID)
	b.text(i.Callback)
	b.raw(it.events)
	return b.exec()
}
