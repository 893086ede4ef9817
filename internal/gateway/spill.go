package gateway

// An answer that is on record may be adopted for as long as nobody knows that it arrived: minutes where it was lost.
// What of them is in memory too only saves a read, and has a bound.
const (
	spillOver   = 16 << 10 // one larger than this is read from the record
	spillBeyond = 4 << 20  // and so is what all others are together beyond this, or beyond a quarter of limits.body_memory
)

// landed says that the answer is on record.
func (s *sighting) landed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onRecord = true
	s.spill()
}

// recalled keeps at hand what was read from the record, if there is room.
func (s *sighting) recalled(answer *stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer == nil {
		s.answer, s.onRecord = answer, true
		s.spill()
	}
}

// spill leaves an answer that is on record there alone, unless there is room for it in memory; s.mu is held.
func (s *sighting) spill() {
	if !s.onRecord || s.answer == nil || s.charge > 0 {
		return
	}
	if n := s.answer.cost(); !s.over && len(s.answer.body) <= spillOver && s.book.memory.Take(n) {
		s.charge = n
		return
	}
	s.answer, s.spilled = nil, true
}

// forget gives back what the answer takes in memory: s leaves the book.
func (s *sighting) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.book.memory.Give(s.charge)
	s.charge, s.over = 0, true
	s.spill()
}
