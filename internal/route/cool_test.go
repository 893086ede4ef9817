package route

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
)

// TestBR028LaterCooldownWins: deadlines merge with max, in either order.
func TestBR028LaterCooldownWins(t *testing.T) {
	for _, waits := range [][2]time.Duration{{time.Second, 30 * time.Second}, {30 * time.Second, time.Second}} {
		inBubble(t, func(r rig) {
			begun := time.Now()
			r.Cool(waits[0], "429")
			time.Sleep(50 * time.Millisecond)
			r.Cool(waits[1], "429")
			time.Sleep(2*time.Second - 50*time.Millisecond)
			end := begun.Add(30 * time.Second)
			if waits[1] > waits[0] {
				end = end.Add(50 * time.Millisecond)
			}
			if got := r.refused(Cooling); got.Wait != time.Until(end) {
				t.Errorf("%v: %v remain, want %v", waits, got.Wait, time.Until(end))
			}
			if got := r.rows.get(key); !got.Equal(end) {
				t.Errorf("%v: the row says %v, want %v", waits, got, end)
			}
		})
	}
}

func TestCoolIsBounded(t *testing.T) {
	inBubble(t, func(r rig) {
		for _, wait := range []time.Duration{0, -1, -1 << 63} {
			if got := r.Cool(wait, "hostile"); !got.IsZero() {
				t.Errorf("Cool(%v) = %v", wait, got)
			}
		}
		r.enter().Done(breaker.Success)
		if got, want := r.Cool(1<<63-1, "hostile"), time.Now().Add(24*time.Hour); !got.Equal(want) {
			t.Errorf("until %v, want %v", got, want)
		}
		time.Sleep(24 * time.Hour)
		r.enter()
	})
}

// TestOneProbeFollows lets a thousand wait for the end of a cool-down.
func TestOneProbeFollows(t *testing.T) {
	inBubble(t, func(r rig) {
		r.Cool(30*time.Second, "429")
		var sent atomic.Int64
		var probeEnded time.Time
		entered := make(chan time.Duration, 1000)
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				for {
					ticket, refusal := r.Enter()
					if refusal == nil {
						if sent.Add(1) == 1 {
							time.Sleep(time.Second)
							probeEnded = time.Now()
						} else {
							entered <- time.Since(probeEnded)
						}
						ticket.Done(breaker.Success)
						return
					}
					if refusal.Wait > 0 {
						time.Sleep(refusal.Wait)
					} else {
						<-refusal.Changed
					}
				}
			})
		}
		time.Sleep(30*time.Second + time.Millisecond)
		if n := sent.Load(); n != 1 {
			t.Errorf("%d calls after the cool-down, want one probe", n)
		}
		all.Wait()
		close(entered)
		at := map[time.Duration]int{}
		for d := range entered {
			if d < 0 || d > maxSpread {
				t.Errorf("released %v after the probe", d)
			}
			at[d]++
		}
		for d, n := range at {
			if n > 1000/waves+1 {
				t.Errorf("%d of 1000 rush in at %v", n, d)
			}
		}
	})
}

func TestProbeWithoutSuccess(t *testing.T) {
	for _, res := range []breaker.Result{breaker.Failure, breaker.Ignored} {
		inBubble(t, func(r rig) {
			r.Cool(time.Second, "429")
			time.Sleep(time.Second)
			probe := r.enter()
			waits := r.refused(Cooling)
			if waits.Wait != 0 || isClosed(waits.Changed) {
				t.Fatalf("beside a probe: %+v", waits)
			}
			probe.Done(res)
			if !isClosed(waits.Changed) {
				t.Fatal("nobody is told that the probe has ended")
			}
			second := r.enter()
			probe.Done(breaker.Success) // late
			r.refused(Cooling)
			second.Done(breaker.Success)
			r.enter().Done(breaker.Success)
		})
	}
}

func TestProbeIsRateLimitedAgain(t *testing.T) {
	inBubble(t, func(r rig) {
		r.Cool(time.Second, "429")
		time.Sleep(time.Second)
		probe := r.enter()
		waits := r.refused(Cooling)
		r.Cool(time.Hour, "429")
		if !isClosed(waits.Changed) {
			t.Error("who waits for the probe is not told of the hour")
		}
		probe.Done(breaker.Success) // whatever it says of the provider's health, the cool-down is newer
		if got := r.refused(Cooling); got.Wait != time.Hour {
			t.Errorf("%v remain", got.Wait)
		}
	})
}

// TestSilentProbe: a limit refuses at once, so that a probe which hears nothing for a while was accepted; nobody waits for
// the end of its answer, which may take minutes.
func TestSilentProbe(t *testing.T) {
	inBubble(t, func(r rig) {
		r.Cool(time.Second, "429")
		time.Sleep(time.Second)
		probe := r.enter()
		waits := r.refused(Cooling)
		time.Sleep(silence - time.Millisecond)
		r.refused(Cooling)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		time.Sleep(maxSpread)
		if !isClosed(waits.Changed) {
			t.Error("nobody is told that the cool-down is over")
		}
		r.enter()
		probe.Done(breaker.Failure) // late: it is no probe any more
		r.enter()
	})
}

// TestAnsweredProbe: the head of an answer ends a cool-down at once.
func TestAnsweredProbe(t *testing.T) {
	inBubble(t, func(r rig) {
		r.Cool(time.Second, "429")
		time.Sleep(time.Second)
		stream := r.enter()
		r.refused(Cooling)
		stream.Answered()
		r.enter()
		stream.Done(breaker.Ignored)
		r.enter()
	})
}

// TestOrdersReachWhoWaits: who waits for a cool-down hears at once that an operator paused or tripped the route.
func TestOrdersReachWhoWaits(t *testing.T) {
	inBubble(t, func(r rig) {
		r.Cool(time.Minute, "429")
		waits := r.refused(Cooling)
		must(t)(r.Table.Pause(key, "maintenance"))
		if !isClosed(waits.Changed) {
			t.Error("not told of the pause")
		}
		must(t)(r.Table.Resume(key))
		waits = r.refused(Cooling)
		must(t)(r.Table.Trip(key, "drill"))
		if !isClosed(waits.Changed) {
			t.Error("not told of the trip")
		}
		if got := r.refused(Open); !got.Forced {
			t.Errorf("%+v", got)
		}
	})
}

// TestLateSuccessEndsNoCooldown: calls that were on their way when it was set succeed after it.
func TestLateSuccessEndsNoCooldown(t *testing.T) {
	inBubble(t, func(r rig) {
		late := r.enter()
		r.Cool(time.Minute, "429")
		late.Done(breaker.Success)
		r.refused(Cooling)
	})
}

func TestSlowAndBrokenStore(t *testing.T) {
	inBubble(t, func(r rig) {
		r.rows.delay = 3 * time.Second
		begun := time.Now()
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() { r.Cool(time.Minute+time.Duration(i)*time.Millisecond, "429") })
		}
		all.Wait()
		if d := time.Since(begun); d > rowWait {
			t.Errorf("a rate-limited call waited %v for the store", d)
		}
		r.refused(Cooling)
		r.Table.Close()
		if r.rows.wrote > 2 {
			t.Errorf("%d writes for 200 cool-downs at once, want 2", r.rows.wrote)
		}
		if want := begun.Add(time.Minute + 199*time.Millisecond); !r.rows.get(key).Equal(want) {
			t.Errorf("the row says %v, want %v", r.rows.get(key), want)
		}
	})
	inBubble(t, func(r rig) {
		r.rows.err = errors.New("disk full")
		r.Cool(time.Minute, "429")
		r.refused(Cooling)
	})
}

func TestRowOfAnotherReplicaIsObeyed(t *testing.T) {
	inBubble(t, func(r rig) {
		r.rows.rows[key] = time.Now().Add(time.Hour)
		r.Cool(time.Minute, "429")
		synctest.Wait()
		if got := r.refused(Cooling); got.Wait != time.Hour {
			t.Errorf("%v remain, want the hour of the row", got.Wait)
		}
	})
}

func TestResetWhileTheRowIsWritten(t *testing.T) {
	inBubble(t, func(r rig) {
		r.rows.delay = time.Second
		r.Cool(time.Hour, "429")
		waits := r.refused(Cooling)
		must(t)(r.Table.Reset(t.Context(), "openai/*"))
		r.enter()
		time.Sleep(2 * time.Second)
		if got := r.rows.get(key); !got.IsZero() {
			t.Errorf("a row until %v after the reset", got)
		}
		if !isClosed(waits.Changed) {
			t.Error("who waits is not told of the reset")
		}
	})
}
