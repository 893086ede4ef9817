package sqlite

import (
	"errors"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

var (
	// errRefused marks a write that must leave nothing behind although some of it was applied already: the
	// transaction is undone and the batch runs again without it.
	errRefused = errors.New("sqlite: write refused after a part of it was applied")
	// errTaken marks an insertion at a place where another intent stands: the transaction is undone and the batch
	// runs again with it one place further on.
	errTaken = errors.New("sqlite: too many intents have ids of one millisecond and one count; draw another id")
)

// apply runs one item inside the transaction. The check of a write comes first and, when it fails, alone, so
// that a refusal needs no savepoint; it is left in it.refused.
func (s *session) apply(it *item) error {
	err := s.applyOne(it)
	if err != nil || it.refused != nil || it.beside == nil {
		return err
	}
	return s.applyOne(it.beside)
}

func (s *session) applyOne(it *item) error {
	it.refused = nil
	switch {
	case it.fn != nil:
		if err := s.flush(); err != nil {
			return err
		}
		return it.fn(s)
	case it.w.Append:
		if err := s.flush(); err != nil {
			return err
		}
		return s.append(it)
	case it.w.Insert != nil:
		return s.insert(it)
	default:
		return s.change(it)
	}
}

func (s *session) insert(it *item) error {
	w, seq := it.w, it.place+it.shift
	if w.ClaimKey != "" {
		if ok, err := s.claim(it, seq); err != nil || !ok {
			return err
		}
	}
	s.heads = append(s.heads, head{it, seq})
	if w.DerivedKey != "" {
		b := binder{st: s.putDerived}
		b.blob(it.derived)
		b.number(seq)
		b.number(stored.Micros(w.DerivedUntil))
		if err := b.exec(); err != nil {
			return err
		}
	}
	at := place{seq: seq, claimed: w.ClaimKey != "", batch: s.batch}
	s.recent.add(w.Insert.ID, at)
	if w.Settle {
		return s.settle(it, at, nil)
	}
	return s.bodies(it, seq)
}

// claim takes w.ClaimKey for the intent seq unless a live claim holds it.
func (s *session) claim(it *item, seq int64) (bool, error) {
	w := it.w
	b := binder{st: s.takeClaim}
	b.blob(it.claim)
	b.number(seq)
	if err := b.exec(); err != nil {
		return false, err
	}
	if s.conn.Changes() > 0 {
		return true, nil
	}
	if err := s.flush(); err != nil {
		return false, err
	}
	holder, live, err := s.holder(it.claim)
	if err != nil {
		return false, err
	}
	if live && !mutant.On("check-then-set") {
		it.refused, w.Holder = ledger.ErrClaimed, holder
		return false, nil
	}
	return true, run(s.moveClaim.Stmt, it.claim, seq)
}

// holder reads whose the claim on key is, and whether it is live: held by an unsettled intent, or kept until a
// time that has not come.
func (s *session) holder(key []byte) (id string, live bool, err error) {
	err = look(s.readClaim, func(st *sqlite3.Stmt) {
		id = st.ColumnText(0)
		live = id != "" && (st.ColumnType(1) == sqlite3.NULL || st.ColumnInt64(1) > stored.Micros(s.now))
	}, key)
	return id, live, err
}

// look runs a kept query and hands its first row to read, if there is one.
func look(st *statement, read func(*sqlite3.Stmt), args ...any) (err error) {
	defer func() { err = errors.Join(err, st.Reset()) }()
	if err := bindAll(st.Stmt, args...); err != nil {
		return err
	}
	if st.Step() {
		read(st.Stmt)
	}
	return st.Err()
}

func (s *session) change(it *item) error {
	w := it.w
	at, err := s.find(w.ID)
	if err != nil {
		return err
	}
	if at.seq == 0 {
		it.refused = ledger.ErrStale
		return nil
	}
	if at.batch == s.batch { // it may not be in the file yet
		if err := s.flushHeads(); err != nil {
			return err
		}
	}
	if w.Lease {
		return s.hand(it, at)
	}
	if w.Settle {
		if ok, err := s.leave(it, at); err != nil || !ok {
			return err
		}
		return s.settle(it, at, it.events)
	}
	b := binder{st: s.moveOpen}
	b.status(&w.Status)
	if ok, err := s.compare(&b, it, at); err != nil || !ok {
		return err
	}
	if err := s.events(it, at.seq, w.Status.Version, 0); err != nil {
		return err
	}
	return s.bodies(it, at.seq)
}

// hand gives an intent that nobody has to an owner.
func (s *session) hand(it *item, at place) error {
	b := binder{st: s.lease}
	b.text(it.w.Status.LeaseOwner)
	b.int(stored.Micros(it.w.Status.LeaseUntil))
	b.int(stored.Micros(it.w.Status.ReadyAt))
	_, err := s.compare(&b, it, at)
	return err
}

// leave takes an intent out of the unsettled ones.
func (s *session) leave(it *item, at place) (bool, error) {
	return s.compare(&binder{st: s.dropOpen}, it, at)
}

// compare binds which intent is meant, and the version that it must have, behind what b has, and runs it: compare
// and set are one statement. The write is refused, with nothing changed, when the intent is settled or has moved on.
func (s *session) compare(b *binder, it *item, at place) (bool, error) {
	version := it.w.Version
	if mutant.On("stale-write") {
		_, present, err := s.locate(it.w.ID)
		if err != nil {
			return false, err
		}
		version = present
	}
	b.number(at.seq)
	b.number(version)
	if err := b.exec(); err != nil {
		return false, err
	}
	if s.conn.Changes() == 0 {
		it.refused = ledger.ErrStale
		return false, nil
	}
	return true, nil
}

// find says where an intent stands, settled or not.
func (s *session) find(id string) (at place, err error) {
	if at, ok := s.recent.find(id); ok {
		return at, nil
	}
	err = look(s.findIntent, func(st *sqlite3.Stmt) {
		at = place{seq: st.ColumnInt64(0), claimed: st.ColumnBool(1)}
	}, byID(id)...)
	return at, err
}

// locate finds an intent, settled or not; seq is 0 when there is none.
func (s *session) locate(id string) (seq, version int64, err error) {
	err = look(s.findAny, func(st *sqlite3.Stmt) { seq, version = st.ColumnInt64(0), st.ColumnInt64(1) }, byID(id)...)
	return seq, version, err
}

// append adds to an intent's history and bodies, in whatever state it is.
func (s *session) append(it *item) error {
	at, err := s.find(it.w.ID)
	if err != nil {
		return err
	}
	seq := at.seq
	if seq == 0 {
		it.refused = ledger.ErrNotFound
		return nil
	}
	if ok, err := s.cacheKept(it, seq); err != nil || !ok {
		return err
	}
	if it.derived != nil {
		b := binder{st: s.dropDerived}
		b.blob(it.derived)
		b.number(seq)
		if err := b.exec(); err != nil {
			return err
		}
	}
	if it.w.Shelve {
		b := binder{st: s.shelve}
		b.text(it.w.Status.Lane)
		b.number(seq)
		b.text(it.w.Status.LeaseOwner)
		if err := b.exec(); err != nil {
			return err
		}
	}
	if it.events != nil {
		_, version, err := s.locate(it.w.ID)
		if err != nil {
			return err
		}
		n, err := s.notes(seq, version)
		if err != nil {
			return err
		}
		if err := s.events(it, seq, version, n+1); err != nil {
			return err
		}
	}
	if len(it.bodies) > 0 {
		// The sweep may have been here already; it has to come again.
		if err := run(s.keepLate.Stmt, seq, stored.Micros(s.now)); err != nil {
			return err
		}
		if s.conn.Changes() > 0 {
			if err := s.listDue(dueBodies, stored.Micros(s.now), []int64{seq}); err != nil {
				return err
			}
		}
	}
	return s.bodies(it, seq)
}

// notes is how many appends there were while version stood.
func (s *session) notes(seq, version int64) (n int64, err error) {
	err = look(s.lastNote, func(st *sqlite3.Stmt) { n = st.ColumnInt64(0) }, seq, version)
	return n, err
}

func (s *session) events(it *item, seq, version, n int64) error {
	if it.events == nil {
		return nil
	}
	b := binder{st: s.putEvent}
	b.number(seq)
	b.number(version)
	b.number(n)
	b.raw(it.events)
	return b.exec()
}

// slot is the key of a body: room for eight kinds beside each other.
func slot(seq int64, kind ledger.BodyKind) int64 { return seq<<3 | int64(kind&7) }

// id is the intent's that a write is about.
func (it *item) id() string {
	if it.w.Insert != nil {
		return it.w.Insert.ID
	}
	return it.w.ID
}

func (s *session) bodies(it *item, seq int64) error {
	for i := range it.bodies {
		p, b := &it.bodies[i], binder{st: s.putBody}
		if p.Kind == ledger.BodyAnswer {
			s.recent.answer(it.id())
		}
		b.int(slot(seq, p.Kind))
		b.body(p)
		if err := b.exec(); err != nil {
			return err
		}
	}
	return nil
}
