// Package fleet is what the engines on one store know of each other, and how they call one another.
package fleet

import (
	"encoding/json"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// Info is what an engine says of itself in ledger.Owner.Info, as JSON.
type Info struct {
	Address   string    `json:"address"` // of its data plane as the others reach it, http://host:port; "" when they cannot
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	BeatAt    time.Time `json:"beat_at"`  // ledger time of this heartbeat
	Draining  bool      `json:"draining"` // it takes on nothing new, and gives up what it has when it can
	Ended     bool      `json:"ended"`    // it has stopped in order, and holds nothing
}

// Encode is the form in which an owner's row keeps it.
func (i Info) Encode() []byte {
	text, err := json.Marshal(i)
	if err != nil || len(text) > ledger.OwnerInfoMax {
		return nil // only an address of kilobytes is too long, and configuration refuses it
	}
	return text
}

// Member is one engine on the store.
type Member struct {
	ID    string
	Until time.Time // ledger time until which it is known to live
	Info
}

// MemberOf reads an owner's row. One that says nothing of itself, or in words of a later version, has an id and no more.
func MemberOf(o ledger.Owner) Member {
	m := Member{ID: o.ID, Until: o.Until}
	_ = json.Unmarshal(o.Info, &m.Info)
	return m
}
