package spread

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// An owner is to be dead for nobody while it acts, and a store that is away is not to stop what stands in the others. So:
//
//   - a heartbeat goes to every store, and holds where one of them took it;
//   - an intent is leased, and its attempts sent (Holds), only while the store that keeps it has a current heartbeat of the owner: whoever reads
//     that store alone sees the owner alive;
//   - whoever looks for the dead goes by all stores or not at all (Owners): an owner that one of them has alive is alive.

// beat is an owner's last durable heartbeat in one store.
type beat struct {
	owner ledger.Owner
	began time.Time     // by this machine's clocks
	good  time.Duration // how long it is good for
}

// marginShare is the part of a heartbeat's life by which its owner counts it over sooner than others do.
const marginShare = 6

func (b beat) current(now time.Time) bool {
	wall, good := time.Now(), b.good-b.good/marginShare
	return now.Before(b.owner.Until.Add(-b.good/marginShare)) && wall.Sub(b.began) < good && wall.Round(0).Sub(b.began.Round(0)) < good
}

// late says that an owner of this process has no current heartbeat in this store.
func (s *store) late(owner string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ours := s.beats[owner]
	return ours && !b.current(now) && !mutant.On("one-heartbeat-for-all-stores")
}

// Holds implements ledger.Parted.
func (l *Ledger) Holds(owner, id string) bool {
	s, now := l.known(id), l.Now()
	if s != nil {
		return !s.late(owner, now)
	}
	return !slices.ContainsFunc(l.stores, func(s *store) bool { return s.late(owner, now) })
}

const (
	// straggle is how long a heartbeat waits for other stores once one has it. They may take it behind that.
	straggle = time.Second
	// beatWait bounds a heartbeat without a deadline of its own, in each store.
	beatWait = 5 * time.Second
)

var errBeating = fmt.Errorf("the heartbeat before has not ended: %w", ledger.ErrUnavailable)

// Beat implements ledger.Ledger. It is an error where no store took it.
func (l *Ledger) Beat(ctx context.Context, o ledger.Owner) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ledger.ErrClosed
	}
	l.work.Add(1)
	l.mu.Unlock()
	defer l.work.Done()
	wait := beatWait
	if end, ok := ctx.Deadline(); ok {
		wait = time.Until(end)
	}
	answers := make(chan error, len(l.stores))
	began, good := time.Now(), o.Until.Sub(l.Now())
	for _, s := range l.stores {
		l.work.Add(1)
		go func() {
			defer l.work.Done()
			c, stop := context.WithTimeout(l.ctx, wait)
			defer stop()
			answers <- s.beat(c, beat{o, began, good})
		}()
	}
	return collect(ctx, answers, len(l.stores))
}

// collect waits for n answers, and not much longer than for the first good one.
func collect(ctx context.Context, answers <-chan error, n int) error {
	var errs []error
	var enough <-chan time.Time
	for range n {
		select {
		case err := <-answers:
			if err != nil {
				errs = append(errs, err)
			} else if enough == nil {
				timer := time.NewTimer(straggle)
				defer timer.Stop()
				enough = timer.C
			}
		case <-enough:
			return nil
		case <-ctx.Done():
			if enough != nil {
				return nil
			}
			return context.Cause(ctx)
		}
	}
	if enough != nil {
		return nil
	}
	return first(errs)
}

// beat writes a heartbeat into one store, one at a time, so that none overtakes another.
func (s *store) beat(ctx context.Context, b beat) error {
	s.mu.Lock()
	if _, ours := s.beats[b.owner.ID]; !ours {
		s.beats[b.owner.ID] = beat{} // not current, until the store has one
	}
	s.mu.Unlock()
	if !s.beating.CompareAndSwap(false, true) {
		return errBeating
	}
	defer s.beating.Store(false)
	if err := s.Beat(ctx, b.owner); err != nil {
		return err
	}
	s.mu.Lock()
	s.beats[b.owner.ID] = b
	s.mu.Unlock()
	return nil
}

// beatAgain brings an owner's newest heartbeat to a store that does not have it, behind the caller's back; l.mu is held.
func (l *Ledger) beatAgain(to *store, owner string) {
	var newest beat
	for _, s := range l.stores {
		s.mu.Lock()
		if b := s.beats[owner]; b.owner.Until.After(newest.owner.Until) {
			newest = b
		}
		s.mu.Unlock()
	}
	if l.closed || !newest.current(l.Now()) || to.beating.Load() {
		return
	}
	l.work.Add(1)
	go func() {
		defer l.work.Done()
		ctx, stop := context.WithTimeout(l.ctx, beatWait)
		defer stop()
		_ = to.beat(ctx, newest) // the next heartbeat comes there as well
	}()
}

// Owners implements ledger.Ledger: each as the store has it in which it lives longest. It is an error where a store is away, for an owner
// may live there.
func (l *Ledger) Owners(ctx context.Context) ([]ledger.Owner, error) {
	all, errs := ask(l.stores, func(s *store) ([]ledger.Owner, error) { return s.Owners(ctx) })
	if err := first(errs); err != nil {
		return nil, fmt.Errorf("who is alive, only all stores together can say: %w", err)
	}
	out := slices.Concat(all...)
	slices.SortFunc(out, func(a, b ledger.Owner) int { return cmp.Or(cmp.Compare(a.ID, b.ID), b.Until.Compare(a.Until)) })
	return slices.CompactFunc(out, func(a, b ledger.Owner) bool { return a.ID == b.ID }), nil
}

// unavailable says that a store is away, as opposed to a question that no store answers.
func unavailable(err error) bool {
	return errors.Is(err, ledger.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}
