package spread

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// Get implements ledger.Ledger.
func (l *Ledger) Get(ctx context.Context, id string) (*ledger.Record, error) {
	if s := l.known(id); s != nil {
		return s.Get(ctx, id)
	}
	_, r, err := l.look(ctx, id)
	return r, err
}

// History implements ledger.Ledger.
func (l *Ledger) History(ctx context.Context, id string) ([]ledger.Event, error) {
	s, err := l.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.History(ctx, id)
}

// Body implements ledger.Ledger.
func (l *Ledger) Body(ctx context.Context, id string, kind ledger.BodyKind) (*ledger.Body, error) {
	s, err := l.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.Body(ctx, id, kind)
}

// Holder implements ledger.Ledger.
func (l *Ledger) Holder(ctx context.Context, key string) (*ledger.Record, error) {
	s := l.home(key)
	r, err := s.Holder(ctx, key)
	if err == nil {
		l.seen(s, r)
	}
	return r, err
}

// Derived implements ledger.Ledger.
func (l *Ledger) Derived(ctx context.Context, key string, limit int) ([]*ledger.Record, error) {
	s := l.home(key)
	records, err := s.Derived(ctx, key, limit)
	l.seen(s, records...)
	return records, err
}

// DerivedKeys implements ledger.KeyFilter; limit bounds each store.
func (l *Ledger) DerivedKeys(ctx context.Context, limit int) (func(key string) bool, error) {
	has, errs := ask(l.stores, func(s *store) (func(string) bool, error) {
		if f, ok := s.Ledger.(ledger.KeyFilter); ok {
			return f.DerivedKeys(ctx, limit)
		}
		return nil, nil
	})
	if err := first(errs); err != nil {
		return nil, err
	}
	for _, f := range has {
		if f == nil {
			return nil, nil
		}
	}
	return func(key string) bool { return has[l.home(key).at](key) }, nil
}

const (
	pageDefault = 100
	pageMax     = 1000
)

func pageOf(limit int) int {
	if limit <= 0 {
		return pageDefault
	}
	return min(limit, pageMax)
}

// List implements ledger.Ledger. A list that lacks what one store holds is not given for the whole: that is ErrUnavailable. Of a key
// one store alone is asked.
func (l *Ledger) List(ctx context.Context, f ledger.Filter) ([]*ledger.Record, error) {
	f.Limit = pageOf(f.Limit)
	from := l.stores
	if f.Key != "" {
		from = []*store{l.home(f.Key)}
	}
	pages, errs := l.pages(from, func(s *store) ([]*ledger.Record, error) { return s.List(ctx, f) })
	if err := first(errs); err != nil {
		return nil, incomplete(err)
	}
	return merge(pages, f.Limit, func(a, b *ledger.Record) bool { return a.ID > b.ID }), nil
}

func incomplete(err error) error {
	return fmt.Errorf("one of the stores cannot be read, and without it a listing is not whole: %w", err)
}

// Open implements ledger.Ledger. What a store holds that is away is not among it: nobody can move it on either.
func (l *Ledger) Open(ctx context.Context, after string, limit int) ([]*ledger.Record, error) {
	pages, errs := l.pages(l.stores, func(s *store) ([]*ledger.Record, error) { return s.Open(ctx, after, limit) })
	if err := there(errs); err != nil {
		return nil, err
	}
	return merge(pages, limit, func(a, b *ledger.Record) bool { return a.ID < b.ID }), nil
}

// Due implements ledger.Ledger, without what a store holds that is away.
func (l *Ledger) Due(ctx context.Context, now time.Time, limit int) ([]*ledger.Record, error) {
	pages, errs := l.pages(l.stores, func(s *store) ([]*ledger.Record, error) { return s.Due(ctx, now, limit) })
	if err := there(errs); err != nil {
		return nil, err
	}
	return merge(pages, limit, func(a, b *ledger.Record) bool { return a.ExpiresAt.Before(b.ExpiresAt) }), nil
}

// there is nil where a store answered and the others are merely away.
func there(errs []error) error {
	for _, err := range errs {
		if err != nil && !unavailable(err) {
			return err
		}
	}
	return some(errs)
}

// pages are the records of each store.
func (l *Ledger) pages(from []*store, read func(*store) ([]*ledger.Record, error)) ([][]*ledger.Record, []error) {
	return ask(from, func(s *store) ([]*ledger.Record, error) {
		records, err := read(s)
		l.seen(s, records...)
		return records, err
	})
}

// merge puts pages together, each of which keeps its own order.
func merge[T any](pages [][]T, limit int, before func(a, b T) bool) []T {
	var out []T
	for len(out) < limit {
		next := -1
		for i, p := range pages {
			if len(p) > 0 && (next < 0 || before(p[0], pages[next][0])) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		out, pages[next] = append(out, pages[next][0]), pages[next][1:]
	}
	return out
}

// Counts implements ledger.Ledger.
func (l *Ledger) Counts(ctx context.Context) (map[ledger.State]int64, error) {
	each, errs := ask(l.stores, func(s *store) (map[ledger.State]int64, error) { return s.Counts(ctx) })
	if err := first(errs); err != nil {
		return nil, incomplete(err)
	}
	sum := map[ledger.State]int64{}
	for _, counts := range each {
		for state, n := range counts {
			sum[state] += n
		}
	}
	return sum, nil
}

// Cached implements ledger.Ledger. Of one intent its own store alone is asked.
func (l *Ledger) Cached(ctx context.Context, f ledger.CachedFilter) ([]ledger.Cached, error) {
	f.Limit = pageOf(f.Limit)
	from := l.stores
	if f.Intent != "" {
		s, err := l.find(ctx, f.Intent)
		if errors.Is(err, ledger.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		from = []*store{s}
	}
	pages, errs := ask(from, func(s *store) ([]ledger.Cached, error) { return s.Cached(ctx, f) })
	if err := first(errs); err != nil {
		return nil, incomplete(err)
	}
	return merge(pages, f.Limit, func(a, b ledger.Cached) bool {
		return cmp.Or(cmp.Compare(a.Intent, b.Intent), cmp.Compare(a.Kind, b.Kind)) > 0
	}), nil
}

// Uncache implements ledger.Ledger.
func (l *Ledger) Uncache(ctx context.Context, rows []ledger.CachedRef) error {
	if len(rows) == 0 {
		return nil
	}
	of := map[*store][]ledger.CachedRef{}
	for _, r := range rows {
		if s := l.known(r.Intent); s != nil {
			of[s] = append(of[s], r)
			continue
		}
		for _, s := range l.stores {
			of[s] = append(of[s], r)
		}
	}
	_, errs := ask(l.stores, func(s *store) (struct{}, error) {
		if len(of[s]) == 0 {
			return struct{}{}, nil
		}
		return struct{}{}, s.Uncache(ctx, of[s])
	})
	return first(errs)
}
