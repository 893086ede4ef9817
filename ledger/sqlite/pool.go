package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/ledger"
)

// reader is one read-only connection with the statements it has used.
type reader struct {
	conn  *sqlite3.Conn
	stmts map[string]*sqlite3.Stmt
}

// statements bounds how many statements a reader keeps: those of List are composed from its filter.
const statements = 64

// prepared returns the statement for query, ready to bind.
func (r *reader) prepared(query string) (*sqlite3.Stmt, error) {
	if st := r.stmts[query]; st != nil {
		return st, nil
	}
	if len(r.stmts) >= statements {
		for q, st := range r.stmts {
			_ = st.Close()
			delete(r.stmts, q)
			break
		}
	}
	st, _, err := r.conn.PrepareFlags(query, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, err
	}
	r.stmts[query] = st
	return st, nil
}

// each runs query and calls row for each of its rows.
func (r *reader) each(query string, args []any, row func(*sqlite3.Stmt) error) (err error) {
	st, err := r.prepared(query)
	if err != nil {
		return err
	}
	defer func() {
		if e := st.Reset(); err == nil {
			err = e
		}
	}()
	if err := bindAll(st, args...); err != nil {
		return err
	}
	for st.Step() {
		if err := row(st); err != nil {
			return err
		}
	}
	return st.Err()
}

func (r *reader) close() {
	closeStatements(r.conn)
	_ = r.conn.Close()
}

// pool lends readers. A slot is a reader or nil for one that is opened when it is needed.
type pool struct {
	files *files
	slots chan *reader
	done  chan struct{}
}

func newPool(f *files, n int) *pool {
	p := &pool{files: f, slots: make(chan *reader, n), done: make(chan struct{})}
	for range n {
		p.slots <- nil
	}
	return p
}

// with lends fn a reader. Its errors that are not the port's already become ErrUnavailable; ctx interrupts.
func (p *pool) with(ctx context.Context, fn func(*reader) error) error {
	r, err := p.borrow(ctx)
	if err != nil {
		return err
	}
	old := r.conn.SetInterrupt(ctx)
	err = fn(r)
	r.conn.SetInterrupt(old)
	if err == nil || errors.Is(err, ledger.ErrNotFound) {
		p.slots <- r
		return err
	}
	r.close()
	p.slots <- nil
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return unavailable(err)
}

func (p *pool) borrow(ctx context.Context) (*reader, error) {
	select {
	case <-p.done:
		return nil, ledger.ErrClosed
	default:
	}
	var r *reader
	select {
	case r = <-p.slots:
	case <-p.done:
		return nil, ledger.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if r != nil {
		return r, nil
	}
	c, err := p.files.openReader()
	if err != nil {
		p.slots <- nil
		return nil, unavailable(fmt.Errorf("cannot read %s: %w", p.files.path, err))
	}
	return &reader{conn: c, stmts: map[string]*sqlite3.Stmt{}}, nil
}

// drop waits for the readers that are lent and closes all; later ones open the file anew.
func (p *pool) drop() {
	p.collect()
	for range cap(p.slots) {
		p.slots <- nil
	}
}

// close waits for the readers that are lent and closes all.
func (p *pool) close() {
	close(p.done)
	p.collect()
}

func (p *pool) collect() {
	for range cap(p.slots) {
		if r := <-p.slots; r != nil {
			r.close()
		}
	}
}
