// Package spend bounds what is spent in a day: an estimate is reserved before the act and settled after it (semantics 39).
//
// What is reserved counts as spent until it is settled, so that no number of calls at once goes past a limit together. What
// is settled counts as it was, also where that is more than was reserved: a limit bounds what is begun, and hides nothing.
package spend

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// Amount is money in billionths of a US dollar: a token of the cheapest model is a few of them.
type Amount int64

const dollar = 1e9

// most bounds an amount, so that sums of a day's worth of them do not overflow.
const most = Amount(1) << 50 // about a million dollars

// USD is an amount of dollars, rounded up: what is no number, or is less than nothing, is nothing.
func USD(v float64) Amount {
	if !(v > 0) {
		return 0
	}
	if v >= float64(most)/dollar {
		return most
	}
	return Amount(math.Ceil(v * dollar))
}

// USD returns a in dollars.
func (a Amount) USD() float64 { return float64(a) / dollar }

func (a Amount) String() string { return fmt.Sprintf("$%.4f", a.USD()) }

// Price is what a model costs, in USD per million tokens.
type Price struct{ Input, Output float64 }

// Of is the price of so many tokens. A count below zero is one that nobody knows, and counts as none.
func (p Price) Of(input, output int64) Amount {
	return USD((float64(max(input, 0))*p.Input + float64(max(output, 0))*p.Output) / 1e6)
}

// ErrExceeded says that a limit leaves no room for an estimate. Nothing was reserved.
var ErrExceeded = errors.New("spend: the limit is reached")

// ExceededError is an ErrExceeded with its facts.
type ExceededError struct {
	Limit, Spent, Estimate Amount
	// Until is how long it is until the day is over, and its account with it.
	Until time.Duration
}

func (e *ExceededError) Error() string {
	return fmt.Sprintf("%s of %s are spent or reserved today, and this takes about %s", e.Spent, e.Limit, e.Estimate)
}

func (e *ExceededError) Unwrap() error { return ErrExceeded }

// mostAccounts bounds the owners of a day: a caller may be able to invent them.
const mostAccounts = 100_000

// Book keeps the accounts of a day. It is safe for concurrent use; New makes one.
type Book struct {
	now func() time.Time

	fleet Fleet // nil: this book is the only one

	mu       sync.Mutex
	day      int64
	accounts map[string]*account
}

type account struct {
	spent    Amount // and reserved
	reserved Amount // of that, until it is settled

	// known is what all books had together when they were last asked, and at what this one had then.
	known, at Amount
	asked     bool
}

// New returns a Book whose days begin at midnight UTC by now.
func New(now func() time.Time) *Book { return &Book{now: now, accounts: map[string]*account{}} }

const day = 24 * time.Hour

// open is the account of a key on this day.
func (b *Book) open(key string) *account {
	b.turn()
	return b.at(key)
}

// turn ends the accounts of an earlier day.
func (b *Book) turn() {
	if today := b.now().Unix() / int64(day/time.Second); today != b.day {
		b.day = today
		clear(b.accounts)
	}
}

// at is the account of a key. Beyond mostAccounts all further keys share one.
func (b *Book) at(key string) *account {
	a := b.accounts[key]
	if a == nil && len(b.accounts) >= mostAccounts {
		key = ""
		a = b.accounts[key]
	}
	if a == nil {
		a = &account{}
		b.accounts[key] = a
	}
	return a
}

// Reserve takes an estimate out of what a limit leaves of a key's day. A limit of 0 is none. The error is an
// *ExceededError.
func (b *Book) Reserve(key string, limit, estimate Amount) (*Reservation, error) {
	if b.fleet != nil && limit > 0 {
		return b.reserveShared(key, limit, estimate)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reserve(key, limit, estimate)
}

func (b *Book) reserve(key string, limit, estimate Amount) (*Reservation, error) {
	a := b.open(key)
	if limit > 0 && a.spent+estimate > limit {
		return nil, b.exceeded(limit, a.spent, estimate)
	}
	if !mutant.On("spend-unreserved") {
		a.spent += estimate
	}
	a.reserved += estimate
	return &Reservation{book: b, account: a, amount: estimate}, nil
}

// Add counts what was spent already on this day, as a log says.
func (b *Book) Add(key string, spent Amount) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open(key).spent += min(max(spent, 0), most)
}

// AtLeast raises each account to what another book has counted for it, as a log says, and what is reserved here beside that:
// what both know of counts once, however often it is counted. What is of another day changes nothing.
func (b *Book) AtLeast(counted *Book) {
	b.mu.Lock()
	defer b.mu.Unlock()
	counted.mu.Lock()
	defer counted.mu.Unlock()
	if b.turn(); counted.day != b.day {
		return
	}
	sums := make(map[*account]Amount, len(counted.accounts)) // some keys may share an account here
	for key, a := range counted.accounts {
		sums[b.at(key)] += a.spent
	}
	for a, sum := range sums {
		a.spent = max(a.spent, sum+a.reserved)
	}
}

// Refund takes back what counted as spent and turned out not to have been. What is of an earlier day changes nothing.
func (b *Book) Refund(key string, amount Amount, since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if since.Before(b.now().Truncate(day)) {
		return
	}
	a := b.open(key)
	a.spent = max(0, a.spent-amount)
	if b.fleet != nil {
		b.fleet.Add(key, b.day, int64(-amount))
	}
}

// Spent is what a key's day has cost so far, reservations included.
func (b *Book) Spent(key string) Amount {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open(key).spent
}

// Reservation is an estimate that is out of the budget. One of its three ends comes first, and the others do nothing then;
// a nil one is of no budget.
type Reservation struct {
	book    *Book
	account *account
	amount  Amount
	ended   bool

	shared bool // under this key and on this day, with other books
	key    string
	day    int64
}

// Release gives it back: nothing was spent.
func (r *Reservation) Release() { r.end(0) }

// Keep leaves it spent: it may have been, and counts so until somebody knows better.
func (r *Reservation) Keep() {
	if r != nil {
		if mutant.On("unknown-is-free") {
			r.end(0)
		}
		r.end(r.amount)
	}
}

// Settle counts what it has cost in its place, and returns by how much that is more than was reserved.
func (r *Reservation) Settle(cost Amount) (over Amount) {
	if r == nil {
		return 0
	}
	r.end(cost)
	return max(0, cost-r.amount)
}

func (r *Reservation) end(cost Amount) {
	if r == nil {
		return
	}
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	if r.ended {
		return
	}
	r.ended = true
	r.account.spent += min(max(cost, 0), most) - r.amount
	r.account.reserved -= r.amount
	if r.shared {
		r.book.fleet.Add(r.key, r.day, int64(min(max(cost, 0), most)-r.amount))
	}
}
