package gateway

import (
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// sighting is one operation under a derived key as its clients have seen it (derive: retries): what a request
// that means the same may adopt, because the answer never arrived, and what it must leave alone, because
// identical is not the same as repeated (semantics 19 to 21).
type sighting struct {
	book *sightings
	key  string
	id   string    // of the intent
	who  [32]byte  // hash of the credential
	born time.Time // ledger time
	ends time.Time // of the window

	grace time.Duration

	mu       sync.Mutex
	e        *execution     // while it runs or its recording is at hand
	record   *ledger.Record // found in the ledger: made by a process that ended
	clients  int
	delivery ledger.Delivery
	sentAt   time.Time
	failed   bool          // it ended without an answer that is kept
	unknown  bool          // … and the provider may have done the work
	pinned   bool          // its outcome is unknown and held: no delivery of that news ends it
	hold     *held         // the same error for everybody, for a time
	gone     chan struct{} // closed when delivery becomes lost
	answer   *stored
	onRecord bool
	spilled  bool // the answer is on record, and too large to stay in memory too
}

// held is an error that a derived key answers without a dispatch (semantics 21).
type held struct {
	until time.Time
	fail  *Error
	reply *stored
}

// sightings are those of this process, by derived key.
type sightings struct {
	g      *Gateway
	shards [64]sightingShard

	mu    sync.Mutex
	queue []*sighting // sent ones in order, waiting for delivery_grace; and lost ones for the end of their window
	timer *time.Timer
}

type sightingShard struct {
	mu sync.Mutex
	m  map[string]*sightingList
}

type sightingList struct {
	all      []*sighting // oldest first
	recalled bool        // what earlier processes left was looked up
}

func (b *sightings) shard(key string) *sightingShard {
	return &b.shards[key[len(key)-1]&15|key[len(key)-2]&3<<4]
}

// add enters a new operation.
func (b *sightings) add(s *sighting) {
	sh := b.shard(s.key)
	sh.mu.Lock()
	if sh.m == nil {
		sh.m = map[string]*sightingList{}
	}
	l := sh.m[s.key]
	if l == nil {
		l = &sightingList{recalled: true}
		sh.m[s.key] = l
	}
	l.all = append(l.all, s)
	sh.mu.Unlock()
}

func (b *sightings) remove(s *sighting) {
	sh := b.shard(s.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := sh.m[s.key]
	if l == nil {
		return
	}
	for i, x := range l.all {
		if x == s {
			l.all = append(l.all[:i:i], l.all[i+1:]...)
			break
		}
	}
	if len(l.all) == 0 {
		delete(sh.m, s.key)
	}
}

// list returns the operations under key, oldest first.
func (b *sightings) list(key string) []*sighting {
	sh := b.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if l := sh.m[key]; l != nil {
		return l.all
	}
	return nil
}

// left takes a client away that got the answer whole, or did not. While another still reads, nothing is lost.
func (s *sighting) left(whole bool, conn *watchedConn) {
	if whole && conn != nil {
		conn.last.Store(s)
	}
	s.mu.Lock()
	s.clients--
	switch {
	case whole:
		s.delivery, s.sentAt = ledger.DeliverySent, time.Now()
	case s.clients == 0 && s.delivery == ledger.DeliveryOpen:
		s.lose()
	}
	delivery := s.delivery
	s.mu.Unlock()
	if delivery == ledger.DeliverySent {
		s.book.enqueue(s)
	}
}

// lose is called with s.mu held.
func (s *sighting) lose() {
	s.delivery = ledger.DeliveryLost
	s.book.enqueue(s) // it is forgotten at the end of its window
	select {
	case <-s.gone:
	default:
		close(s.gone)
	}
}

// wasReset says that the connection over which the answer went was reset.
func (s *sighting) wasReset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.delivery == ledger.DeliverySent && s.clients == 0 && !mutant.On("delivery-from-write") {
		s.lose()
	}
}

// ended notes how the operation ended; hold, when not nil, is what its key answers meanwhile.
func (s *sighting) ended(answer *stored, unknown bool, hold *held) {
	s.mu.Lock()
	s.answer, s.failed, s.unknown, s.hold = answer, answer == nil, unknown && answer == nil, hold
	s.e = nil
	s.spill()
	s.mu.Unlock()
}

// spillOver is the size from which an answer that is on record is read from there when it is adopted: for as long as
// it may be, minutes where it was lost, it would count in no bound of memory.
const spillOver = 16 << 10

// landed says that the answer is on record.
func (s *sighting) landed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onRecord = true
	s.spill()
}

// spill is called with s.mu held.
func (s *sighting) spill() {
	if s.onRecord && s.answer != nil && len(s.answer.body) > spillOver {
		s.answer, s.spilled = nil, true
	}
}

// pin keeps s under its key until its window ends.
func (s *sighting) pin() {
	s.mu.Lock()
	s.pinned = true
	s.mu.Unlock()
}

// enqueue has s looked at when its grace is over.
func (b *sightings) enqueue(s *sighting) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, s)
	if b.timer == nil {
		b.timer = time.AfterFunc(deliveryTick, b.tick)
	}
}

// deliveryTick is how often sent answers are looked at; delivery_grace is met that much late at most.
const deliveryTick = 250 * time.Millisecond

// tick assumes deliveries whose grace is over and forgets what no request can adopt any more.
func (b *sightings) tick() {
	b.mu.Lock()
	queue := b.queue
	b.queue, b.timer = nil, nil
	b.mu.Unlock()
	now, ledgerNow := time.Now(), b.g.ledger.Now()
	kept := queue[:0]
	for _, s := range queue {
		if !b.settle(s, now, ledgerNow, false) {
			kept = append(kept, s)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(kept, b.queue...)
	if len(b.queue) > 0 && b.timer == nil {
		b.timer = time.AfterFunc(deliveryTick, b.tick)
	}
}

// settle assumes a delivery whose grace is over, and says whether s can be forgotten.
func (b *sightings) settle(s *sighting, now, ledgerNow time.Time, last bool) bool {
	s.mu.Lock()
	arrived := !s.pinned && s.delivery == ledger.DeliverySent && (last || now.Sub(s.sentAt) >= s.grace)
	if arrived {
		s.delivery = ledger.DeliveryAssumed
	}
	held := s.hold != nil && now.Before(s.hold.until)
	over := s.delivery == ledger.DeliveryAssumed || ledgerNow.After(s.ends) && s.clients == 0
	s.mu.Unlock()
	if arrived {
		b.g.ledger.Enqueue(&ledger.Write{ID: s.id, Append: true, Relaxed: true, Unindex: s.key})
	}
	if !over || held && !last {
		return last
	}
	b.remove(s)
	return true
}

// flush assumes what was sent: the process ends in order, and no reset has been seen.
func (b *sightings) flush() {
	b.mu.Lock()
	queue := b.queue
	b.queue = nil
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	b.mu.Unlock()
	now, ledgerNow := time.Now(), b.g.ledger.Now()
	for _, s := range queue {
		b.settle(s, now, ledgerNow, true)
	}
}
