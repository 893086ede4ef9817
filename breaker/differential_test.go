package breaker

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sony/gobreaker/v2"
)

// differences are all ways in which this breaker answers otherwise than failsafe-go 0.9 and gobreaker 2.4 to the same
// calls at the same times. Each is a layer that the oracle gets in the test: with all of them no answer may differ, and without
// any one of them some answer must.
var differences = []struct{ oracle, rule, why string }{
	{"failsafe", "late", "a result of a call that began before the breaker opened counts there: it closes a half-open one, or is counted by the next closed state"},
	{"failsafe", "ignored", "there every permit ends in success or failure; one that ends otherwise keeps its probe's slot for ever"},
	{"failsafe", "lease", "a probe that does not come back keeps its slot for ever"},
	{"failsafe", "by hand", "opened by hand, it half-opens by time"},
	{"failsafe", "twice", "a result that is recorded twice counts twice"},
	{"gobreaker", "instant", "it is still open in the instant at which its time-out ends"},
	{"gobreaker", "lease", "a probe that does not come back keeps its slot for ever"},
	{"gobreaker", "by hand", "it cannot be opened or reset by hand"},
	{"gobreaker", "twice", "a result that is recorded twice counts twice"},
}

const (
	diffThreshold = 3
	diffReset     = 30 * time.Second
	diffLease     = 20 * time.Second
)

// oracle is somebody else's breaker under those rules that are switched on for it.
type oracle interface {
	acquire(call int) bool
	done(call int, res Result, again bool)
	trip()
	reset()
	state() State
}

type step struct {
	op   string
	call int
	res  Result
	wait time.Duration
}

// schedule draws steps with which a breaker sees all of its states.
func schedule(rng *rand.Rand) []step {
	var out []step
	calls := 0
	failing := rng.IntN(2) == 0
	for range 120 {
		switch n := rng.IntN(100); {
		case n < 40:
			out = append(out, step{op: "call", call: calls})
			calls++
		case n < 80 && calls > 0:
			out = append(out, step{op: "done", call: max(0, calls-1-rng.IntN(4)), res: drawResult(rng, failing)})
		case n < 94:
			out = append(out, step{op: "wait", wait: time.Duration(1+rng.IntN(8)) * 5 * time.Second})
		case n < 96:
			failing = !failing
		case n < 97:
			out = append(out, step{op: "trip"})
		case n < 99:
			out = append(out, step{op: "reset"})
		}
	}
	return out
}

func drawResult(rng *rand.Rand, failing bool) Result {
	if rng.IntN(5) == 0 {
		return Ignored
	}
	if failing != (rng.IntN(4) == 0) {
		return Failure
	}
	return Success
}

// compare runs one schedule and returns the first answer that differs.
func compare(steps []step, make func() oracle) error {
	b, other := New(Config{FailureThreshold: diffThreshold, ResetTimeout: diffReset, ProbeLease: diffLease}), make()
	passes, ended := map[int]Pass{}, map[int]bool{}
	for i, s := range steps {
		switch s.op {
		case "call":
			p, err := b.Acquire()
			if got := other.acquire(s.call); got != (err == nil) {
				return fmt.Errorf("step %d, call %d: admitted %v, the oracle %v", i, s.call, err == nil, got)
			}
			if err == nil {
				passes[s.call] = p
			}
		case "done":
			if p, ok := passes[s.call]; ok {
				p.Done(s.res)
				other.done(s.call, s.res, ended[s.call])
				ended[s.call] = true
			}
		case "wait":
			time.Sleep(s.wait)
		case "trip":
			b.Trip("")
			other.trip()
		case "reset":
			b.Reset()
			other.reset()
		}
		if got := other.state(); s.op != "wait" && got != settled(b) {
			return fmt.Errorf("step %d, after %s: %v, the oracle %v", i, s.op, settled(b), got)
		}
	}
	return nil
}

// settled is the state in which the next caller will find b: gobreaker turns half-open when it is looked at.
func settled(b *Breaker) State {
	if r := b.Snapshot(); r.State != Open || r.Forced || time.Now().Before(r.Until) {
		return r.State
	}
	return HalfOpen
}

func rulesOf(name string) map[string]bool {
	on := map[string]bool{}
	for _, d := range differences {
		if d.oracle == name {
			on[d.rule] = true
		}
	}
	return on
}

func newOracle(name string, on map[string]bool) oracle {
	if name == "failsafe" {
		return newFailsafe(on)
	}
	return newGobreaker(on)
}

// differ returns the first difference in n schedules, and how many had one.
func differ(t *testing.T, n int, name string, on map[string]bool) (count int, first error) {
	synctest.Test(t, func(*testing.T) {
		for seed := range n {
			steps := schedule(rand.New(rand.NewPCG(uint64(seed), 34)))
			err := compare(steps, func() oracle { return newOracle(name, on) })
			if err == nil {
				continue
			}
			if count++; count == 1 {
				first = fmt.Errorf("schedule %d: %w", seed, err)
			}
		}
	})
	return count, first
}

func TestDifferential(t *testing.T) {
	for _, name := range []string{"failsafe", "gobreaker"} {
		t.Run(name, func(t *testing.T) {
			if n, err := differ(t, 2000, name, rulesOf(name)); err != nil {
				t.Fatalf("%d schedules differ in what no rule names; %v", n, err)
			}
			for _, rule := range slices.Sorted(maps.Keys(rulesOf(name))) {
				on := rulesOf(name)
				delete(on, rule)
				n, _ := differ(t, 300, name, on)
				if n == 0 {
					t.Errorf("no schedule shows the difference %q", rule)
				}
				t.Logf("without %q %d of 300 schedules differ", rule, n)
			}
		})
	}
}

// --- failsafe-go

type failsafeOracle struct {
	on     map[string]bool
	cb     circuitbreaker.CircuitBreaker[any]
	quiet  bool // a change that is a layer's own
	epoch  int
	calls  map[int]int // call → the epoch it began in
	holder int
	lease  time.Time
	forced bool
}

func newFailsafe(on map[string]bool) oracle {
	o := &failsafeOracle{on: on, calls: map[int]int{}}
	o.cb = circuitbreaker.NewBuilder[any]().WithFailureThreshold(diffThreshold).WithSuccessThreshold(1).WithDelay(diffReset).
		OnStateChanged(func(circuitbreaker.StateChangedEvent) {
			if !o.quiet {
				o.epoch++
			}
		}).Build()
	return o
}

func (o *failsafeOracle) acquire(call int) bool {
	if o.forced {
		return false
	}
	ok := o.cb.TryAcquirePermit()
	if !ok && o.on["lease"] && o.cb.IsHalfOpen() && !time.Now().Before(o.lease) {
		o.freeSlot()
		ok = o.cb.TryAcquirePermit()
	}
	if ok {
		o.calls[call] = o.epoch
		if o.cb.IsHalfOpen() {
			o.holder, o.lease = call, time.Now().Add(diffLease)
		}
	}
	return ok
}

// freeSlot makes the half-open state anew, which is the only way to have a permit back without a verdict.
func (o *failsafeOracle) freeSlot() {
	o.quiet = true
	o.cb.Open()
	o.cb.HalfOpen()
	o.quiet = false
}

func (o *failsafeOracle) done(call int, res Result, again bool) {
	late := o.calls[call] != o.epoch
	if again && o.on["twice"] || late && o.on["late"] {
		return
	}
	switch res {
	case Success:
		o.cb.RecordSuccess()
	case Failure:
		o.cb.RecordFailure()
	case Ignored:
		if o.on["ignored"] && o.cb.IsHalfOpen() && !late && call == o.holder {
			o.freeSlot()
		}
	}
}

func (o *failsafeOracle) trip() {
	o.cb.Open()
	o.epoch++
	o.forced = o.on["by hand"]
}

func (o *failsafeOracle) reset() {
	o.forced = false
	if o.cb.IsClosed() {
		o.cb.RecordSuccess() // ends the row of failures
	}
	o.cb.Close()
}

func (o *failsafeOracle) state() State {
	if o.cb.IsOpen() && (o.forced || o.cb.RemainingDelay() > 0) {
		return Open
	}
	if o.cb.IsClosed() {
		return Closed
	}
	return HalfOpen
}

// --- gobreaker

var errFailed, errExcluded = errors.New("failed"), errors.New("excluded")

type gobreakerOracle struct {
	on     map[string]bool
	cb     *gobreaker.TwoStepCircuitBreaker[any]
	calls  map[int]func(error)
	holder int
	lease  time.Time
	forced bool
}

func newGobreaker(on map[string]bool) oracle {
	o := &gobreakerOracle{on: on, calls: map[int]func(error){}}
	o.renew()
	return o
}

func (o *gobreakerOracle) renew() {
	timeout := diffReset
	if o.on["instant"] {
		timeout--
	}
	o.cb = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Timeout:     timeout,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= diffThreshold },
		IsExcluded:  func(err error) bool { return errors.Is(err, errExcluded) },
	})
	o.holder = -1
}

func (o *gobreakerOracle) acquire(call int) bool {
	if o.forced {
		return false
	}
	done, err := o.cb.Allow()
	if err != nil && o.on["lease"] && o.holder >= 0 && o.cb.State() == gobreaker.StateHalfOpen && !time.Now().Before(o.lease) {
		o.calls[o.holder](errExcluded)
		done, err = o.cb.Allow()
	}
	if err != nil {
		return false
	}
	o.calls[call] = done
	if o.cb.State() == gobreaker.StateHalfOpen {
		o.holder, o.lease = call, time.Now().Add(diffLease)
	}
	return true
}

func (o *gobreakerOracle) done(call int, res Result, again bool) {
	if again && o.on["twice"] {
		return
	}
	if res == Ignored && o.on["lease"] && o.cb.State() == gobreaker.StateHalfOpen && call != o.holder {
		return // its slot was taken from it
	}
	o.calls[call](map[Result]error{Success: nil, Failure: errFailed, Ignored: errExcluded}[res])
}

func (o *gobreakerOracle) trip() { o.forced = o.on["by hand"] }

func (o *gobreakerOracle) reset() {
	if !o.on["by hand"] {
		return
	}
	if done, err := o.cb.Allow(); !o.forced && err == nil && o.cb.State() == gobreaker.StateClosed {
		done(nil) // ends the row of failures
		return
	}
	o.forced = false
	o.renew()
}

func (o *gobreakerOracle) state() State {
	if o.forced {
		return Open
	}
	return State(o.cb.State())
}
