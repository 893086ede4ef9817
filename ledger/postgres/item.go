package postgres

import (
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

// inlineMax is the size up to which an answer stands in the row of its result, which then still fits beside others on a page.
const inlineMax = 1500

// item is a Write made ready for the wire in its caller's goroutine.
type item struct {
	w      *ledger.Write
	id     uuid
	events []byte
	header []byte
	bodies []stored.Packed
	inline *stored.Packed // the answer of a settling, when it is small enough for the result's row

	claim   []byte // digest of the key to claim, or that is held
	derived []byte // digest of the derived key to index, or to take out of the index
	beside  *item  // an insertion that goes with this write

	keys [3]key // what nobody else may be writing to meanwhile
	size int64
	done chan struct{}

	wave    int
	leader  *item // of a claim: another one of the same key, made at the same moment
	n       int32 // its number in the batch
	applied bool  // by the transaction that ran last
	verdict error
	holder  string
}

// key names an intent or a claim among the writes that wait. The zero value names nothing.
type key struct {
	kind byte
	b    [16]byte
}

const (
	keyIntent = 1
	keyClaim  = 2
)

var errNoUUID = errors.New("postgres: an id has to be a UUID")

// encode checks w's shape and does the work that needs no connection.
func encode(w *ledger.Write) (*item, error) {
	if err := stored.Check(w); err != nil {
		return nil, err
	}
	it, err := encodeChecked(w)
	if err != nil {
		return nil, err
	}
	it.keys[0] = key{keyIntent, it.id}
	if it.claim != nil {
		it.keys[1] = key{keyClaim, [16]byte(it.claim)}
	}
	if w.Beside == nil {
		return it, nil
	}
	if it.beside, err = encodeChecked(w.Beside); err != nil {
		return nil, err
	}
	it.size += it.beside.size
	it.keys[2] = key{keyIntent, it.beside.id}
	return it, nil
}

func encodeChecked(w *ledger.Write) (*item, error) {
	it := &item{w: w, done: make(chan struct{})}
	if err := it.parse(); err != nil {
		return nil, err
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
		if slices.ContainsFunc(w.Bodies[i+1:], func(b ledger.Body) bool { return b.Kind == w.Bodies[i].Kind }) {
			continue // the last of a kind is it
		}
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
	return it, nil
}

// parse reads the ids and keys of a write.
func (it *item) parse() (err error) {
	w, ok := it.w, false
	switch {
	case w.Insert != nil:
		if it.id, ok = parseID(w.Insert.ID); !ok {
			return fmt.Errorf("%w, not %q", errNoUUID, w.Insert.ID)
		}
		it.claim, it.derived = stored.DigestOf(w.ClaimKey), stored.DigestOf(w.DerivedKey)
		return nil
	case w.Append:
		it.derived, err = stored.DigestOf(w.Unindex), ledger.ErrNotFound
	default:
		it.claim, err = stored.DigestOf(w.HeldKey), ledger.ErrStale
	}
	if it.id, ok = parseID(w.ID); ok {
		return nil
	}
	return err
}

// tell writes the outcome where the waiter of it looks.
func (it *item) tell() {
	it.w.Err, it.w.Holder = it.verdict, ""
	if errors.Is(it.verdict, ledger.ErrClaimed) {
		it.w.Holder = it.holder
	}
	close(it.done)
}
