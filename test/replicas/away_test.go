package replicas

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-ai/holdfast/test/farside"
)

// load is clients that ask, each operation until its end, as long as the test wants it.
type load struct {
	r     *rig
	mu    sync.Mutex
	rnd   *rand.Rand
	ops   []*farside.Op
	ended atomic.Bool
	all   sync.WaitGroup
}

func (r *rig) load(clients int, seed uint64) *load {
	l := &load{r: r, rnd: rand.New(rand.NewPCG(seed, 9))}
	for range clients {
		l.all.Go(func() {
			for !l.ended.Load() {
				l.mu.Lock()
				o := farside.NewOp(l.rnd, fmt.Sprintf("load-%d", len(l.ops)))
				o.Tries = 1_000_000
				l.ops = append(l.ops, o)
				l.mu.Unlock()
				o.Pursue(r.Side, r.balancer.URL, r.t.Context().Done())
			}
		})
	}
	return l
}

// done is how many operations came to their end.
func (l *load) done() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ops)
}

// more waits for n more operations: the load moves.
func (l *load) more(n int) {
	l.r.t.Helper()
	was := l.done()
	until(l.r.t, fmt.Sprintf("%d more operations of the load", n), func() bool { return l.done() >= was+n })
}

// end lets every operation come to its end.
func (l *load) end() []*farside.Op {
	l.ended.Store(true)
	l.all.Wait()
	return l.ops
}

// The database is stopped in order, then crashed, under load: while it is away calls are refused with store_unavailable and nothing is
// sent that is not on record; when it is back the same processes serve.
func TestPostgresRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.start()
	l := r.load(12, seed(t))
	for round, away := range []func(){r.pg.Stop, r.pg.Crash} {
		l.more(60)
		away()
		var refused []call
		for i := range 30 {
			k := r.replicas[i%size]
			c := call{op: fmt.Sprintf("away-%d-%d", round, i), key: fmt.Sprintf("k-away-%d-%d", round, i)}
			until(t, fmt.Sprintf("replica %d says that its store is away", k.i), func() bool {
				a := r.try(k, c)
				if a != nil && a.Status == http.StatusOK {
					t.Errorf("replica %d served %s while the store was away: %v", k.i, c.op, a)
				}
				return a != nil && a.Status == http.StatusServiceUnavailable && a.Code() == "store_unavailable" &&
					a.Header.Get("X-Should-Retry") == "true" && a.Header.Get("Holdfast-Safe-To-Retry") == "yes"
			})
			refused = append(refused, c)
		}
		for _, c := range refused {
			if n := r.CallsOf(c.op); n != 0 {
				t.Errorf("%s was refused, and sent %d times", c.op, n)
			}
		}
		for _, k := range r.replicas {
			until(t, fmt.Sprintf("replica %d says that it is not ready", k.i), func() bool { return !r.balancer.ready(k.i) })
		}
		r.pg.Restart(t)
		r.whole()
		for i, c := range refused {
			k := r.replicas[i%size]
			until(t, "replica serves again what it refused: "+c.op, func() bool {
				a := r.try(k, c)
				return a != nil && a.Status == http.StatusOK
			})
			if n := r.CallsOf(c.op); n != 1 {
				t.Errorf("%s: %d upstream calls", c.op, n)
			}
		}
		l.more(60)
	}
	ops := l.end()
	for _, k := range r.replicas {
		r.alive(k)
	}
	r.oracle(ops)
	r.stop()
}

// call is a plain request with a key.
type call struct{ op, key string }

// try asks one replica; nil: no whole answer.
func (r *rig) try(k *replica, c call) *farside.Answer {
	a, err := r.Send(k.p.URL, "/v1/chat/completions", chat(c.op, false), map[string]string{"Idempotency-Key": c.key, "Holdfast-Workflow": "external"})
	if err != nil {
		return nil
	}
	return a
}
