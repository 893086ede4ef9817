package sqlite

import (
	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/ledger"
)

// binder binds the columns of one row in order. Zero values stay NULL: they cost neither a call nor a byte, and
// most columns of most rows are zero.
type binder struct {
	st      *sqlite3.Stmt
	n       int
	cleared bool
	err     error
}

func (b *binder) must(err error) {
	if err != nil && b.err == nil {
		b.err = err
	}
}

// next moves to the next column, forgetting the previous row's values at the first one.
func (b *binder) next() int {
	if !b.cleared {
		b.must(b.st.ClearBindings())
		b.cleared = true
	}
	b.n++
	return b.n
}

func (b *binder) text(v string) {
	if n := b.next(); v != "" {
		b.must(b.st.BindText(n, v))
	}
}

func (b *binder) raw(v []byte) {
	if n := b.next(); v != nil {
		b.must(b.st.BindRawText(n, v))
	}
}

func (b *binder) int(v int64) {
	if n := b.next(); v != 0 {
		b.must(b.st.BindInt64(n, v))
	}
}

func (b *binder) bool(v bool) {
	if n := b.next(); v {
		b.must(b.st.BindInt64(n, 1))
	}
}

func (b *binder) exec() error {
	if b.err != nil {
		return b.err
	}
	return b.st.Exec()
}

// status binds statusColumns.
func (b *binder) status(s *ledger.Status) {
	b.int(s.Version)
	b.int(int64(s.State))
	b.int(int64(s.Outcome))
	b.text(s.Lane)
	b.int(int64(s.Visibility))
	b.int(int64(s.Delivery))
	b.int(int64(s.Attempt))
	b.int(int64(s.Crashes))
	b.text(s.RouteKey)
	b.text(s.ServedModel)
	b.text(s.Tier)
	b.int(micros(s.ReadyAt))
	b.int(micros(s.ExpiresAt))
	b.int(s.RetryAfter.Microseconds())
	b.text(s.LeaseOwner)
	b.int(micros(s.LeaseUntil))
	b.bool(s.Partial)
	b.int(int64(s.BilledMaybe))
	b.text(s.LastError)
	b.int(s.UsageIn)
	b.int(s.UsageOut)
	b.int(micros(s.UpdatedAt))
}

// answer binds the answer's part of resultColumns.
func (b *binder) answer(a *ledger.Answer, header []byte) {
	if a == nil {
		b.n += 5
		return
	}
	b.next()
	b.must(b.st.BindInt(b.n, a.HTTPStatus)) // present, even as 0: an answer was kept
	b.raw(header)
	b.text(a.Source)
	b.int(int64(a.Events))
	b.bool(a.HasBody)
}

// run executes st with a few arguments that are all present.
func run(st *sqlite3.Stmt, args ...any) error {
	if err := bindAll(st, args...); err != nil {
		return err
	}
	return st.Exec()
}
