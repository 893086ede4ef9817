package gateway

import (
	"hash/maphash"
	"sync"
)

// registry holds the executions in progress in this process: by key, or by intent where there is no key. It is
// how duplicates find a running answer; who may run is the ledger's claim alone.
type registry struct {
	once   sync.Once
	seed   maphash.Seed
	shards [64]shard
}

type shard struct {
	mu sync.Mutex
	m  map[string]*execution
}

func (r *registry) shard(key string) *shard {
	r.once.Do(func() { r.seed = maphash.MakeSeed() })
	return &r.shards[maphash.String(r.seed, key)%uint64(len(r.shards))]
}

// join returns the execution under key with one more client on it, or registers e and returns nil.
func (r *registry) join(key string, e *execution) (running *execution) {
	s := r.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if running = s.m[key]; running != nil {
		running.hold()
		return running
	}
	if s.m == nil {
		s.m = map[string]*execution{}
	}
	s.m[key] = e
	return nil
}

// find returns the execution under key with one more client on it, or nil.
func (r *registry) find(key string) *execution {
	s := r.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.m[key]
	if e != nil {
		e.hold()
	}
	return e
}

// remove forgets e, and only e.
func (r *registry) remove(key string, e *execution) {
	s := r.shard(key)
	s.mu.Lock()
	if s.m[key] == e {
		delete(s.m, key)
	}
	s.mu.Unlock()
}

func (r *registry) each(f func(*execution)) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for _, e := range s.m {
			f(e)
		}
		s.mu.Unlock()
	}
}
