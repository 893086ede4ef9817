package spread

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// placesMax bounds each of the two halves of what is known of ids.
const placesMax = 1 << 15

// places knows in which store an intent is. It forgets what was not asked for lately: half of it at a time.
type places struct{ young, old map[string]*store }

func (p *places) get(id string) *store {
	if s := p.young[id]; s != nil {
		return s
	}
	s := p.old[id]
	if s != nil {
		p.put(id, s)
	}
	return s
}

func (p *places) put(id string, s *store) {
	if p.young == nil || len(p.young) >= placesMax {
		p.old, p.young = p.young, make(map[string]*store, 64)
	}
	p.young[id] = s
}

// known is the store that an intent is known to be in, nil where that is not known.
func (l *Ledger) known(id string) *store {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.places.get(id)
}

// seen notes where records were read.
func (l *Ledger) seen(s *store, records ...*ledger.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range records {
		if l.places.get(r.ID) != s {
			l.places.put(r.ID, s)
		}
	}
}

// find is the store of an intent, asked for where it is not known. That no store has it, only all of them together can say.
// Errors: ErrNotFound, ErrUnavailable, ErrClosed.
func (l *Ledger) find(ctx context.Context, id string) (*store, error) {
	if s := l.known(id); s != nil {
		return s, nil
	}
	s, _, err := l.look(ctx, id)
	return s, err
}

// look asks every store for an intent, and waits for no other once one has it; nor does it cut their reads off, which costs connections.
func (l *Ledger) look(ctx context.Context, id string) (*store, *ledger.Record, error) {
	type answer struct {
		from *store
		r    *ledger.Record
		err  error
	}
	answers := make(chan answer, len(l.stores))
	for _, s := range l.stores {
		go func() {
			r, err := s.Get(ctx, id)
			answers <- answer{s, r, err}
		}()
	}
	var away error
	for range l.stores {
		a := <-answers
		switch {
		case a.err == nil:
			l.seen(a.from, a.r)
			return a.from, a.r, nil
		case !errors.Is(a.err, ledger.ErrNotFound):
			away = a.err
		}
	}
	if away != nil && !mutant.On("away-is-not-found") {
		return nil, nil, fmt.Errorf("a store that may hold intent %s cannot be asked: %w", id, away)
	}
	return nil, nil, fmt.Errorf("intent %s: %w", id, ledger.ErrNotFound)
}

// lookWait bounds the search for the store of a write.
const lookWait = 5 * time.Second

// lookup is the search for the store of an intent, with the writes that wait for it in their order.
type lookup struct{ waiting []waiting }

// waiting is a write, and the channel that its caller waits on.
type waiting struct {
	w    *ledger.Write
	done chan struct{}
}

func (w waiting) refuse(err error) {
	w.w.Err = err
	close(w.done)
}

// queue has a write wait for the store of its intent; l.mu is held.
func (l *Ledger) queue(w *ledger.Write) <-chan struct{} {
	wait := waiting{w, make(chan struct{})}
	if l.closed {
		wait.refuse(ledger.ErrClosed)
		return wait.done
	}
	k := l.lookups[w.ID]
	if k == nil {
		k = &lookup{}
		l.lookups[w.ID] = k
		l.work.Add(1)
		go func() {
			defer l.work.Done()
			l.resolve(w.ID, k)
		}()
	}
	k.waiting = append(k.waiting, wait)
	return wait.done
}

// resolve finds the store of an intent, and gives it what has waited. What no store has, each of them refuses as it should be refused.
func (l *Ledger) resolve(id string, k *lookup) {
	ctx, stop := context.WithTimeout(context.Background(), lookWait)
	defer stop()
	s, _, err := l.look(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) {
		s, err = l.home(id), nil
	}
	if err != nil && !errors.Is(err, ledger.ErrClosed) && !errors.Is(err, ledger.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock() // whatever is queued for this intent from now on comes behind these
	delete(l.lookups, id)
	for _, wait := range k.waiting {
		if err != nil {
			wait.refuse(err)
			continue
		}
		l.follow(l.put(s, wait.w), wait.done)
	}
}

// follow closes one channel when the other is closed.
func (l *Ledger) follow(inner <-chan struct{}, done chan struct{}) {
	l.work.Add(1)
	go func() {
		defer l.work.Done()
		<-inner
		close(done)
	}()
}
