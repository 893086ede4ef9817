package sqlite

import (
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

// statement is a prepared statement of the writer that knows what is bound to it. Binding a text costs an
// allocation inside SQLite, and from one call to the next most columns stay what they were: state, tenant, model,
// route, and everything that is empty. Those are not bound again.
type statement struct {
	*sqlite3.Stmt
	bound []bound // by parameter, from 1
}

// bound is what a parameter has. The zero value is NULL, which is what a new statement has.
type bound struct {
	kind boundKind
	int  int64
	text string
}

type boundKind uint8

const (
	boundNull  boundKind = iota
	boundInt             // int
	boundText            // text
	boundOther           // something that is not remembered
)

// rememberMax bounds the texts that are remembered; longer ones do not repeat.
const rememberMax = 128

func newStatement(st *sqlite3.Stmt) *statement {
	return &statement{Stmt: st, bound: make([]bound, st.BindCount()+1)}
}

// binder binds the columns of one row in order. Zero values are NULL: they cost no byte, and most columns of most
// rows are zero.
type binder struct {
	st  *statement
	n   int
	err error
}

func (b *binder) must(err error) {
	if err != nil && b.err == nil {
		b.err = err
	}
}

func (b *binder) next() *bound {
	b.n++
	return &b.st.bound[b.n]
}

func (b *binder) null() {
	if at := b.next(); at.kind != boundNull {
		*at = bound{}
		b.must(b.st.BindNull(b.n))
	}
}

// text binds a value that may well be the last row's.
func (b *binder) text(v string) {
	if v == "" {
		b.null()
		return
	}
	at := b.next()
	if at.kind == boundText && at.text == v {
		return
	}
	*at = bound{kind: boundOther}
	if len(v) <= rememberMax {
		*at = bound{kind: boundText, text: strings.Clone(v)} // not the caller's memory, of which v may be a part
	}
	b.must(b.st.BindText(b.n, v))
}

// unique binds a text that never repeats.
func (b *binder) unique(v string) {
	if v == "" {
		b.null()
		return
	}
	b.next().kind = boundOther
	b.must(b.st.BindText(b.n, v))
}

// raw binds a text that never repeats; nil is NULL.
func (b *binder) raw(v []byte) {
	if v == nil {
		b.null()
		return
	}
	b.next().kind = boundOther
	b.must(b.st.BindRawText(b.n, v))
}

// blob binds bytes, which are not NULL when they are none.
func (b *binder) blob(v []byte) {
	b.next().kind = boundOther
	b.must(b.st.BindBlob(b.n, v))
}

func (b *binder) blobOrNull(v []byte) {
	if v == nil {
		b.null()
		return
	}
	b.blob(v)
}

// number binds v, zero too.
func (b *binder) number(v int64) {
	if at := b.next(); at.kind != boundInt || at.int != v {
		*at = bound{kind: boundInt, int: v}
		b.must(b.st.BindInt64(b.n, v))
	}
}

func (b *binder) int(v int64) {
	if v == 0 {
		b.null()
		return
	}
	b.number(v)
}

func (b *binder) float(v float64) {
	if v == 0 {
		b.null()
		return
	}
	b.next().kind = boundOther
	b.must(b.st.BindFloat(b.n, v))
}

func (b *binder) bool(v bool) {
	if v {
		b.number(1)
	} else {
		b.null()
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
	b.int(stored.Micros(s.ReadyAt))
	b.int(stored.Micros(s.ExpiresAt))
	b.int(s.RetryAfter.Microseconds())
	b.text(s.LeaseOwner)
	b.int(stored.Micros(s.LeaseUntil))
	b.bool(s.Partial)
	b.int(int64(s.BilledMaybe))
	b.text(s.LastError)
	b.int(s.UsageIn)
	b.int(s.UsageOut)
	b.int(stored.Micros(s.UpdatedAt))
}

// answer binds the answer's part of resultColumns.
func (b *binder) answer(a *ledger.Answer, header []byte) {
	if a == nil {
		for range 5 {
			b.null()
		}
		return
	}
	b.number(int64(a.HTTPStatus)) // present, even as 0: an answer was kept
	b.text(string(header))
	b.text(a.Source)
	b.int(int64(a.Events))
	b.bool(a.HasBody)
}

// inline binds inlineColumns.
func (b *binder) inline(p *stored.Packed) {
	if p == nil {
		for range 5 {
			b.null()
		}
		return
	}
	b.body(p)
}

// body binds bodyColumns.
func (b *binder) body(p *stored.Packed) {
	b.text(p.ContentType)
	b.bool(p.Packed)
	b.number(int64(p.Size))
	b.number(p.Digest)
	b.blob(p.Data)
}

// run executes st with a few arguments that are all present. It is for statements outside the writer's own.
func run(st *sqlite3.Stmt, args ...any) error {
	if err := bindAll(st, args...); err != nil {
		return err
	}
	return st.Exec()
}
