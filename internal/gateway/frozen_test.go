package gateway_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// BR-068, frozen in the worst moment: a replica stands still when its attempt is on record and before the first byte has left.
// Others have taken the job over when it wakes, and it sends nothing: what generates is sent once, by its successor, and what acts
// is not sent at all, for nobody may have known that.
func TestBR068FrozenBeforeTheFirstByte(t *testing.T) {
	for workflow, c := range map[string]struct {
		calls   int64
		state   ledger.State
		attempt int
	}{
		"default": {1, ledger.Settled, 2},
		"act":     {0, ledger.Unknown, 1},
	} {
		t.Run(workflow, func(t *testing.T) {
			var calls atomic.Int64
			far := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				opOf(r)
				calls.Add(1)
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, completion)
			})
			inBubble(t, bubbled, far, func(b *bubble) {
				b.life.stop()
				var frozen *life
				var once sync.Once
				b.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					once.Do(func() { // SIGSTOP, and SIGCONT
						frozen.freeze()
						time.Sleep(40 * time.Second)
					})
					return b.far.dial(context.WithoutCancel(ctx), network, addr)
				}
				frozen = b.engine(false)
				b.dial = nil
				other := b.engine(false)
				b.gw = frozen.gw
				id := b.submit("a", workflow)
				time.Sleep(30 * time.Second)
				if rec := b.get(id); rec.Crashes != 1 {
					t.Errorf("nobody has taken it over yet: %+v", rec.Status)
				}
				time.Sleep(2 * time.Minute)
				if rec := b.get(id); calls.Load() != c.calls || rec.State != c.state || rec.Attempt != c.attempt || rec.Crashes != 1 {
					t.Errorf("%d calls, %+v", calls.Load(), rec.Status)
				}
				frozen.stop()
				other.stop()
				b.life = b.engine(true)
			})
		})
	}
}
