package spread

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// Cooldown implements ledger.Ledger: in every store that is there.
func (l *Ledger) Cooldown(ctx context.Context, route string, until time.Time, reason string) (time.Time, error) {
	all, errs := ask(l.stores, func(s *store) (time.Time, error) { return s.Cooldown(ctx, route, until, reason) })
	if err := some(errs); err != nil {
		return time.Time{}, err
	}
	return slices.MaxFunc(all, time.Time.Compare), nil
}

// ClearCooldown implements ledger.Ledger. It is an error where a store may still have it.
func (l *Ledger) ClearCooldown(ctx context.Context, route string) error {
	_, errs := ask(l.stores, func(s *store) (struct{}, error) { return struct{}{}, s.ClearCooldown(ctx, route) })
	return first(errs)
}

// Cooldowns implements ledger.Ledger: the longest that a store has of each route.
func (l *Ledger) Cooldowns(ctx context.Context) (map[string]time.Time, error) {
	all, errs := ask(l.stores, func(s *store) (map[string]time.Time, error) { return s.Cooldowns(ctx) })
	if err := some(errs); err != nil {
		return nil, err
	}
	out := map[string]time.Time{}
	for _, each := range all {
		for route, until := range each {
			if until.After(out[route]) {
				out[route] = until
			}
		}
	}
	return out, nil
}

// PutPolicy implements ledger.Ledger: in every store that is there.
func (l *Ledger) PutPolicy(ctx context.Context, revision string, text []byte) error {
	_, errs := ask(l.stores, func(s *store) (struct{}, error) { return struct{}{}, s.PutPolicy(ctx, revision, text) })
	return some(errs)
}

// Secret implements ledger.Ledger. A set has those of one store, whichever that was at its beginning.
func (l *Ledger) Secret(ctx context.Context, name string) ([]byte, error) {
	if known, ok := l.secrets.Load(name); ok {
		return slices.Clone(known.([]byte)), nil
	}
	secret, err := l.anchor.Secret(ctx, name)
	if err != nil {
		return nil, err
	}
	l.secrets.Store(name, slices.Clone(secret))
	return secret, nil
}

// Sweep implements ledger.Ledger. A call works on one store, the next on the one behind it; p bounds each of them by itself. A store that is away is
// gone by, and told of when the others are done.
func (l *Ledger) Sweep(ctx context.Context, p ledger.Retention) (ledger.Swept, bool, error) {
	var away error
	for range l.stores {
		s := l.stores[l.sweepTurn.Add(1)%uint64(len(l.stores))]
		swept, more, err := s.Sweep(ctx, p)
		switch {
		case err != nil:
			away = err
		case more || swept != (ledger.Swept{}):
			return swept, true, nil
		}
	}
	return ledger.Swept{}, false, away
}

// Notices implements ledger.Notifier, for the stores that tell of anything.
func (l *Ledger) Notices(f func(ledger.Notice)) (stop func()) {
	var stops []func()
	for _, s := range l.stores {
		if n, ok := s.Ledger.(ledger.Notifier); ok {
			stops = append(stops, n.Notices(f))
		}
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}
