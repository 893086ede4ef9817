package gateway

import (
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/internal/budget"
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
	turn     int // of its last client: an answer belongs to who adopted it last, and its delivery is that one's
	count    int // of retries that the last client counted
	delivery ledger.Delivery
	sentAt   time.Time
	failed   bool           // it ended without an answer that is kept
	unknown  bool           // … and the provider may have done the work
	pinned   bool           // its outcome is unknown and held: no delivery of that news ends it
	byTier   map[string]int // attempts of each tier, where there are several
	attempts int            // over its whole life, those that it inherited included
	hold     *held          // the same error for everybody, for a time
	last     *held          // the error that its clients got; a repetition gets it again where no attempt is left
	gone     chan struct{}  // closed when delivery becomes lost
	answer   *stored
	onRecord bool
	spilled  bool // the answer is on record, and not in memory too
	queued   bool // it is in the book's queue, and stays there until it is forgotten
	charge   int  // of the book's memory
	over     bool // it is no longer in the book
}

// held is an error that a derived key answers without a dispatch (semantics 21).
type held struct {
	until time.Time
	fail  *Error
	reply *stored
	since time.Time // when it was first told; zero: not known
	trail string    // Holdfast-Trail of it
	met   met
}

// over says that the error is no longer given; none is.
func (h *held) over(now time.Time) bool { return h == nil || !now.Before(h.until) }

// sightings are those of this process, by derived key.
type sightings struct {
	g      *Gateway
	shards [64]sightingShard
	memory *budget.Bytes // of answers on record that are at hand too

	mu    sync.Mutex
	queue []*sighting // sent ones in order, waiting for delivery_grace; and lost ones for the end of their window
	timer *time.Timer
}

type sightingShard struct {
	mu sync.Mutex
	m  map[string]*sightingList
}

type sightingList struct {
	all      []*sighting   // oldest first
	recalled bool          // what earlier processes left was looked up
	reading  chan struct{} // closed when that look-up, which goes on, is over
}

func (b *sightings) shard(key string) *sightingShard {
	return &b.shards[key[len(key)-1]&15|key[len(key)-2]&3<<4]
}

// of returns the list of a key, made where there was none; sh.mu is held.
func (sh *sightingShard) of(key string) *sightingList {
	if sh.m == nil {
		sh.m = map[string]*sightingList{}
	}
	l := sh.m[key]
	if l == nil {
		l = &sightingList{}
		sh.m[key] = l
	}
	return l
}

// tidy forgets a list that says nothing; sh.mu is held.
func (sh *sightingShard) tidy(key string, l *sightingList) {
	if len(l.all) == 0 && l.reading == nil {
		delete(sh.m, key)
	}
}

// add enters a new operation; recalled says that what earlier processes left under its key was looked up before.
func (b *sightings) add(s *sighting, recalled bool) {
	sh := b.shard(s.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := sh.of(s.key)
	l.all = append(l.all, s)
	l.recalled = l.recalled || recalled
}

func (b *sightings) remove(s *sighting) {
	s.forget()
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
	sh.tidy(s.key, l)
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

// left takes a client away that got the answer whole, or did not. One whose answer was adopted by another meanwhile
// decides nothing: it is the connection that the other has lost.
func (s *sighting) left(turn int, whole bool, conn *watchedConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients--
	switch {
	case turn != s.turn:
	case !whole:
		s.lose()
	default:
		s.delivery, s.sentAt = ledger.DeliverySent, time.Now()
		s.enqueue()
		if conn != nil && conn.wrote(s, turn) != nil {
			s.reset(turn)
		}
	}
}

// lose is called with s.mu held.
func (s *sighting) lose() {
	s.delivery = ledger.DeliveryLost
	s.enqueue() // it is forgotten at the end of its window
	select {
	case <-s.gone:
	default:
		close(s.gone)
	}
}

// wasReset says that the connection over which the answer went to one of its clients was reset.
func (s *sighting) wasReset(turn int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reset(turn)
}

// reset is called with s.mu held.
func (s *sighting) reset(turn int) {
	if s.delivery == ledger.DeliverySent && turn == s.turn && !mutant.On("delivery-from-write") {
		s.lose()
	}
}

// tried keeps what its successor takes over of attempts by tier; nobody changes the map any more.
func (s *sighting) tried(byTier map[string]int) {
	s.mu.Lock()
	s.byTier = byTier
	s.mu.Unlock()
}

// ended notes how the operation ended; hold, when not nil, is what its key answers meanwhile, last what its clients got.
func (s *sighting) ended(answer *stored, unknown bool, attempts int, hold, last *held) {
	s.mu.Lock()
	s.answer, s.failed, s.unknown, s.hold = answer, answer == nil, unknown && answer == nil, hold
	s.attempts, s.last = attempts, last
	s.e = nil
	s.spill()
	s.mu.Unlock()
}

// pin keeps s under its key until its window ends.
func (s *sighting) pin() {
	s.mu.Lock()
	s.pinned = true
	s.mu.Unlock()
}

// enqueue has s looked at when its grace is over; s.mu is held.
func (s *sighting) enqueue() {
	if s.queued {
		return
	}
	s.queued = true
	b := s.book
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
	// A failure that arrived is what a retry comes after: it is kept for as long as one may take.
	// One that still waits for the end of its body may turn out to be held.
	arrived := !s.pinned && s.delivery == ledger.DeliverySent &&
		(last || s.e == nil && now.Sub(s.sentAt) >= s.grace && s.last.over(now))
	if arrived {
		s.delivery = ledger.DeliveryAssumed
	}
	held := !s.hold.over(now)
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

// refreshed has s go by what is on record now.
func (s *sighting) refreshed(r *ledger.Record) {
	s.mu.Lock()
	s.record, s.failed, s.unknown = r, r.Answer == nil, r.BilledMaybe > 0
	s.mu.Unlock()
}
