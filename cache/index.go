package cache

import (
	"container/list"
	"sync"
	"time"
)

// DefaultEntries bounds a workflow's entries where [Bounds] does not.
const DefaultEntries = 10_000

// DefaultBytes bounds a workflow's memory where [Bounds] does not.
const DefaultBytes = 256 << 20

// Bounds are those of one tenant's entries of one workflow. The oldest go first. 0 is the default.
type Bounds struct {
	Entries int
	Bytes   int64 // of memory, estimated
}

// Index finds entries. The zero value is empty and ready. It is safe for concurrent use; look-ups in one workflow do not
// wait for each other, and those in another for nobody.
type Index struct {
	shelves sync.Map // shelfName → *shelf
}

type shelfName struct{ tenant, workflow string }

// shelf holds the entries of one tenant and workflow.
type shelf struct {
	mu     sync.RWMutex
	byKey  map[Key]*list.Element // of *Entry
	inPart map[[32]byte]int      // entries of a partition
	byID   map[string][]Key      // keys of an intent's entries
	order  *list.List            // oldest first
	bytes  int64
}

func newShelf() *shelf {
	return &shelf{byKey: map[Key]*list.Element{}, inPart: map[[32]byte]int{}, byID: map[string][]Key{}, order: list.New()}
}

func (x *Index) shelf(tenant, workflow string) *shelf {
	if s, ok := x.shelves.Load(shelfName{tenant, workflow}); ok {
		return s.(*shelf)
	}
	return nil
}

// Put adds an entry, which must not be changed any more. One that stands at the same key gives way if it is not younger:
// entries may come in any order, as at a start they do. Put says which intents' entries have left their place for good:
// their rows may go too.
func (x *Index) Put(e *Entry, b Bounds) (evicted []*Entry) {
	name := shelfName{e.Tenant, e.Workflow}
	s := x.shelf(e.Tenant, e.Workflow)
	if s == nil {
		fresh, _ := x.shelves.LoadOrStore(name, newShelf())
		s = fresh.(*shelf)
	}
	if b.Entries <= 0 {
		b.Entries = DefaultEntries
	}
	if b.Bytes <= 0 {
		b.Bytes = DefaultBytes
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.byKey[e.Key]; ok {
		old := at.Value.(*Entry)
		if old.Made.After(e.Made) {
			return []*Entry{e}
		}
		if evicted = append(evicted, old); old.Intent == e.Intent {
			evicted = nil // the same entry again
		}
		s.remove(at)
	}
	s.add(e)
	for s.order.Len() > b.Entries || s.bytes > b.Bytes {
		at := s.order.Front()
		evicted = append(evicted, at.Value.(*Entry))
		s.remove(at)
	}
	return evicted
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
}

// entryOverhead is what an entry takes in the maps and the list beside its own bytes: measured.
const entryOverhead = 480

func (e *Entry) size() int64 {
	return int64(entryOverhead + len(e.Intent)*2 + len(e.Template) + e.Vector.size())
}

// Candidate returns the entry at a key, if it is still to be used at now. For a template that is the answer; for
// [Semantic] [Confirm] is to follow, for which the question's vector is needed. It allocates nothing.
func (x *Index) Candidate(tenant, workflow string, partition [32]byte, key Key, now time.Time) (*Entry, Reason) {
	s := x.shelf(tenant, workflow)
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

// Drop takes out an intent's entries: its answer is gone, or was found wrong.
func (x *Index) Drop(tenant, workflow, intent string) (n int) {
	s := x.shelf(tenant, workflow)
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for keys := s.byID[intent]; len(keys) > 0; keys = s.byID[intent] {
		s.remove(s.byKey[keys[0]])
		n++
	}
	return n
}

// Purge takes out the entries of a tenant and workflow; "" is every tenant, every workflow.
func (x *Index) Purge(tenant, workflow string) (n int) {
	x.each(tenant, workflow, func(s *shelf) {
		n += s.order.Len()
		s.order.Init()
		clear(s.byKey)
		clear(s.inPart)
		clear(s.byID)
		s.bytes = 0
	})
	return n
}

// Sweep takes out what has expired, and returns it.
func (x *Index) Sweep(now time.Time) (gone []*Entry) {
	x.each("", "", func(s *shelf) {
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

// Size is what a tenant's entries of a workflow take; "" is every tenant, every workflow.
func (x *Index) Size(tenant, workflow string) (entries int, bytes int64) {
	x.each(tenant, workflow, func(s *shelf) {
		entries += s.order.Len()
		bytes += s.bytes
	})
	return entries, bytes
}

// each calls f with each shelf that is meant, locked.
func (x *Index) each(tenant, workflow string, f func(*shelf)) {
	x.shelves.Range(func(name, s any) bool {
		n := name.(shelfName)
		if (tenant == "" || n.tenant == tenant) && (workflow == "" || n.workflow == workflow) {
			shelf := s.(*shelf)
			shelf.mu.Lock()
			defer shelf.mu.Unlock()
			f(shelf)
		}
		return true
	})
}
