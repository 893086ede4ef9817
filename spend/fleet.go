package spend

// Fleet is the sum of all processes' books, in a store that they share. Amounts are Amount's.
type Fleet interface {
	// Reserve adds an amount to an account of a day where all books together stay within the limit, and returns their sum. floor is what
	// this book knows of it, in case the store has lost it. fleet is false where the store is away: nothing was added then.
	Reserve(account string, day, limit, floor, amount int64) (sum int64, ok, fleet bool)
	// Add tells the others of an amount in a moment, which may be below 0; it does not wait.
	Add(account string, day, amount int64)
	// Share is this process's part of an amount while the store is away.
	Share(amount int64) int64
}

// Join has a limit bound what all books of a fleet have reserved and spent together. It is called before the first Reserve.
func (b *Book) Join(f Fleet) { b.fleet = f }

// reserveShared is Reserve for all books. The store is asked without a lock.
func (b *Book) reserveShared(key string, limit, estimate Amount) (*Reservation, error) {
	b.mu.Lock()
	a, day := b.open(key), b.day
	floor := a.spent
	if b.accounts[key] != a { // several keys share it
		floor = 0
	}
	b.mu.Unlock()
	sum, ok, up := b.fleet.Reserve(key, day, int64(limit), int64(floor), int64(estimate))
	b.mu.Lock()
	defer b.mu.Unlock()
	if !up {
		return b.reservePart(key, limit, estimate)
	}
	a = b.open(key)
	a.asked, a.known, a.at = true, Amount(sum), a.spent
	if !ok {
		return nil, b.exceeded(limit, Amount(sum), estimate)
	}
	a.spent += estimate
	a.reserved += estimate
	a.at = a.spent
	return &Reservation{book: b, account: a, amount: estimate, shared: true, key: key, day: day}, nil
}

// reservePart is Reserve while the store is away: of what was left when it was last asked this book may take its part, so that all of them
// together stay within the limit.
func (b *Book) reservePart(key string, limit, estimate Amount) (*Reservation, error) {
	a := b.open(key)
	spent, room := a.spent, Amount(b.fleet.Share(int64(limit)))
	if a.asked {
		spent, room = a.spent-a.at, Amount(b.fleet.Share(int64(max(0, limit-a.known))))
	}
	if spent+estimate > room {
		return nil, b.exceeded(limit, max(a.spent, a.known), estimate)
	}
	a.spent += estimate
	a.reserved += estimate
	b.fleet.Add(key, b.day, int64(estimate))
	return &Reservation{book: b, account: a, amount: estimate, shared: true, key: key, day: b.day}, nil
}

func (b *Book) exceeded(limit, spent, estimate Amount) error {
	now := b.now()
	return &ExceededError{Limit: limit, Spent: spent, Estimate: estimate, Until: now.Truncate(day).Add(day).Sub(now)}
}
