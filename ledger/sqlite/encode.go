package sqlite

import (
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

// inlineMax is the size up to which an answer stands in the row of its result, which then still fits on a page
// together with its events.
const inlineMax = 3 << 10

// item is one entry of the writer's queue: a Write made ready for binding in its caller's goroutine, or a
// piece of upkeep that shares the transaction.
type item struct {
	w      *ledger.Write
	events []byte
	header []byte
	bodies []stored.Packed
	inline *stored.Packed // the answer of a settling, when it is small enough for the result's row

	claim   []byte // digest of the key to claim, or that is held
	derived []byte // digest of the derived key to index, or to take out of the index

	fn  func(*session) error // instead of w; it may run twice, the first time in a transaction that is undone
	err error                // of fn

	beside *item // an insertion that goes with this write
	of     *item // of such an insertion: the write

	place int64 // of an insertion: where its rows go
	shift int64 // how many places further on, because others stand there

	refused error // verdict inside the running transaction, told when it is durable
	size    int64
}

// encode checks w's shape and does the work that needs no connection.
func encode(w *ledger.Write) (*item, error) {
	if err := stored.Check(w); err != nil {
		return nil, err
	}
	return encodeChecked(w)
}

func encodeChecked(w *ledger.Write) (*item, error) {
	it := &item{w: w, size: 256}
	if w.Lease {
		return it, nil
	}
	var err error
	if it.events, err = stored.AppendEvents(nil, w.Events); err != nil {
		return nil, err
	}
	if w.Answer != nil && len(w.Answer.Header) > 0 {
		it.header = stored.AppendHeader(nil, w.Answer.Header)
	}
	it.size = int64(len(it.events)+len(it.header)) + 1024
	for i := range w.Bodies {
		p := stored.Pack(&w.Bodies[i])
		it.size += int64(len(p.Data))
		if w.Settle && p.Kind == ledger.BodyAnswer && len(p.Data) <= inlineMax {
			it.inline = &p
		} else {
			it.bodies = append(it.bodies, p)
		}
	}
	for i := range w.Cached {
		it.size += int64(len(w.Cached[i].Data)) + 64
	}
	it.digestKeys()
	if w.Beside == nil {
		return it, nil
	}
	if it.beside, err = encodeChecked(w.Beside); err != nil {
		return nil, err
	}
	it.beside.of = it
	it.size += it.beside.size
	return it, nil
}

func (it *item) digestKeys() {
	w := it.w
	switch {
	case w.Insert != nil:
		it.claim, it.derived, it.place = stored.DigestOf(w.ClaimKey), stored.DigestOf(w.DerivedKey), placeOf(w.Insert.ID)
	case w.Append:
		it.derived = stored.DigestOf(w.Unindex)
	default:
		it.claim = stored.DigestOf(w.HeldKey)
	}
}
