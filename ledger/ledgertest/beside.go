package ledgertest

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// beside puts an insertion beside a write.
func beside(w, with *ledger.Write) *ledger.Write {
	w.Beside = with
	return w
}

// besideIsWholeOrNot: an insertion beside a write is there when the write is, once, and not where the write is refused.
func besideIsWholeOrNot(t *testing.T, f *fixture) {
	first := f.created("key")
	with := f.created("")
	with.Bodies = []ledger.Body{{Kind: ledger.BodyRequest, ContentType: "text/plain", Data: []byte("hello")}}
	f.commit(beside(first, with))
	f.same("beside an insertion", &ledger.Record{Intent: *with.Insert, Status: with.Status}, f.get(with.Insert.ID))
	if b, err := f.Body(f.ctx, with.Insert.ID, ledger.BodyRequest); err != nil || string(b.Data) != "hello" {
		t.Errorf("Body = %v, %v", b, err)
	}
	if h, err := f.History(f.ctx, with.Insert.ID); err != nil || len(h) != 1 {
		t.Errorf("History = %v, %v", h, err)
	}
	refused := map[string]*ledger.Write{
		"a claimed key": f.created("key"),
		"a stale change": func() *ledger.Write {
			w := f.next(first, ledger.Dispatched)
			w.Version, w.Status.Version = 7, 8
			return w
		}(),
	}
	for what, w := range refused {
		never := f.created("")
		if err := ledger.Commit(f.ctx, f.Ledger, beside(w, never)); err == nil {
			t.Errorf("%s: accepted", what)
		}
		if _, err := f.Get(f.ctx, never.Insert.ID); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%s: what was beside it is there: %v", what, err)
		}
	}
	settled, told := f.settled(first, time.Hour), f.created("")
	f.commit(beside(settled, told))
	if got := f.get(told.Insert.ID); got.State != ledger.Created {
		t.Errorf("beside a settling: %+v", got.Status)
	}
	if err := ledger.Commit(f.ctx, f.Ledger, settled); !errors.Is(err, ledger.ErrStale) {
		t.Errorf("the same settling again: %v", err)
	}
	f.commit(f.next(told, ledger.Dispatched))
}

// besideStandsAtItsOwnPlace: an insertion beside a write that cannot be applied takes the write with it, and no neighbour;
// one whose id counts like another's finds a place all the same.
func besideStandsAtItsOwnPlace(t *testing.T, f *fixture) {
	there := f.commit(f.created(""))
	w, neighbour := f.created("mine"), f.created("neighbour")
	with := f.created("")
	with.Insert.ID = there.Insert.ID
	done := []<-chan struct{}{f.Enqueue(neighbour), f.Enqueue(beside(w, with))}
	for _, d := range done {
		<-d
	}
	if neighbour.Err != nil || !errors.Is(w.Err, ledger.ErrStale) {
		t.Errorf("neighbour %v; a write beside which an id is used again: %v", neighbour.Err, w.Err)
	}
	if _, err := f.Get(f.ctx, w.Insert.ID); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("a part of it is there: %v", err)
	}
	twin := f.created("")
	end := len(there.Insert.ID) - 1
	twin.Insert.ID = there.Insert.ID[:end] + map[bool]string{true: "0", false: "1"}[there.Insert.ID[end] != '0']
	f.commit(beside(f.created("again"), twin))
	f.get(twin.Insert.ID)
}
