package ledger

import "time"

// CachedKind says how a settled answer is found again for another request.
type CachedKind uint8

const (
	CachedTemplate CachedKind = 1 // by the values of a declared template
	CachedSemantic CachedKind = 2 // by the meaning of the words
)

// CachedRef names a row of the index over settled answers: an intent has at most one of each kind.
type CachedRef struct {
	Intent string
	Kind   CachedKind
}

// Cached is a row of the index over settled answers (semantics 47): that the answer of one intent may be given to other
// requests as well, and until when. It holds no answer: that is BodyAnswer of the same intent, without which there is no row.
type Cached struct {
	CachedRef
	Partition [32]byte // requests of another partition never find it
	Data      []byte   // by what it is found within its partition, at most CachedMax bytes; opaque to the store
	ExpiresAt time.Time

	// What the intent says, when it is read back; not written.
	Tenant, Workflow string
	SettledAt        time.Time
}

// CachedMax bounds Cached.Data.
const CachedMax = 64 << 10

// CachedFilter selects a page of Ledger.Cached. Zero values do not filter.
type CachedFilter struct {
	Tenant, Workflow, Intent string
	Before                   CachedRef // keyset: only rows behind this one
	Limit                    int       // default 100, at most 1000
}

var cachedNames = []string{"", "template", "semantic"}

// String is the kind's word on the wire.
func (k CachedKind) String() string { return name(cachedNames, uint8(k)) }

// MarshalText and UnmarshalText use the words of String.
func (k CachedKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is the reverse of MarshalText.
func (k *CachedKind) UnmarshalText(b []byte) error { return parse(cachedNames, "cached kind", b, k) }
