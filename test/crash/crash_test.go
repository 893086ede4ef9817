package crash

import (
	"fmt"
	"github.com/holdfast-ai/holdfast/test/farside"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/proc"
)

// points are each side of every commit, send and answer: intent, gateway and store name them to package mutant.
var points = []string{
	"commit.before", "commit.after", "send.before", "send.after", "answer.before", "answer.after",
	"store.commit.before", "store.commit.write", "store.commit.sync", "store.commit.synced", "store.commit.after",
}

// Kills of the whole programme; every run does a tenth.
const (
	randomKills = 200
	pointKills  = 20
	storeKills  = 20 // on one store; then a new one begins
)

// clients ask at the same time.
const clients = 6

// campaign is one store, its operations, and the gateways that are killed on it.
type campaign struct {
	*rig
	rnd    *rand.Rand
	label  string
	ops    []*farside.Op
	recent []*farside.Op // of the last life
	kills  int
}

func newCampaign(t *testing.T, label string, seed uint64) *campaign {
	h := fnv.New64a()
	_, _ = h.Write([]byte(label))
	return &campaign{rig: newRig(t), label: label, rnd: rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// TestRandomKills kills gateways at random moments, a quarter of them while they start or recover.
func TestRandomKills(t *testing.T) {
	s, kills := seed(t), randomKills/10
	if full() {
		kills = randomKills
	}
	for i := 0; i < kills; i += storeKills {
		label := fmt.Sprintf("random-%d", i/storeKills)
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			c := newCampaign(t, label, s)
			for c.kills < storeKills && !t.Failed() {
				if c.rnd.IntN(4) == 0 {
					c.killEarly()
				} else {
					c.life("", time.Duration(1+c.rnd.IntN(250))*time.Millisecond)
				}
			}
			c.finish()
		})
	}
}

// TestNamedPoints kills gateways where they reach a named point for the n-th time, n at random.
func TestNamedPoints(t *testing.T) {
	s, kills := seed(t), pointKills/10
	if full() {
		kills = pointKills
	}
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := newCampaign(t, point, s)
			for c.kills < kills && !t.Failed() {
				c.life(fmt.Sprintf("%s:%d", point, 1+c.rnd.IntN(reach(point))), 0)
			}
			c.finish()
		})
	}
}

// reach is how late a point is met at most. The store commits a few times before it serves, which are to be hit
// too, but not only they.
func reach(point string) int {
	if strings.HasPrefix(point, "store.") {
		return 60
	}
	return 24
}

func (c *campaign) killEarly() {
	c.t.Helper()
	if err := proc.ServeFor(c.command(""), time.Duration(c.rnd.IntN(80))*time.Millisecond); err != nil {
		c.t.Fatal(err)
	}
	c.kills++
}

// life starts a gateway, checks what it recovered, and lets clients ask until it dies: at its crash point, or
// by kill -9 after a while.
func (c *campaign) life(crash string, after time.Duration) {
	c.t.Helper()
	c.kills++
	if !c.start(crash) {
		return // it died in recovery
	}
	c.replay(c.recent, c.oracle(c.ops))
	if after > 0 {
		time.AfterFunc(after, func() { c.gateway.Kill() })
	}
	c.ask(true)
	c.gateway.Kill()
}

// patience bounds a life whose crash point is not reached.
const patience = 2 * time.Minute

// ask lets clients finish what earlier lives left, and with more begin new operations until the gateway dies.
func (c *campaign) ask(more bool) {
	c.t.Helper()
	var todo []*farside.Op
	for _, o := range c.ops {
		if o.Ended == "" {
			todo = append(todo, o)
		}
	}
	c.recent = nil
	var mu sync.Mutex
	next := func() *farside.Op {
		mu.Lock()
		defer mu.Unlock()
		var o *farside.Op
		switch {
		case len(todo) > 0:
			o, todo = todo[0], todo[1:]
		case !more || c.dead():
			return nil
		default:
			o = farside.NewOp(c.rnd, fmt.Sprintf("%s-%d", c.label, len(c.ops)))
			c.ops = append(c.ops, o)
		}
		c.recent = append(c.recent, o)
		return o
	}
	stuck := time.AfterFunc(patience, func() {
		c.t.Errorf("no crash within %s", patience)
		c.gateway.Kill()
	})
	defer stuck.Stop()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for o := next(); o != nil && !c.dead(); o = next() {
				o.Pursue(c.Side, c.gateway.URL, c.gateway.Done())
			}
		})
	}
	all.Wait()
}

// finish brings every operation to its end on a gateway that nobody kills, and checks once more, also after an
// orderly end.
func (c *campaign) finish() {
	c.t.Helper()
	c.start("")
	c.replay(c.recent, c.oracle(c.ops))
	c.ask(false)
	c.oracle(c.ops)
	c.stop()
	c.start("")
	b := c.oracle(c.ops)
	c.replay(c.ops, b)
	c.stop()
	ends := map[string]int{}
	for _, o := range c.ops {
		if o.Ended == "" {
			c.t.Errorf("op %s (%s) did not end", o.Name, o.Kind.Name)
		}
		ends[o.Ended]++
	}
	c.t.Logf("%d kills, %d operations %v, %d intents", c.kills, len(c.ops), ends, len(b.ByID))
}
