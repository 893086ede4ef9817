package shared

import (
	"context"
	"time"
)

// Driver is a store of small things that replicas share. It keeps and compares; what they mean is this package's to say. Each method is
// one atomic step of the store's, takes its time from the store's own clock, and returns as soon as ctx ends, whatever the store does.
// A step whose reply was lost may have been made, also long after. It is safe for concurrent use.
//
// What it keeps may be lost with the store: losing it loses no call and doubles none.
type Driver interface {
	// Changed returns the registers that were written since then, all there are for the zero time, and the store's time.
	Changed(ctx context.Context, since time.Time) ([]Register, time.Time, error)
	// Swap writes a register whose version is next's, 0 where there is none, and reports whether it did; what stands there then is
	// returned. A version is never given twice, also not after a register has expired. It expires after ttl; 0: never.
	Swap(ctx context.Context, next Register, ttl time.Duration) (Register, bool, error)
	// Lease sets what a holder has of a key's slots; see Claim.
	Lease(ctx context.Context, key, holder string, c Claim) (Grant, error)
	// Spend adds to a sum; see Spending.
	Spend(ctx context.Context, key string, s Spending) (total int64, ok bool, err error)
	// Close ends it. Calls in progress fail.
	Close()
}

// Register is a value under a key. Version 0 with no value: there is none.
type Register struct {
	Key     string
	Version uint64
	Value   []byte
}

// Claim says what a holder has of a key's slots and wants besides. It holds Hold whatever the limit says, since nobody can take back what is
// in use; of Want it gets what Limit leaves beside all others that hold something which has not expired.
type Claim struct {
	// Seq rises with each claim of a holder: one that comes late changes nothing and is an ErrStale.
	Seq         uint64
	Hold, Want  Slots
	Limit       Slots
	TTL         time.Duration // of what it has then
	UnmetTTL    time.Duration // for how long others are told that something was wanted in vain
	Unsatisfied bool          // somebody waits here for more than Want says
}

// Slots are places, and how many of them low-urgency work may take.
type Slots struct{ All, Batch int }

// Grant is what a holder has now, expiring by its Claim's TTL.
type Grant struct {
	Slots
	// Holders is how many have or want something, with this one; Wanted, that another one wants what it did not get.
	Holders int
	Wanted  bool
}

// Spending is added to a sum where that stays within Limit (0: none), after the sum was raised to Floor. A sum is never below 0.
type Spending struct {
	Amount, Floor, Limit int64
	TTL                  time.Duration
}
