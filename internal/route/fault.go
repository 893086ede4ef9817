package route

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// Bounds of an injected fault.
const (
	maxFaultTime    = 24 * time.Hour
	maxFaultLatency = 10 * time.Minute
	maxFaultBody    = 64 << 10
	maxFaults       = 100
	reportEvery     = time.Minute
)

// ErrFault refuses a fault that would be no drill.
var ErrFault = errors.New("route: bad fault")

// Fault is what calls meet in place of their provider, or on the way to it.
type Fault struct {
	// Probability is the share of attempts that meet it, above 0 and at most 1.
	Probability float64
	// Status is answered in place of the provider, 300–599, with RetryAfter as its header where that is set, and with Body.
	// 0 lets the call go on to the provider.
	Status     int
	RetryAfter time.Duration
	Body       string
	// Latency is waited for first, at most 10 min.
	Latency time.Duration
	// Cut breaks the answer off after so many bytes of its body, with no proper end; 0 does not.
	Cut int
	// Until is when it ends by itself; it must be given, at most 24 h ahead.
	Until time.Time
}

func (f *Fault) check(now time.Time) error {
	switch {
	case !(f.Probability > 0 && f.Probability <= 1):
		return fmt.Errorf("%w: its probability is %v; give one above 0 and at most 1", ErrFault, f.Probability)
	case f.Status != 0 && (f.Status < 300 || f.Status > 599):
		return fmt.Errorf("%w: its status is %d; give one from 300 to 599, or none", ErrFault, f.Status)
	case f.RetryAfter < 0 || f.Latency < 0 || f.Cut < 0:
		return fmt.Errorf("%w: a negative time or size", ErrFault)
	case f.Latency > maxFaultLatency:
		return fmt.Errorf("%w: its latency is %v; at most %v", ErrFault, f.Latency, maxFaultLatency)
	case len(f.Body) > maxFaultBody:
		return fmt.Errorf("%w: its body has %d bytes; at most %d", ErrFault, len(f.Body), maxFaultBody)
	case f.Status == 0 && f.Latency == 0 && f.Cut == 0:
		return fmt.Errorf("%w: it does nothing; give a status, a latency or a cut", ErrFault)
	case !f.Until.After(now) || f.Until.Sub(now) > maxFaultTime:
		return fmt.Errorf("%w: it ends at %v; give an end within the next %v", ErrFault, f.Until, maxFaultTime)
	}
	return nil
}

// injection is a fault that is on.
type injection struct {
	Fault
	pattern string
	ends    time.Time // Until by the monotonic clock
	hits    atomic.Int64
	over    chan struct{}
}

// Fault returns the fault that this attempt meets: nil nearly always. It must not be changed.
func (r *Route) Fault() *Fault {
	f := r.fault.Load()
	if f == nil || !time.Now().Before(f.ends) || rand.Float64() >= f.Probability {
		return nil
	}
	f.hits.Add(1)
	return &f.Fault
}

// Inject puts a fault on the routes that match, also on those not seen yet, in place of one under the same pattern. A
// route that several match has the one injected last. It returns how many are known; ErrPattern, ErrFault.
func (t *Table) Inject(pattern string, f Fault) (int, error) {
	now := time.Now()
	if err := errors.Join(checkPattern(pattern), f.check(now)); err != nil {
		return 0, err
	}
	in := &injection{Fault: f, pattern: pattern, ends: now.Add(f.Until.Sub(now)), over: make(chan struct{})}
	t.mu.Lock()
	t.faults = t.without(func(old *injection) bool { return old.pattern == pattern })
	if len(t.faults) >= maxFaults {
		t.mu.Unlock()
		return 0, fmt.Errorf("%w: %d are on already; heal one first", ErrFault, maxFaults)
	}
	t.faults = append(t.faults, in)
	known := t.retell()
	t.mu.Unlock()
	if !t.spawn(func() { t.report(in) }) {
		t.drop(in)
		return 0, fmt.Errorf("%w: the engine is stopping", ErrFault)
	}
	return known[in], nil
}

// Heal ends the faults that were injected under exactly this pattern, or all with "*". It returns how many.
func (t *Table) Heal(pattern string) (int, error) {
	if err := checkPattern(pattern); err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	before := len(t.faults)
	t.faults = t.without(func(f *injection) bool { return pattern == "*" || f.pattern == pattern })
	t.retell()
	return before - len(t.faults), nil
}

// without ends those that match and returns the others. t.mu is held.
func (t *Table) without(ends func(*injection) bool) []*injection {
	return slices.DeleteFunc(slices.Clone(t.faults), func(f *injection) bool {
		if !ends(f) {
			return false
		}
		close(f.over)
		return true
	})
}

func (t *Table) drop(in *injection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults = slices.DeleteFunc(slices.Clone(t.faults), func(f *injection) bool { return f == in })
	t.retell()
}

// retell gives every route the fault that now holds for it, and returns how many have which. t.mu is held.
func (t *Table) retell() map[*injection]int {
	known := map[*injection]int{}
	for _, r := range t.order {
		known[t.tellFaults(r)]++
	}
	return known
}

func (t *Table) tellFaults(r *Route) *injection {
	var holds *injection
	for _, f := range t.faults {
		if match(f.pattern, r.key) {
			holds = f
		}
	}
	r.fault.Store(holds)
	return holds
}

// report says loudly that a fault is on: when it begins, each minute, and when it has ended.
func (t *Table) report(in *injection) {
	log := t.log.With(slog.String("pattern", in.pattern), slog.Float64("probability", in.Probability), slog.Int("status", in.Status),
		slog.Duration("latency", in.Latency), slog.Int("cut", in.Cut), slog.Time("until", in.Until))
	log.Warn("FAULT INJECTION IS ON: calls fail on purpose")
	end, tick := time.NewTimer(time.Until(in.ends)), time.NewTicker(reportEvery)
	defer end.Stop()
	defer tick.Stop()
	for why := ""; ; {
		select {
		case <-tick.C:
			log.Warn("fault injection is on: calls fail on purpose", "hits", in.hits.Load())
			continue
		case <-end.C:
			why = "its time is over"
		case <-in.over:
			why = "healed or replaced"
		case <-t.done:
			why = "the engine stops"
		}
		t.drop(in)
		log.Warn("fault injection has ended", "hits", in.hits.Load(), "why", why)
		return
	}
}
