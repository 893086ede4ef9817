package route

import (
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
)

// Barred reports whether nobody may enter now, and how long it is until that is worth another look; 0 where a person or
// a probe decides. It takes nothing, and what it says may have changed by the time of Enter.
func (r *Route) Barred() (wait time.Duration, barred bool) {
	if r.paused.Load() != nil {
		return time.Second, true
	}
	wait, _, probing, closed := r.gate.view()
	if closed && (wait > 0 || probing) {
		return wait, true
	}
	b := r.breaker.Snapshot()
	switch {
	case b.Forced && b.State == breaker.Open:
		return time.Second, true
	case b.State == breaker.Open:
		if wait := b.Until.Sub(r.breaker.Now()); wait > 0 {
			return wait, true
		}
	case b.State == breaker.HalfOpen && b.Probe != 0:
		return 0, true
	}
	return 0, false
}
