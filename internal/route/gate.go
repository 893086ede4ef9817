package route

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/internal/mutant"
)

const (
	// maxCooldown bounds what a provider can ask for (semantics 34).
	maxCooldown = 24 * time.Hour
	// silence is after what time a probe that was not refused is taken for accepted: a limit refuses at once, and an
	// answer may take minutes.
	silence = 2 * time.Second
	// waves is how many groups those who wait are released in, over a tenth of the cool-down but at most maxSpread.
	waves     = 16
	maxSpread = time.Second
)

// gate is a route's cool-down: open, closed until a time, or closed until the probe after that has succeeded.
type gate struct {
	closed atomic.Bool // what an entering call reads; the rest is guarded

	mu     sync.Mutex
	until  time.Time // monotonic
	length time.Duration
	reason string
	probe  uint64 // who has the place; 0: the next caller may
	probes uint64
	expire time.Time   // when the probe is taken for accepted
	timer  *time.Timer // does so
	line   line
}

// enter returns the number of the probe that the caller now is, 0 for none. held is the caller's own number, if it is one.
func (g *gate) enter(held uint64) (uint64, *Refusal) {
	if !g.closed.Load() {
		return 0, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	switch {
	case !g.closed.Load():
		return 0, nil
	case now.Before(g.until):
		return 0, &Refusal{Kind: Cooling, Wait: g.until.Sub(now), Reason: g.reason, Changed: g.line.join()}
	case g.probe != 0 && g.probe == held:
		return held, nil
	case g.probe != 0 && now.Before(g.expire):
		return 0, &Refusal{Kind: Cooling, Reason: g.reason + "; a probe is on its way", Changed: g.line.join()}
	case g.probe != 0:
		g.accept()
		return 0, nil
	}
	g.probes++
	g.stopTimer()
	g.probe, g.expire = g.probes, now.Add(silence)
	g.timer = time.AfterFunc(silence, func() { g.leave(g.probed(), breaker.Success) })
	return g.probe, nil
}

// probed is the number of the probe whose time is over, 0 when none's is.
func (g *gate) probed() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.probe == 0 || time.Now().Before(g.expire) {
		return 0
	}
	return g.probe
}

// accept ends the cool-down.
func (g *gate) accept() {
	g.probe = 0
	g.stopTimer()
	g.open(min(g.length/10, maxSpread))
}

// leave ends the probe of that number, if it still has the place.
func (g *gate) leave(probe uint64, res breaker.Result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if probe == 0 || g.probe != probe {
		return
	}
	if res == breaker.Success {
		g.accept()
		return
	}
	g.probe = 0
	g.stopTimer()
	g.line.release(0)
}

// close extends the cool-down to now + wait, and reports whether it did. A probe on its way is overtaken: its place is
// free again once the time has come.
func (g *gate) close(wait time.Duration, reason string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	until := now.Add(wait)
	if g.closed.Load() && !until.After(g.until) && !mutant.On("shorter-cooldown-wins") {
		return false
	}
	g.until, g.length, g.reason = until, wait, reason
	g.closed.Store(true)
	if g.probe != 0 {
		g.probe = 0
		g.stopTimer()
		g.line.release(0) // who waits for the probe is told the new wait
	}
	return true
}

// clear ends the cool-down by hand.
func (g *gate) clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.accept()
}

// open lets everybody in, those who wait over the time of spread.
func (g *gate) open(spread time.Duration) {
	g.until, g.reason, g.length = time.Time{}, "", 0
	g.closed.Store(false)
	if mutant.On("release-without-jitter") {
		spread = 0
	}
	g.line.release(spread)
}

// wake has those who wait ask again.
func (g *gate) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.line.release(0)
}

func (g *gate) stopTimer() {
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
}

// remaining is how long the cool-down still lasts, 0 when none does.
func (g *gate) remaining() time.Duration {
	if !g.closed.Load() {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(0, time.Until(g.until))
}

// atRest reports whether no cool-down holds, nor one that ended so lately that its probe may still be waited for.
func (g *gate) atRest() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.closed.Load() || g.probe == 0 && time.Since(g.until) > time.Minute
}

// view is what List shows.
func (g *gate) view() (wait time.Duration, reason string, probing, closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(0, time.Until(g.until)), g.reason, g.probe != 0, g.closed.Load()
}

// line is those who wait, in waves: whoever joins gets the next wave's channel in turn, so that few are released soon and
// many over the whole time.
type line struct {
	wave [waves]chan struct{}
	next int
}

func (l *line) join() <-chan struct{} {
	i := l.next % waves
	l.next++
	if l.wave[i] == nil {
		l.wave[i] = make(chan struct{})
	}
	return l.wave[i]
}

// release closes the first wave's channel now and each further one a share of spread later, give or take half of it.
func (l *line) release(spread time.Duration) {
	step := spread / waves
	for i, c := range l.wave {
		if c == nil {
			continue
		}
		if d := step*time.Duration(i) - rand.N(step/2+1); i > 0 && d > 0 {
			time.AfterFunc(d, func() { close(c) })
		} else {
			close(c)
		}
	}
	*l = line{}
}

func openRefusal(err error) *Refusal {
	var open *breaker.OpenError
	if !errors.As(err, &open) {
		return &Refusal{Kind: Open, Reason: err.Error()}
	}
	return &Refusal{Kind: Open, Wait: open.RetryAfter, Reason: open.Reason, Forced: open.Forced}
}
