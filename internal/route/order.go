package route

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

const (
	maxOrders  = 1000
	maxPattern = 512
)

// ErrPattern refuses a pattern that names no route, or one too many.
var ErrPattern = errors.New("route: bad pattern")

// Order is what an operator said of the routes that match a pattern; it holds for those not seen yet, too.
type Order struct {
	Pattern string
	Trip    bool // else pause
	Lifted  bool // resumed or reset: an exception from a wider order
	Reason  string
	At      time.Time
}

func (n *Order) verb() string {
	switch {
	case n.Trip && n.Lifted:
		return "reset"
	case n.Trip:
		return "tripped"
	case n.Lifted:
		return "resumed"
	}
	return "paused"
}

// orders are all orders in force, oldest first. The last one of its kind that matches a route holds for it.
type orders struct{ list []Order }

// add puts an order in the place of all that it overrules. Where nothing is left to be lifted, exceptions go, too.
func (o *orders) add(n Order) error {
	list := slices.DeleteFunc(slices.Clone(o.list), func(old Order) bool {
		return old.Trip == n.Trip && (n.Pattern == "*" || old.Pattern == n.Pattern)
	})
	standing := slices.ContainsFunc(list, func(old Order) bool { return old.Trip == n.Trip && !old.Lifted })
	if n.Lifted && !standing {
		o.list = slices.DeleteFunc(list, func(old Order) bool { return old.Trip == n.Trip })
		return nil
	}
	if len(list) >= maxOrders {
		return fmt.Errorf("%w: %d orders stand already; lift them with the pattern *", ErrPattern, maxOrders)
	}
	o.list = append(list, n)
	return nil
}

// last returns the order of a kind that holds for key, nil when none does.
func (o *orders) last(key string, trip bool) *Order {
	for i := len(o.list) - 1; i >= 0; i-- {
		if n := &o.list[i]; n.Trip == trip && match(n.Pattern, key) {
			if n.Lifted {
				return nil
			}
			return n
		}
	}
	return nil
}

// tell lets a new route know what was said before it was seen.
func (o *orders) tell(r *Route, log *slog.Logger) {
	if n := o.last(r.key, false); n != nil {
		reason := n.Reason
		r.paused.Store(&reason)
		log.Info("a new route is paused", "route", r.key, "pattern", n.Pattern, "reason", n.Reason)
	}
	if n := o.last(r.key, true); n != nil {
		r.breaker.Trip(n.Reason)
		log.Info("a new route is tripped", "route", r.key, "pattern", n.Pattern, "reason", n.Reason)
	}
}

// Pause refuses all calls on the routes that match, until Resume. It returns how many are known; ErrPattern.
func (t *Table) Pause(pattern, reason string) (int, error) {
	return t.say(Order{Pattern: pattern, Reason: reason}, func(r *Route) {
		r.paused.Store(&reason)
		r.gate.wake()
	})
}

// Resume lifts Pause.
func (t *Table) Resume(pattern string) (int, error) {
	return t.say(Order{Pattern: pattern, Lifted: true}, func(r *Route) { r.paused.Store(nil) })
}

// Trip opens the breakers of the routes that match, until Reset.
func (t *Table) Trip(pattern, reason string) (int, error) {
	return t.say(Order{Pattern: pattern, Trip: true, Reason: reason}, func(r *Route) {
		r.breaker.Trip(reason)
		r.gate.wake()
	})
}

// Reset closes the breakers of the routes that match, lifts the limits that their signals have led to, and ends their
// cool-downs, also those that only the ledger knows of. It returns how many routes are known, and what kept a row from being removed.
func (t *Table) Reset(ctx context.Context, pattern string) (int, error) {
	n, err := t.say(Order{Pattern: pattern, Trip: true, Lifted: true}, func(r *Route) {
		r.row.forget()
		r.gate.clear()
		r.breaker.Reset()
		r.pressure.relieve()
	})
	if err != nil || t.cfg.Cooldowns == nil {
		return n, err
	}
	rows, err := t.cfg.Cooldowns.Cooldowns(ctx)
	if err != nil {
		return n, fmt.Errorf("route: cool-downs are reset here, but the ledger cannot be read, and a restart takes them over; reset again: %w", err)
	}
	for key := range rows {
		if match(pattern, key) {
			err = errors.Join(err, t.cfg.Cooldowns.ClearCooldown(ctx, key))
		}
	}
	return n, err
}

// say notes an order and carries it out.
func (t *Table) say(n Order, do func(*Route)) (int, error) {
	if err := checkPattern(n.Pattern); err != nil {
		return 0, err
	}
	t.voice.Lock()
	defer t.voice.Unlock()
	n.At = time.Now()
	t.mu.Lock()
	if err := t.said.add(n); err != nil {
		t.mu.Unlock()
		return 0, err
	}
	routes := t.all(n.Pattern)
	t.mu.Unlock()
	for _, r := range routes {
		do(r)
	}
	t.log.Debug("routes "+n.verb(), "pattern", n.Pattern, "reason", n.Reason, "known", len(routes))
	return len(routes), nil
}

// Orders returns what operators said and what still holds, oldest first.
func (t *Table) Orders() []Order {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.said.list)
}

func checkPattern(p string) error {
	switch {
	case p == "":
		return fmt.Errorf("%w: it is empty; name a route, or a pattern such as openai/*", ErrPattern)
	case len(p) > maxPattern:
		return fmt.Errorf("%w: it is longer than %d bytes", ErrPattern, maxPattern)
	}
	return nil
}

// Names reports whether an order's pattern names a route.
func Names(pattern, route string) bool { return match(pattern, route) }

// match reports whether a pattern, in which * stands for any characters, matches all of s.
func match(pattern, s string) bool {
	head, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == s
	}
	if s, wild = strings.CutPrefix(s, head); !wild {
		return false
	}
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(s, part)
		}
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s, rest = s[i+len(part):], after
	}
}
