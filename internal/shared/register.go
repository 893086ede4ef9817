package shared

import (
	"context"
	"sync"
	"time"
)

// mostRegisters bounds what is kept of the store's registers: others may have more of them than this process has use for.
const mostRegisters = 20_000

// registers are those of the store that are known here, and what this process makes of them.
type registers struct {
	s     *State
	since time.Time // the store's time of the last reading; the background's alone

	mu    sync.Mutex
	known map[string]Register
	users map[string]user
}

// user is told of what stands in a register. It holds no lock of registers' while it does something.
type user interface {
	// heard is told of what another one wrote, in no order.
	heard(r Register)
	// rejoin says what to write over a register after the store was away, false for nothing; r.Version 0: the store knows of none.
	rejoin(r Register) (value []byte, ttl time.Duration, write bool)
}

func (g *registers) init(s *State) {
	g.s, g.known, g.users = s, map[string]Register{}, map[string]user{}
}

// use has u told of a register from now on, and of what stands in it now. A later one takes the place of an earlier.
func (g *registers) use(key string, u user) {
	g.mu.Lock()
	g.users[key] = u
	r, ok := g.known[key]
	g.mu.Unlock()
	if ok {
		u.heard(r)
	}
}

// leave ends use, where u still has it.
func (g *registers) leave(key string, u user) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users[key] == u {
		delete(g.users, key)
	}
}

// note keeps what was read, and says who is to hear of it.
func (g *registers) note(r Register) user {
	g.mu.Lock()
	defer g.mu.Unlock()
	u := g.users[r.Key]
	switch old, ok := g.known[r.Key]; {
	case r.Version == 0:
		delete(g.known, r.Key)
	case ok && old.Version >= r.Version:
		return nil
	case ok || u != nil || len(g.known) < mostRegisters:
		g.known[r.Key] = r
	}
	return u
}

// poll reads what was written since the last time.
func (g *registers) poll(ctx context.Context, d Driver) error {
	since := g.since
	if !since.IsZero() {
		since = since.Add(-overlap)
	}
	changed, now, err := d.Changed(ctx, since)
	if err != nil {
		return err
	}
	g.since = now
	g.s.clock.Store(&clock{theirs: now, ours: time.Now()})
	for _, r := range changed {
		if u := g.note(r); u != nil {
			u.heard(r)
		}
	}
	return nil
}

// rejoin reads everything anew, and writes what this process knows better.
func (g *registers) rejoin(ctx context.Context, d Driver) error {
	g.mu.Lock()
	clear(g.known)
	g.mu.Unlock()
	g.since = time.Time{}
	all, now, err := d.Changed(ctx, time.Time{})
	if err != nil {
		return err
	}
	g.since = now
	g.s.clock.Store(&clock{theirs: now, ours: time.Now()})
	for _, r := range all {
		g.note(r)
	}
	for key, u := range g.everybody() {
		if err := g.agree(ctx, d, key, u); err != nil {
			return err
		}
	}
	return nil
}

func (g *registers) everybody() map[string]user {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make(map[string]user, len(g.users))
	for key, u := range g.users {
		out[key] = u
	}
	return out
}

// agree has a user and the store know the same.
func (g *registers) agree(ctx context.Context, d Driver, key string, u user) error {
	for {
		g.mu.Lock()
		r := g.known[key]
		g.mu.Unlock()
		r.Key = key
		value, ttl, write := u.rejoin(r)
		if !write {
			u.heard(r)
			return nil
		}
		now, ok, err := d.Swap(ctx, Register{Key: key, Version: r.Version, Value: value}, ttl)
		if err != nil {
			return err
		}
		g.note(now)
		if ok {
			u.heard(now)
			return nil
		}
	}
}

// swap writes a register for a request. What stands there then is returned; an error is an ErrDown.
func (g *registers) swap(op string, next Register, ttl time.Duration) (now Register, ok bool, err error) {
	err = g.s.ask(op, func(ctx context.Context, d Driver) (err error) {
		now, ok, err = d.Swap(ctx, next, ttl)
		return err
	})
	if err == nil {
		now.Key = next.Key
		g.note(now)
	}
	return now, ok, err
}
