package sqlite

import (
	"errors"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// errRefused marks a write that must leave nothing behind although some of it was applied already: the
// transaction is undone and the batch runs again without it.
var errRefused = errors.New("sqlite: write refused after a part of it was applied")

// apply runs one item inside the transaction. The check of a write comes first and, when it fails, alone, so
// that a refusal needs no savepoint; it is left in it.refused.
func (s *session) apply(it *item) error {
	it.refused = nil
	switch {
	case it.fn != nil:
		return it.fn(s)
	case it.w.Append:
		return s.append(it)
	case it.w.Insert != nil:
		return s.insert(it)
	default:
		return s.change(it)
	}
}

func (s *session) insert(it *item) error {
	w, seq := it.w, s.next
	s.next++
	if w.ClaimKey != "" {
		if ok, err := s.claim(it, seq); err != nil || !ok {
			return err
		}
	}
	if err := s.insertHead(it, seq); err != nil {
		return err
	}
	if s.conn.Changes() == 0 {
		// The id exists: the same write was queued before and was durable after all.
		it.refused = ledger.ErrStale
		if w.ClaimKey != "" {
			return errRefused
		}
		return nil
	}
	if w.DerivedKey != "" {
		if err := run(s.putDerived.Stmt, w.DerivedKey, seq, micros(w.DerivedUntil)); err != nil {
			return err
		}
	}
	if w.Settle {
		return s.settle(it, place{seq: seq, claimed: w.ClaimKey != ""}, nil)
	}
	b := binder{st: s.putOpen}
	b.unique(w.Insert.ID)
	b.int(seq)
	b.bool(w.ClaimKey != "")
	b.status(&w.Status)
	if err := b.exec(); err != nil {
		return err
	}
	return s.bodies(it, seq)
}

// claim takes w.ClaimKey for the intent seq unless a live claim holds it.
func (s *session) claim(it *item, seq int64) (bool, error) {
	w := it.w
	b := binder{st: s.takeClaim}
	b.unique(w.ClaimKey)
	b.number(seq)
	if err := b.exec(); err != nil {
		return false, err
	}
	if s.conn.Changes() > 0 {
		return true, nil
	}
	holder, live, err := s.holder(w.ClaimKey)
	if err != nil {
		return false, err
	}
	if live && !mutant.On("check-then-set") {
		it.refused, w.Holder = ledger.ErrClaimed, holder
		return false, nil
	}
	return true, run(s.moveClaim.Stmt, w.ClaimKey, seq)
}

// holder reads whose the claim on key is, and whether it is live: held by an unsettled intent, or kept until a
// time that has not come.
func (s *session) holder(key string) (id string, live bool, err error) {
	defer func() { err = errors.Join(err, s.readClaim.Reset()) }()
	if err := s.readClaim.BindText(1, key); err != nil {
		return "", false, err
	}
	if s.readClaim.Step() {
		id = s.readClaim.ColumnText(0)
		live = id != "" && (s.readClaim.ColumnType(1) == sqlite3.NULL || s.readClaim.ColumnInt64(1) > micros(s.now))
	}
	return id, live, s.readClaim.Err()
}

func (s *session) insertHead(it *item, seq int64) error {
	b, i := binder{st: s.putIntent}, it.w.Insert
	b.number(seq)
	b.unique(i.ID)
	b.number(micros(i.CreatedAt))
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
	b.raw(it.events)
	return b.exec()
}

// place is where an unsettled intent stands in the file.
type place struct {
	seq     int64 // 0: no such intent
	claimed bool
}

func (s *session) change(it *item) error {
	w := it.w
	at, err := s.find(w)
	if err != nil {
		return err
	}
	if at.seq == 0 {
		it.refused = ledger.ErrStale
		return nil
	}
	if w.Settle {
		drop := binder{st: s.dropOpen}
		drop.unique(w.ID)
		if err := drop.exec(); err != nil {
			return err
		}
		return s.settle(it, at, it.events)
	}
	b := binder{st: s.moveOpen}
	b.status(&w.Status)
	b.unique(w.ID)
	if err := b.exec(); err != nil {
		return err
	}
	if err := s.events(it, at.seq, w.Status.Version, 0); err != nil {
		return err
	}
	return s.bodies(it, at.seq)
}

// find is the compare of the compare-and-set: w's intent while it is unsettled and has w's version. The set
// follows in the same transaction, and nobody else writes.
func (s *session) find(w *ledger.Write) (at place, err error) {
	st, version := s.findOpen, w.Version
	defer func() { err = errors.Join(err, st.Reset()) }()
	if mutant.On("stale-write") {
		if version, err = s.presentVersion(w.ID); err != nil {
			return at, err
		}
	}
	b := binder{st: st}
	b.unique(w.ID)
	b.number(version)
	if b.err != nil {
		return at, b.err
	}
	if st.Step() {
		at = place{st.ColumnInt64(0), st.ColumnBool(1)}
	}
	return at, st.Err()
}

// presentVersion is for the mutant that ignores versions.
func (s *session) presentVersion(id string) (int64, error) {
	_, version, err := s.locate(id)
	return version, err
}

// locate finds an intent, settled or not; seq is 0 when there is none.
func (s *session) locate(id string) (seq, version int64, err error) {
	defer func() { err = errors.Join(err, s.findAny.Reset()) }()
	if err := s.findAny.BindText(1, id); err != nil {
		return 0, 0, err
	}
	if s.findAny.Step() {
		seq, version = s.findAny.ColumnInt64(0), s.findAny.ColumnInt64(1)
	}
	return seq, version, s.findAny.Err()
}

// append adds to an intent's history and bodies, in whatever state it is.
func (s *session) append(it *item) error {
	seq, version, err := s.locate(it.w.ID)
	if err != nil {
		return err
	}
	if seq == 0 {
		it.refused = ledger.ErrNotFound
		return nil
	}
	if it.w.Unindex != "" {
		if err := run(s.dropDerived.Stmt, it.w.Unindex, seq); err != nil {
			return err
		}
	}
	if it.events != nil {
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
		if err := run(s.keepLate.Stmt, seq, micros(s.now)); err != nil {
			return err
		}
	}
	return s.bodies(it, seq)
}

// notes is how many appends there were while version stood.
func (s *session) notes(seq, version int64) (n int64, err error) {
	defer func() { err = errors.Join(err, s.lastNote.Reset()) }()
	if err := bindAll(s.lastNote.Stmt, seq, version); err != nil {
		return 0, err
	}
	if s.lastNote.Step() {
		n = s.lastNote.ColumnInt64(0)
	}
	return n, s.lastNote.Err()
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

// settle writes the end of an intent whose open row is gone.
func (s *session) settle(it *item, p place, events []byte) error {
	w := it.w
	at := w.Status.UpdatedAt
	if at.IsZero() {
		at = s.now
	}
	key, claimUntil, claimDue, bodyDue := w.HeldKey, int64(0), int64(0), micros(at)
	if key == "" {
		key = w.ClaimKey
	}
	switch {
	case key == "" || !p.claimed:
	case w.Claim == ledger.ClaimKeep && !w.ClaimUntil.IsZero():
		claimUntil = micros(w.ClaimUntil)
		claimDue, bodyDue = claimUntil, 0 // the sweep of the claim makes the bodies due
	default:
		if err := run(s.dropClaim.Stmt, key, p.seq); err != nil {
			return err
		}
	}
	b := binder{st: s.putResult}
	b.int(p.seq)
	b.status(&w.Status)
	b.int(micros(at))
	b.int(claimUntil)
	b.answer(w.Answer, it.header)
	b.int(claimDue)
	b.int(bodyDue)
	b.raw(events)
	if err := b.exec(); err != nil {
		return err
	}
	return s.bodies(it, p.seq)
}

// slot is the key of a body: room for eight kinds beside each other.
func slot(seq int64, kind ledger.BodyKind) int64 { return seq<<3 | int64(kind&7) }

func (s *session) bodies(it *item, seq int64) error {
	for i := range it.bodies {
		p, b := &it.bodies[i], binder{st: s.putBody}
		b.int(slot(seq, p.kind))
		b.text(p.contentType)
		b.bool(p.packed)
		b.number(int64(p.size))
		b.blob(p.data)
		if err := b.exec(); err != nil {
			return err
		}
	}
	return nil
}
