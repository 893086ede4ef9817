package cache

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultEntries bounds a workflow's entries where [Bounds] does not.
const DefaultEntries = 10_000

// DefaultBytes bounds a workflow's memory where [Bounds] does not.
const DefaultBytes = 256 << 20

// DefaultTotal bounds the memory of a whole index where [Index.Bytes] does not.
const DefaultTotal = 512 << 20

// Bounds are those of one tenant's entries of one workflow. The oldest go first. 0 is the default.
type Bounds struct {
	Entries int
	Bytes   int64 // of memory, estimated
}

// Index finds entries. The zero value is empty and ready. It is safe for concurrent use; look-ups in one workflow do not
// wait for each other, and those in another for nobody.
type Index struct {
	// Bytes bounds the memory of all entries, estimated; 0 is [DefaultTotal]. It is set before the first use. Tenants may be as
	// many as there are credentials, so that their own bounds do not bound what they take together.
	Bytes int64

	shelves sync.Map     // shelfName → *shelf, none of them empty for long
	total   atomic.Int64 // bytes on all shelves
	trim    sync.Mutex   // of whoever makes room
}

type shelfName struct{ tenant, workflow string }

// shelf holds the entries of one tenant and workflow.
type shelf struct {
	total *atomic.Int64 // the index's

	mu     sync.RWMutex
	gone   bool                  // it was empty, and is the index's no more
	byKey  map[Key]*list.Element // of *Entry
	inPart map[[32]byte]int      // entries of a partition
	byID   map[string][]Key      // keys of an intent's entries
	order  *list.List            // oldest first
	bytes  int64
}

func (x *Index) shelf(name shelfName) *shelf {
	if s, ok := x.shelves.Load(name); ok {
		return s.(*shelf)
	}
	return nil
}

// stock is the shelf of a name, made where there is none, locked.
func (x *Index) stock(name shelfName) *shelf {
	for {
		s := x.shelf(name)
		if s == nil {
			fresh, _ := x.shelves.LoadOrStore(name, &shelf{total: &x.total, byKey: map[Key]*list.Element{}, inPart: map[[32]byte]int{},
				byID: map[string][]Key{}, order: list.New()})
			s = fresh.(*shelf)
		}
		s.mu.Lock()
		if !s.gone {
			return s
		}
		s.mu.Unlock()
	}
}

// unlock takes a shelf out that has become empty: its name may be a credential's that never comes back.
func (x *Index) unlock(name shelfName, s *shelf) {
	if s.order.Len() == 0 && !s.gone {
		s.gone = true
		x.shelves.Delete(name)
	}
	s.mu.Unlock()
}

// Put adds an entry, which must not be changed any more. One that stands at the same key gives way if it is not younger:
// entries may come in any order, as at a start they do. Put says which intents' entries have left their place for good:
// their rows may go too.
func (x *Index) Put(e *Entry, b Bounds) (evicted []*Entry) {
	if b.Entries <= 0 {
		b.Entries = DefaultEntries
	}
	if b.Bytes <= 0 {
		b.Bytes = DefaultBytes
	}
	return append(x.put(e, b), x.makeRoom()...)
}

func (x *Index) put(e *Entry, b Bounds) (evicted []*Entry) {
	name := shelfName{e.Tenant, e.Workflow}
	s := x.stock(name)
	defer x.unlock(name, s)
	if at, ok := s.byKey[e.Key]; ok {
		old := at.Value.(*Entry)
		if old.Made.After(e.Made) {
			if old.Intent == e.Intent { // the same entry, read back from where times are less exact
				return nil
			}
			return []*Entry{e}
		}
		if evicted = append(evicted, old); old.Intent == e.Intent {
			evicted = nil // the same entry again
		}
		s.remove(at)
	}
	s.add(e)
	for s.order.Len() > b.Entries || s.bytes > b.Bytes {
		evicted = append(evicted, s.shift())
	}
	return evicted
}

// shift takes the oldest entry out.
func (s *shelf) shift() *Entry {
	at := s.order.Front()
	s.remove(at)
	return at.Value.(*Entry)
}

// add puts the entry at its place in the order of age, which is nearly always the end.
func (s *shelf) add(e *Entry) {
	after := s.order.Back()
	for after != nil && after.Value.(*Entry).Made.After(e.Made) {
		after = after.Prev()
	}
	var at *list.Element
	if after == nil {
		at = s.order.PushFront(e)
	} else {
		at = s.order.InsertAfter(e, after)
	}
	s.byKey[e.Key] = at
	s.inPart[e.Partition]++
	s.byID[e.Intent] = append(s.byID[e.Intent], e.Key)
	s.bytes += e.size()
	s.total.Add(e.size())
}

func (s *shelf) remove(at *list.Element) {
	e := s.order.Remove(at).(*Entry)
	delete(s.byKey, e.Key)
	if s.inPart[e.Partition]--; s.inPart[e.Partition] == 0 {
		delete(s.inPart, e.Partition)
	}
	keys := s.byID[e.Intent]
	for i, k := range keys {
		if k == e.Key {
			keys = append(keys[:i], keys[i+1:]...)
			break
		}
	}
	if s.byID[e.Intent] = keys; len(keys) == 0 {
		delete(s.byID, e.Intent)
	}
	s.bytes -= e.size()
	s.total.Add(-e.size())
}

// entryOverhead is what an entry takes in the maps and the list beside its own bytes: measured.
const entryOverhead = 480

func (e *Entry) size() int64 {
	return int64(entryOverhead + len(e.Intent)*2 + len(e.Template) + e.Vector.size())
}

// Candidate returns the entry at a key, if it is still to be used at now. For a template that is the answer; for
// [Semantic] [Confirm] is to follow, for which the question's vector is needed. It allocates nothing.
func (x *Index) Candidate(tenant, workflow string, partition [32]byte, key Key, now time.Time) (*Entry, Reason) {
	s := x.shelf(shelfName{tenant, workflow})
	if s == nil {
		return nil, Empty
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	at, ok := s.byKey[key]
	switch {
	case !ok && s.inPart[partition] == 0:
		return nil, Empty
	case !ok:
		return nil, Differs
	}
	e := at.Value.(*Entry)
	if !now.Before(e.Expires) {
		return nil, Expired
	}
	return e, Found
}

// Confirm says whether a candidate's vector is near enough.
func Confirm(e *Entry, v Vector, threshold float64) (similarity float64, why Reason) {
	switch {
	case e.Kind == Template:
		return 1, Found
	case v.Steps == nil:
		return 0, NoVector
	}
	if similarity = e.Vector.Cosine(v); similarity < threshold {
		return similarity, Dissimilar
	}
	return similarity, Found
}

// Drop takes out an intent's entries, of each kind, and returns them: its answer is gone, or was found wrong.
func (x *Index) Drop(tenant, workflow, intent string) (gone []*Entry) {
	name := shelfName{tenant, workflow}
	s := x.shelf(name)
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer x.unlock(name, s)
	for keys := s.byID[intent]; len(keys) > 0; keys = s.byID[intent] {
		at := s.byKey[keys[0]]
		s.remove(at)
		gone = append(gone, at.Value.(*Entry))
	}
	return gone
}

// Sweep takes out what has expired, and returns it.
func (x *Index) Sweep(now time.Time) (gone []*Entry) {
	x.each(func(_ shelfName, s *shelf) {
		for at := s.order.Front(); at != nil; {
			next := at.Next()
			if e := at.Value.(*Entry); !now.Before(e.Expires) {
				gone = append(gone, e)
				s.remove(at)
			}
			at = next
		}
	})
	return gone
}

// each calls f with each shelf, locked.
func (x *Index) each(f func(shelfName, *shelf)) {
	x.shelves.Range(func(key, value any) bool {
		name, s := key.(shelfName), value.(*shelf)
		s.mu.Lock()
		defer x.unlock(name, s)
		f(name, s)
		return true
	})
}
