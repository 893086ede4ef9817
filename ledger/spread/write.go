package spread

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-ai/holdfast/ledger"
)

// over is the channel of writes whose outcome is known at once.
var over = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Enqueue implements ledger.Ledger. A new intent goes to the store of its key, a change to the store of its intent; what stands beside a
// write goes with it. Order is kept for each intent, as the contract has it.
func (l *Ledger) Enqueue(w *ledger.Write) <-chan struct{} {
	var home *store
	if i := w.Insert; i != nil {
		home = l.home(cmp.Or(w.ClaimKey, w.DerivedKey, i.Key, i.ID))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if home != nil {
		return l.put(home, w)
	}
	if l.lookups[w.ID] == nil {
		if s := l.places.get(w.ID); s != nil {
			return l.put(s, w)
		}
	}
	return l.queue(w)
}

// put queues a write in a store; l.mu is held.
func (l *Ledger) put(s *store, w *ledger.Write) <-chan struct{} {
	if owner := w.Status.LeaseOwner; owner != "" && !w.Append && !w.Settle && s.late(owner, l.Now()) {
		l.beatAgain(s, owner)
		w.Err = fmt.Errorf("%w: the store that keeps this intent has no current heartbeat of %s; it is being renewed", ledger.ErrUnavailable, owner)
		return over
	}
	for _, id := range inserted(w) {
		if other := l.places.get(id); other != nil && other != s && !l.closed {
			return l.putTwice(s, other, id, w)
		}
	}
	for _, id := range inserted(w) {
		l.places.put(id, s)
	}
	return s.Enqueue(w)
}

// inserted are the ids that a write brings.
func inserted(w *ledger.Write) (ids []string) {
	for _, w := range []*ledger.Write{w, w.Beside} {
		if w != nil && w.Insert != nil {
			ids = append(ids, w.Insert.ID)
		}
	}
	return ids
}

// putTwice is put for an id that was seen in another store: an intent has one place, whatever its key.
func (l *Ledger) putTwice(s, other *store, id string, w *ledger.Write) <-chan struct{} {
	done := make(chan struct{})
	l.work.Add(1)
	go func() {
		defer l.work.Done()
		defer close(done)
		ctx, stop := context.WithTimeout(context.Background(), lookWait)
		defer stop()
		switch _, err := other.Get(ctx, id); {
		case err == nil:
			w.Err = fmt.Errorf("intent %s is there under another key: %w", id, ledger.ErrStale)
		case errors.Is(err, ledger.ErrNotFound): // its insertion was refused there
			<-s.Enqueue(w)
		default:
			w.Err = err
		}
	}()
	return done
}
