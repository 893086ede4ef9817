package sim

import (
	"sync"

	"github.com/tidwall/gjson"
)

// store keeps answers that can be read again by id (OpenAI's GET calls): the newest, within bounds.
type store struct {
	mu    sync.Mutex
	byID  map[string]*kept
	order []string
	bytes int // of requests and answers
}

type kept struct {
	answer    *answer
	polls     int // a background response is complete from the second look on
	cancelled bool
}

const (
	maxStored      = 10_000
	maxStoredBytes = 256 << 20
)

func (k *kept) size() int { return len(k.answer.q.body) + 2*len(k.answer.text) }

func newStore() *store { return &store{byID: map[string]*kept{}} }

func (s *store) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID, s.order, s.bytes = map[string]*kept{}, nil, 0
}

func (s *store) put(id string, a *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[id] != nil {
		return // a replay of the same execution: it is the same answer
	}
	k := &kept{answer: a}
	s.byID[id] = k
	s.order = append(s.order, id)
	s.bytes += k.size()
	for len(s.order) > 1 && (len(s.order) > maxStored || s.bytes > maxStoredBytes) {
		s.drop(s.order[0])
		s.order = s.order[1:]
	}
}

func (s *store) drop(id string) bool {
	k := s.byID[id]
	if k == nil {
		return false
	}
	s.bytes -= k.size()
	delete(s.byID, id)
	return true
}

// with calls f on the answer of that id under the lock and reports whether there is one.
func (s *store) with(id string, f func(*kept)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.byID[id]
	if k != nil {
		f(k)
	}
	return k != nil
}

// keep stores the answer of an execution where that was asked for: with its effect, whatever becomes of the reply.
func (s *Server) keep(x *exchange, n int64) {
	store := gjson.GetBytes(x.q.body, "store")
	chat := x.q.endpoint == "chat.completions" && store.Bool()
	if !chat && (x.q.endpoint != "responses" || store.Exists() && !store.Bool()) {
		return
	}
	a := newAnswer(x.q, &x.st, n, s.cfg.Now())
	if x.made == nil {
		x.made = map[int64]*answer{}
	}
	x.made[n] = a
	if chat {
		s.stored.put(a.chatID(), a)
	} else {
		s.stored.put(a.responseID(), a)
	}
}

// answerOf is the answer of an execution, the same that is stored of it.
func (s *Server) answerOf(x *exchange, n int64) *answer {
	if a := x.made[n]; a != nil {
		return a
	}
	return newAnswer(x.q, &x.st, n, s.cfg.Now())
}

// all returns the answers that are there, oldest first.
func (s *store) all() []*answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*answer, 0, len(s.byID))
	for _, id := range s.order {
		if k := s.byID[id]; k != nil {
			out = append(out, k.answer)
		}
	}
	return out
}

func (s *store) delete(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drop(id)
}
