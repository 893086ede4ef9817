package shared

// Calls is how many calls to the store were made in all but for those that look whether it is there.
func (s *State) Calls() int64 { return s.calls.Load() }

// Expire has a lease run out that nobody renews.
func (s *Semaphore) Expire() { s.pool.until.Store(1) }
