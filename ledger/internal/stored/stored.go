// Package stored is what the drivers of a ledger have in common: which writes have a shape at all, and how their parts are laid out.
package stored

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// Micros is a stored time; 0 stands for the zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// FromMicros is the reverse of Micros.
func FromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// digestSize is enough that no two keys will ever share a digest; the keys themselves carry a hash of this size.
const digestSize = 16

// Digest stands for a key in the indexes of claims and derived keys.
func Digest(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:digestSize:digestSize]
}

// DigestOf is nil when there is no key.
func DigestOf(key string) []byte {
	if key == "" {
		return nil
	}
	return Digest(key)
}

// Check refuses a write that has no shape: it is its caller's fault, and nothing that a store could tell.
func Check(w *ledger.Write) error {
	switch {
	case w.Append:
		if w.Insert != nil || w.ID == "" {
			return errors.New("ledger: an append needs the id of an intent and inserts none")
		}
	case w.Lease:
		if w.Insert != nil || w.ID == "" || w.Version < 1 || w.Status.Version != w.Version || w.Status.LeaseOwner == "" || w.Settle ||
			len(w.Events) > 0 || len(w.Bodies) > 0 || len(w.Cached) > 0 {
			return errors.New("ledger: a lease needs an id, its version and an owner, and writes nothing else")
		}
		return nil
	case w.Insert != nil && (w.Insert.ID == "" || w.ID != "" || w.Status.Version != 1):
		return fmt.Errorf("ledger: an insert needs an id of its own and status version 1, has version %d", w.Status.Version)
	case w.Insert == nil && (w.ID == "" || w.Version < 1 || w.Status.Version != w.Version+1):
		return fmt.Errorf("ledger: a change needs an id and goes from a version to the next, not %d to %d",
			w.Version, w.Status.Version)
	case w.Settle != (w.Status.State == ledger.Settled):
		return fmt.Errorf("ledger: state %s and settle=%t contradict each other", w.Status.State, w.Settle)
	}
	for i := range w.Bodies {
		if k := w.Bodies[i].Kind; k < ledger.BodyRequest || k > 7 {
			return fmt.Errorf("ledger: no place for a body of kind %d", k)
		}
	}
	if err := checkCached(w); err != nil {
		return err
	}
	return checkBeside(w)
}

func checkBeside(w *ledger.Write) error {
	b := w.Beside
	if b == nil {
		return nil
	}
	if w.Append || b.Insert == nil || b.Append || b.Settle || b.ClaimKey != "" || b.DerivedKey != "" || b.Beside != nil {
		return errors.New("ledger: beside a write goes one insertion without a key, unsettled and alone")
	}
	return Check(b)
}

// checkCached refuses rows that no answer goes with, or that would fit nowhere.
func checkCached(w *ledger.Write) error {
	if len(w.Cached) == 0 {
		return nil
	}
	if !w.Append && (!w.Settle || w.Status.Outcome != ledger.OutcomeSuccess || w.Answer == nil || !w.Answer.HasBody || !slices.ContainsFunc(w.Bodies, func(b ledger.Body) bool { return b.Kind == ledger.BodyAnswer })) {
		return errors.New("ledger: a row of the index over answers goes with the settling that brings the answer of a success, or is appended to it")
	}
	for i := range w.Cached {
		c := &w.Cached[i]
		if (c.Kind != ledger.CachedTemplate && c.Kind != ledger.CachedSemantic) || c.ExpiresAt.IsZero() || len(c.Data) > ledger.CachedMax {
			return fmt.Errorf("ledger: a row of the index over answers needs a kind, an end and at most %d bytes, has %s, %s and %d",
				ledger.CachedMax, c.Kind, c.ExpiresAt, len(c.Data))
		}
	}
	return nil
}
