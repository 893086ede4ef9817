// Package shared has replicas act as one: breakers, slots and what is spent in a day stand in a store that all of them ask.
//
// The rules:
//
//   - Nobody waits long for the store. One call to it has half of Config.Timeout; the first one that fails or takes longer, or the
//     third in a row that takes a quarter, has this process let go of it: from then on everything is local, and costs no call.
//   - One goroutine finds out whether it is back. Then what was learnt meanwhile is told to it, and only then it counts again.
//   - Local, a process keeps to its share: limits are divided by the number of replicas that Config.Replicas says.
//   - No lock is held while the store is asked.
//   - What has to be asked before a call is asked: a probe's place, slots beyond those held, money under a limit. All else is told
//     behind the call, or together with other things: slots that came back, what a call has cost.
package shared

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

const (
	// pollEvery is how often what others have written is read: the time after which a breaker that one has opened is open everywhere.
	pollEvery = 250 * time.Millisecond
	// overlap is how far behind the last reading the next one begins: writes that overtook one another are not missed.
	overlap = 5 * time.Second
	// slowest calls in a row that take so long, a part of the timeout, are as bad as one that takes longer.
	slowest   = 3
	slowShare = 4
	callShare = 2
	// openWait bounds what the background may wait for; no request waits for it.
	openWait = 2 * time.Second
	// firstProbe and lastProbe bound the time between two looks at a store that was let go of.
	firstProbe = 50 * time.Millisecond
	lastProbe  = time.Second
)

// ErrDown says that the store was not asked, or did not answer in time: what follows is local.
var ErrDown = errors.New("shared: the store of shared state is not there")

// ErrStale refuses a claim that came behind a later one of the same holder.
var ErrStale = errors.New("shared: a later claim was here before")

// Config is what a State stands on.
type Config struct {
	// Open connects to the store. It is asked again as long as it fails.
	Open func(ctx context.Context) (Driver, error)
	// Name is the store's address for people, without its password.
	Name string
	// Holder tells this process from all others that ever share the store.
	Holder string
	// Timeout bounds what a request waits for the store; 100 ms.
	Timeout time.Duration
	// Replicas is how many processes share the store: each one's share of a limit while the store is away.
	Replicas int
	// Logger hears of each transition once; nil: nothing is logged.
	Logger *slog.Logger
	// Observer hears of calls; nil: nobody does.
	Observer Observer
}

// Observer hears of what is asked of the store, and must not block.
type Observer interface {
	// SharedCall is told of one call to the store; failed is one that was not answered in time, or by an error.
	SharedCall(op string, took time.Duration, failed bool)
	// SharedLocal is told of one thing that was done locally because the store is away.
	SharedLocal(op string)
	// SharedUp is told of each transition.
	SharedUp(up bool)
}

// State is what this process shares with others. New makes one; Close ends it.
type State struct {
	cfg  Config
	log  *slog.Logger
	up   atomic.Bool
	slow atomic.Int32

	replicas atomic.Int64

	calls  atomic.Int64 // made for requests; tests count them
	locals atomic.Int64

	link  atomic.Pointer[link] // nil until the store was reached
	clock atomic.Pointer[clock]
	lost  chan struct{} // tells the background that the store was let go of

	registers registers
	pools     pools
	sums      sums

	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup
}

// link is one time that the store was there: ctx ends when it is let go of, and with it whoever waits.
type link struct {
	driver Driver
	ctx    context.Context
	stop   context.CancelCauseFunc
}

// clock is the store's time by the monotonic clock of this process.
type clock struct{ theirs, ours time.Time }

// New returns a State that looks for its store: where that is there within Config.Timeout it is up when New returns, else it begins
// local. Close ends it.
func New(ctx context.Context, cfg Config) *State {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 100 * time.Millisecond
	}
	s := &State{cfg: cfg, log: cfg.Logger, lost: make(chan struct{}, 1)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.replicas.Store(int64(max(1, cfg.Replicas)))
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.registers.init(s)
	s.pools.init(s)
	s.sums.init(s)
	first := make(chan error, 1)
	s.work.Go(func() { s.run(first) })
	wait := time.NewTimer(openWait)
	defer wait.Stop()
	var err error
	select {
	case err = <-first:
	case <-wait.C:
		err = fmt.Errorf("%w within %v", ErrDown, openWait)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		if cfg.Observer != nil {
			cfg.Observer.SharedUp(false)
		}
		s.log.Warn("shared state is not there: this process begins with its own share of every limit, and joins the others when it comes",
			"store", cfg.Name, "replicas", s.Replicas(), "error", err)
	}
	return s
}

// Close gives back what this process holds and ends the connection.
func (s *State) Close() {
	if s == nil {
		return
	}
	s.stop()
	s.work.Wait()
}

// Up reports whether the store is there. A nil State has none, and is never up.
func (s *State) Up() bool { return s != nil && s.up.Load() }

// Degraded reports whether there should be a store and is none.
func (s *State) Degraded() bool { return s != nil && !s.up.Load() }

// Replicas is how many share a limit while the store is away.
func (s *State) Replicas() int { return int(s.replicas.Load()) }

// SetReplicas changes Config.Replicas.
func (s *State) SetReplicas(n int) {
	s.replicas.Store(int64(max(1, n)))
	s.pools.align()
}

// Now is the store's time, as far as it was ever heard of; this machine's else.
func (s *State) Now() time.Time {
	if c := s.clock.Load(); c != nil {
		return c.theirs.Add(time.Since(c.ours))
	}
	return time.Now()
}

// share is a process's part of a limit: together they may have up to one less than a whole round more.
func (s *State) share(limit int) int {
	if limit <= 0 {
		return limit
	}
	n := s.Replicas()
	return (limit + n - 1) / n
}

// ask makes one call for a request. An error is an ErrDown, and then everybody is local.
func (s *State) ask(op string, f func(ctx context.Context, d Driver) error) error {
	if !s.up.Load() && !mutant.On("degraded-calls-store") {
		s.local(op)
		return ErrDown
	}
	l := s.link.Load()
	if l == nil {
		s.local(op)
		return ErrDown
	}
	s.calls.Add(1)
	ctx, stop := context.WithTimeout(l.ctx, s.cfg.Timeout/callShare)
	defer stop()
	began := time.Now()
	err := f(ctx, l.driver)
	took := time.Since(began)
	failed := err != nil && !errors.Is(err, ErrStale)
	s.told(op, took, failed)
	switch {
	case failed:
		s.drop(l, fmt.Errorf("%s: %w", op, err))
		s.local(op)
		return fmt.Errorf("%w: %w", ErrDown, err)
	case took < s.cfg.Timeout/slowShare:
		s.slow.Store(0)
	case s.slow.Add(1) >= slowest:
		s.drop(l, fmt.Errorf("%s: %d calls in a row took longer than %v, the last one %v", op, slowest, s.cfg.Timeout/slowShare, took))
	}
	return err
}

func (s *State) told(op string, took time.Duration, failed bool) {
	if s.cfg.Observer != nil {
		s.cfg.Observer.SharedCall(op, took, failed)
	}
}

func (s *State) local(op string) {
	s.locals.Add(1)
	if s.cfg.Observer != nil {
		s.cfg.Observer.SharedLocal(op)
	}
}

// drop lets go of the store: whoever waits for it goes on at once.
func (s *State) drop(l *link, why error) {
	if s.ctx.Err() != nil || s.link.Load() != l || !s.up.CompareAndSwap(true, false) {
		return
	}
	l.stop(why)
	s.pools.align()
	s.log.Warn("shared state does not answer in time: this process goes on with its own share of every limit until it does",
		"store", s.cfg.Name, "timeout", s.cfg.Timeout, "replicas", s.Replicas(), "error", why)
	if s.cfg.Observer != nil {
		s.cfg.Observer.SharedUp(false)
	}
	select {
	case s.lost <- struct{}{}:
	default:
	}
}

// run finds the store, keeps up with it, and finds it again.
func (s *State) run(first chan<- error) {
	var driver Driver
	for pause := firstProbe; s.ctx.Err() == nil; {
		err := s.join(&driver)
		if first != nil {
			first <- err
			first = nil
		}
		if err == nil {
			s.follow()
			pause = firstProbe
		}
		s.rest(pause)
		pause = min(2*pause, lastProbe)
	}
	s.leave(driver)
}

// rest sleeps about so long, so that replicas do not come back in step.
func (s *State) rest(d time.Duration) {
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
	}
}

// join connects where that is not so yet, takes over what stands in the store, tells it what it does not know, and puts it in force.
func (s *State) join(driver *Driver) error {
	ctx, stop := context.WithTimeout(s.ctx, openWait)
	defer stop()
	if *driver == nil {
		d, err := s.cfg.Open(ctx)
		if err != nil {
			return err
		}
		*driver = d
	}
	began := time.Now()
	if err := s.registers.rejoin(ctx, *driver); err != nil {
		return err
	}
	if took := time.Since(began); took > openWait/2 {
		return fmt.Errorf("%w: it answered after %v", ErrDown, took)
	}
	if err := s.sums.flush(ctx, *driver, mostPending); err != nil {
		return err
	}
	// It must be quick, too: what answers slowly would be let go of by the next request.
	quick, end := context.WithTimeout(ctx, s.cfg.Timeout/slowShare)
	defer end()
	if _, now, err := (*driver).Changed(quick, s.Now()); err != nil {
		return err
	} else {
		s.clock.Store(&clock{theirs: now, ours: time.Now()})
	}
	l := &link{driver: *driver}
	l.ctx, l.stop = context.WithCancelCause(s.ctx)
	s.link.Store(l)
	s.slow.Store(0)
	select {
	case <-s.lost:
	default:
	}
	s.up.Store(true)
	s.pools.align()
	s.log.Info("shared state is there", "store", s.cfg.Name)
	if s.cfg.Observer != nil {
		s.cfg.Observer.SharedUp(true)
	}
	return nil
}

// follow reads what others write and tells what nobody waits for, until the store is let go of.
func (s *State) follow() {
	var tending sync.WaitGroup
	defer tending.Wait()
	l := s.link.Load()
	tending.Go(func() { s.pools.tend(l.ctx) })
	tending.Go(func() { s.sums.tend(l.ctx) })
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.lost:
			return
		case <-s.ctx.Done():
			return
		}
		if err := s.ask("poll", s.registers.poll); err != nil {
			<-l.ctx.Done() // whoever let go of it says so
			return
		}
	}
}

// leave gives back what is held, within the time that one call has.
func (s *State) leave(driver Driver) {
	if driver == nil {
		return
	}
	if s.up.Load() {
		ctx, stop := context.WithTimeout(context.Background(), s.cfg.Timeout)
		defer stop()
		_ = s.sums.flush(ctx, driver, mostPending) // the log has it
		s.pools.leave(ctx, driver)                 // they expire
	}
	driver.Close()
}
