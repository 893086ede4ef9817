package postgres

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

// wave is what can be done at once: of one intent, and of one claim, it has one write. Waves follow each other inside the transaction.
type wave [verbs][]*item

// plan puts items into waves, in their order.
func plan(items []*item) []wave {
	waves := make([]wave, 1, 4)
	last := make(map[key]int, 2*len(items)) // the wave of the last write to an intent or a claim, from 1
	leaders := make(map[key]*item)
	for n, it := range items {
		it.n, it.applied, it.leader, it.wave = int32(n), false, nil, 0
		it.wave = it.place(last, leaders)
		ends := it.wave
		if it.w.Insert != nil && it.w.Settle {
			ends++
		}
		for len(waves) <= ends {
			waves = append(waves, wave{})
		}
		if it.leader == nil {
			v := it.verb()
			waves[it.wave][v] = append(waves[it.wave][v], it)
			if ends > it.wave {
				waves[ends][settleIntents] = append(waves[ends][settleIntents], it)
			}
		}
		for _, k := range it.keys {
			if k.kind != 0 && (k.kind == keyIntent || it.movesClaim()) {
				last[k] = ends + 1
			}
		}
	}
	return waves
}

// place is the first wave in which it can be done.
func (it *item) place(last map[key]int, leaders map[key]*item) int {
	at := max(last[it.keys[0]], last[it.keys[2]])
	if !it.movesClaim() {
		return at
	}
	k := it.keys[1]
	if leader := leaders[k]; leader != nil && it.w.Insert != nil && last[k] == leader.wave+1 && at <= leader.wave {
		it.leader = leader
		return leader.wave
	}
	at = max(at, last[k])
	delete(leaders, k)
	if it.w.Insert != nil && !it.w.Settle {
		leaders[k] = it
	}
	return at
}

// movesClaim says that the write takes, keeps or frees the claim that it names.
func (it *item) movesClaim() bool { return it.claim != nil && (it.w.Insert != nil || it.w.Settle) }

func (it *item) verb() verb {
	switch w := it.w; {
	case w.Append:
		return appendToIntents
	case w.Insert != nil:
		return insertIntents
	case w.Lease:
		return leaseIntents
	case w.Settle:
		return settleIntents
	}
	return changeIntents
}

// encoder writes the parameters of statements. Its memory is used again from one to the next.
type encoder struct {
	types                         map[string]uint32 // object ids of our types
	input, bodies, cached, beside rows
	has                           parts
	locks                         rows // ids of the results that are locked first
}

// encode writes the rows of a verb in the order of their ids: rows that come sorted are appended where others split pages, and transactions
// that lock the same rows do so in one order.
func (e *encoder) encode(v verb, items []*item) {
	slices.SortFunc(items, func(a, b *item) int { return bytes.Compare(a.id[:], b.id[:]) })
	e.has = 0
	e.input.reset(e.types[inputType[v]])
	e.bodies.reset(e.types["body_row"])
	e.cached.reset(e.types["cached_row"])
	e.beside.reset(e.types["insert_row"])
	e.locks.reset(oidUUID)
	for _, it := range items {
		e.input.begin()
		e.input.number4(int(it.n))
		e.input.id(it.id)
		e.row(v, it)
		e.input.end()
		if it.w.Insert != nil && v == settleIntents {
			continue // the insertion brought the rest
		}
		e.extras(it)
	}
}

func (e *encoder) row(v verb, it *item) {
	w, r := it.w, &e.input
	switch v {
	case insertIntents:
		e.insert(r, it)
	case changeIntents:
		r.number(w.Version)
		r.status(&w.Status)
		r.bytes(oidJSON, it.events)
	case settleIntents:
		e.settle(r, it)
	case appendToIntents:
		e.append(r, it)
	case leaseIntents:
		r.number(w.Version)
		r.text(w.Status.LeaseOwner)
		r.time(w.Status.LeaseUntil)
		r.time(w.Status.ReadyAt)
	}
}

func (e *encoder) insert(r *rows, it *item) {
	w := it.w
	r.intent(w.Insert, w.ClaimKey)
	status := w.Status
	if w.Settle {
		status.Version = 0 // so that nothing but its own settling, in the next wave, finds it
	}
	r.status(&status)
	r.bytes(oidJSON, it.events)
	r.bytes(oidBytea, it.claim)
	r.bytes(oidBytea, it.derived)
	if it.derived == nil {
		r.null(oidInt8)
	} else {
		r.number(stored.Micros(w.DerivedUntil))
		e.has |= withDerived
	}
	if it.claim != nil {
		e.has |= withClaims
	}
}

func (e *encoder) settle(r *rows, it *item) {
	w, events := it.w, it.events
	if w.Insert != nil {
		r.number(0)
		events = nil // they stand in the head
	} else {
		r.number(w.Version)
	}
	r.status(&w.Status)
	r.bytes(oidJSON, events)
	r.time(w.Status.UpdatedAt)
	r.bytes(oidBytea, it.claim)
	if w.Claim == ledger.ClaimKeep {
		r.time(w.ClaimUntil)
	} else {
		r.null(oidInt8)
	}
	r.answer(w.Answer, it.header)
	r.body(it.inline)
	r.bool(it.inline != nil && w.Version > 1) // of an answer that an earlier change may have left in a row of its own
}

func (e *encoder) append(r *rows, it *item) {
	w := it.w
	r.bytes(oidJSON, it.events)
	r.bytes(oidBytea, it.derived)
	if w.Shelve {
		r.text(w.Status.Lane)
		r.text(w.Status.LeaseOwner)
	} else {
		r.null(oidText)
		r.null(oidText)
	}
	r.bool(len(w.Cached) > 0)
	r.bool(len(it.bodies) > 0)
	if len(w.Cached) > 0 || len(it.bodies) > 0 {
		e.locks.element(it.id)
	}
}

// extras are the rows beside the one of the write itself.
func (e *encoder) extras(it *item) {
	e.bodiesOf(it, it.n)
	for i := range it.w.Cached {
		c := &it.w.Cached[i]
		e.has |= withCached
		e.cached.begin()
		e.cached.number4(int(it.n))
		e.cached.id(it.id)
		e.cached.int2(uint8(c.Kind))
		e.cached.bytes(oidBytea, c.Partition[:])
		e.cached.bytes(oidBytea, append([]byte{}, c.Data...)) // nothing is not NULL
		e.cached.number(stored.Micros(c.ExpiresAt))
		e.cached.end()
	}
	if b := it.beside; b != nil {
		has := e.has
		e.beside.begin()
		e.beside.number4(int(it.n))
		e.beside.id(b.id)
		e.insert(&e.beside, b)
		e.beside.end()
		e.has = has | withBeside
		e.bodiesOf(b, it.n)
	}
}

func (e *encoder) bodiesOf(it *item, n int32) {
	for i := range it.bodies {
		e.has |= withBodies
		e.bodies.begin()
		e.bodies.number4(int(n))
		e.bodies.id(it.id)
		e.bodies.int2(uint8(it.bodies[i].Kind))
		e.bodies.body(&it.bodies[i])
		e.bodies.end()
	}
}

// element adds one id to an array of ids.
func (r *rows) element(id uuid) {
	r.n++
	r.buf = binary.BigEndian.AppendUint32(r.buf, uint32(len(id)))
	r.buf = append(r.buf, id[:]...)
}
