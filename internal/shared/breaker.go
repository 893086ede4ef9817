package shared

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// Breaker is the state of one breaker, the fleet's while it is On and the store is there, else this process's own. It is a
// breaker.Store; the rules are the Breaker's, and the store's compare-and-set makes each of its steps the fleet's one: of all that ask for
// the probe's place one has it, and its lease runs out by the store's clock whatever has become of its holder.
type Breaker struct {
	s   *State
	key string
	on  atomic.Bool
	at  atomic.Pointer[standing]
}

// standing is a record with the version of the register that it was in; version 0 where the store knows nothing of it.
type standing struct {
	record  breaker.Record
	version uint64
	alone   *breaker.Record // what the fleet knew when this process began to go on by itself; nil: nothing was done alone
}

// Times for which a breaker's register is kept.
const (
	closedTTL = 10 * time.Minute
	openTTL   = 24 * time.Hour
)

// Breaker returns the state of a breaker by its name, which is the same in all processes. Leave ends it.
func (s *State) Breaker(name string) *Breaker {
	b := &Breaker{s: s, key: "breaker/" + name}
	b.at.Store(&standing{record: breaker.Record{Generation: 1}})
	return b
}

// Share says whether it is the fleet's; it is not at first.
func (b *Breaker) Share(on bool) {
	if b.on.Swap(on) == on {
		return
	}
	if on {
		b.s.registers.use(b.key, b)
	} else {
		b.Leave()
	}
}

// Leave lets go of the register; what is known stays.
func (b *Breaker) Leave() { b.s.registers.leave(b.key, b) }

// Fleet reports whether results of all processes are counted in it, against the whole threshold.
func (b *Breaker) Fleet() bool { return b.on.Load() && b.s.up.Load() }

// Load implements breaker.Store.
func (b *Breaker) Load() *breaker.Record { return &b.at.Load().record }

// Now implements breaker.Store.
func (b *Breaker) Now() time.Time {
	if !b.on.Load() {
		return time.Now()
	}
	return b.s.Now()
}

// Swap implements breaker.Store.
func (b *Breaker) Swap(old, next *breaker.Record) bool {
	at := b.at.Load()
	if &at.record != old {
		return false
	}
	if !b.on.Load() || mutant.On("probe-lease-local") && next.Probe != old.Probe {
		return b.at.CompareAndSwap(at, &standing{record: *next, version: at.version})
	}
	value := encode(next)
	now, ok, err := b.s.registers.swap("breaker", Register{Key: b.key, Version: at.version, Value: value}, ttlOf(next))
	switch {
	case err != nil:
		return b.goAlone(at, next)
	case ok:
		b.put(&standing{record: *next, version: now.Version})
		return true
	}
	b.heard(now)
	return false
}

// goAlone is Swap while the store is away.
func (b *Breaker) goAlone(at *standing, next *breaker.Record) bool {
	base := at.alone
	if base == nil {
		base = &at.record
	}
	return b.at.CompareAndSwap(at, &standing{record: *next, version: at.version, alone: base})
}

// put makes n the standing, unless a newer one is there.
func (b *Breaker) put(n *standing) {
	for {
		at := b.at.Load()
		if at.version >= n.version && n.version != 0 || b.at.CompareAndSwap(at, n) {
			return
		}
	}
}

// heard takes over what stands in the register. One that has expired or was lost says nothing: what is known here stays, and is written
// with the next change.
func (b *Breaker) heard(r Register) {
	if r.Version == 0 {
		at := b.at.Load()
		b.at.CompareAndSwap(at, &standing{record: at.record})
		return
	}
	if rec, err := decode(r.Value); err == nil {
		b.put(&standing{record: rec, version: r.Version})
	}
}

// rejoin decides between what the fleet knows and what this process has found out alone: an operator's word here stands, an outage that
// was met here is told, and of all else the fleet's knowledge is the better.
func (b *Breaker) rejoin(r Register) ([]byte, time.Duration, bool) {
	at := b.at.Load()
	mine := at.record
	theirs, err := decode(r.Value)
	known := r.Version != 0 && err == nil
	switch {
	case !known:
		if mine.State == breaker.Closed && mine.Failures == 0 {
			return nil, 0, false
		}
	case at.alone == nil:
		return nil, 0, false
	case mine.Forced != at.alone.Forced:
	case mine.State == breaker.Open && theirs.State == breaker.Closed && b.s.Now().Before(mine.Until):
	default:
		b.at.CompareAndSwap(at, &standing{record: at.record}) // of no version, so that theirs takes its place
		return nil, 0, false
	}
	mine.Generation = max(mine.Generation, theirs.Generation) + 1
	mine.Probes = max(mine.Probes, theirs.Probes)
	return encode(&mine), ttlOf(&mine), true
}

func ttlOf(r *breaker.Record) time.Duration {
	switch {
	case r.Forced:
		return 0
	case r.State == breaker.Closed:
		return closedTTL
	}
	return openTTL
}

// wire is a breaker.Record as the store has it.
type wire struct {
	State      breaker.State `json:"s"`
	Since      int64         `json:"t,omitempty"` // microseconds
	Until      int64         `json:"u,omitempty"`
	Failures   int           `json:"f,omitempty"`
	Forced     bool          `json:"x,omitempty"`
	Reason     string        `json:"r,omitempty"`
	Generation uint64        `json:"g"`
	Probe      uint64        `json:"p,omitempty"`
	Probes     uint64        `json:"n,omitempty"`
}

func encode(r *breaker.Record) []byte {
	out, err := json.Marshal(wire{State: r.State, Since: micros(r.Since), Until: micros(r.Until), Failures: r.Failures, Forced: r.Forced,
		Reason: r.Reason, Generation: r.Generation, Probe: r.Probe, Probes: r.Probes})
	if err != nil { // numbers and a text
		return nil
	}
	return out
}

func decode(value []byte) (breaker.Record, error) {
	var w wire
	if err := json.Unmarshal(value, &w); err != nil {
		return breaker.Record{}, err
	}
	return breaker.Record{State: w.State, Since: moment(w.Since), Until: moment(w.Until), Failures: w.Failures, Forced: w.Forced, Reason: w.Reason,
		Generation: w.Generation, Probe: w.Probe, Probes: w.Probes}, nil
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func moment(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}
