package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// counted says that q is its SDK's n-th retry.
func (q request) counted(n int) request { return q.with("X-Stainless-Retry-Count", fmt.Sprint(n)) }

// vote has n clients ask the same, whose answers are held back at gate, and returns their connections.
func (r *rig) vote(op string, n int) (lost []*net.TCPConn) {
	r.t.Helper()
	steps := make([]string, n)
	for i := range steps {
		steps[i] = `{"hold":"` + op + `"}`
	}
	r.script(op, steps...)
	for range n {
		conn, _ := r.rawUntil(chat(op), func([]byte) bool { return true })
		lost = append(lost, conn)
	}
	if err := r.sim.WaitHeld(r.t.Context(), op, n); err != nil {
		r.t.Fatal(err)
	}
	return lost
}

// askAll asks q as often as there are counts, all at once, and releases the answers when that many clients wait.
func (r *rig) askAll(op string, waiting int, counts ...int) (answers []*answered) {
	r.t.Helper()
	answers = make([]*answered, len(counts))
	var all sync.WaitGroup
	for i, n := range counts {
		all.Go(func() {
			q := chat(op)
			if n > 0 {
				q = q.counted(n)
			}
			answers[i] = r.do(q)
		})
	}
	wait(r.t, func() bool { return gateway.Clients(r.gw) == waiting })
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for { // a call may reach its gate after the others were let through
		r.sim.Release(op)
		select {
		case <-done:
			return answers
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// bodies counts how often each answer was given.
func bodies(t *testing.T, answers []*answered) map[string]int {
	t.Helper()
	m := map[string]int{}
	for _, a := range answers {
		if a.err != nil || a.status != 200 {
			t.Errorf("%d %s %v", a.status, a.body, a.err)
		}
		m[string(a.body)]++
	}
	return m
}

// Each of five that lost their connections at once adopts one of the five, before or after their ends are known here.
func TestVoteThatRetries(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprintf("known=%t", known), func(t *testing.T) {
			r := newRig(t)
			conns := r.vote("vote", 5)
			waiting := 10
			if known {
				for _, c := range conns {
					reset(c)
				}
				wait(t, func() bool { return gateway.Lost(r.gw) == 5 })
				waiting = 5
			}
			got := bodies(t, r.askAll("vote", waiting, 1, 1, 1, 1, 1))
			if len(got) != 5 {
				t.Errorf("five retries got %d different answers, want 5", len(got))
			}
			r.calls("vote", 5)
			for _, c := range conns {
				reset(c)
			}
		})
	}
}

// Two retries that counted the same are not one client: one of them adopts, the other is a question of its own. The
// next try of the first one finds its answer again.
func TestTwinRetriesAdoptOnce(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprintf("known=%t", known), func(t *testing.T) {
			r := newRig(t)
			conns := r.vote("once", 1)
			r.script("once", `{"hold":"once"}`)
			waiting := 3
			if known {
				reset(conns[0])
				wait(t, func() bool { return gateway.Lost(r.gw) == 1 })
				waiting = 2
			}
			got := bodies(t, r.askAll("once", waiting, 1, 1))
			if len(got) != 2 {
				t.Errorf("two retries of one lost request adopted it both")
			}
			r.calls("once", 2)
			reset(conns[0])
		})
	}
}

// The tries of one client follow each other, however little of their connections' ends is known here.
func TestCountedTriesFollowEachOther(t *testing.T) {
	r := newRig(t)
	conns := r.vote("chain", 1)
	for n := 1; n <= 3; n++ {
		conn, _ := r.rawUntil(chat("chain").counted(n), func([]byte) bool { return true })
		conns = append(conns, conn)
		wait(t, func() bool { return gateway.Clients(r.gw) == n+1 })
	}
	answers := r.askAll("chain", 5, 4)
	bodies(t, answers)
	r.calls("chain", 1)
	for _, c := range conns {
		reset(c)
	}
	if a := r.must(chat("chain").with("X-Stainless-Retry-Count", "many"), 200); bytes.Equal(a.body, answers[0].body) {
		t.Errorf("what is no count adopted an answer that had arrived")
	}
	r.calls("chain", 2)
}

// What an adopter loses is lost, although the connection that it has given up takes everything still.
func TestDeliveryIsTheAdopters(t *testing.T) {
	r := newRig(t)
	r.script("heir", `{"hold":"heir"}`)
	first := make(chan *answered)
	go func() { first <- r.do(chat("heir")) }()
	if err := r.sim.WaitHeld(t.Context(), "heir", 1); err != nil {
		t.Fatal(err)
	}
	heir, _ := r.rawUntil(chat("heir").counted(1), func([]byte) bool { return true })
	wait(t, func() bool { return gateway.Clients(r.gw) == 2 })
	reset(heir)
	wait(t, func() bool { return gateway.Lost(r.gw) == 1 })
	r.sim.Release("heir")
	a := <-first
	if b := r.must(chat("heir"), 200); !bytes.Equal(a.body, b.body) || b.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%s\n%s %v", a.body, b.body, b.header)
	}
	r.calls("heir", 1)
}

// Many small answers that did not arrive stay inside a part of limits.body_memory, and all can be adopted.
func TestLostAnswersStayInsideTheirMemory(t *testing.T) {
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, "env: test", "env: test\nlimits: {body_memory: 512KiB, max_request_bytes: 64KiB}", 1)
	})
	const many = 24
	answers := map[string][]byte{}
	for i := range many {
		op := fmt.Sprint("m", i)
		r.script(op, `{"size":12000,"chunks":2}`)
		conn, got := r.rawUntil(streamed(op), func(b []byte) bool { return bytes.HasSuffix(b, []byte("\r\n0\r\n\r\n")) })
		answers[op] = bodyOf(t, got)
		reset(conn)
	}
	wait(t, func() bool { _, m, _ := r.gw.Held(); return gateway.Lost(r.gw) == many && m == 0 })
	wait(t, func() bool { n := gateway.Remembered(r.gw); return n > 0 && n <= 128<<10 })
	for op, want := range answers {
		if a := r.must(streamed(op), 200); !bytes.Equal(a.body, want) {
			t.Errorf("%s: adopted %d bytes, the first answer has %d", op, len(a.body), len(want))
		}
		r.calls(op, 1)
	}
	wait(t, func() bool { return gateway.Remembered(r.gw) == 0 }) // once they have arrived
}

// slowReader holds back what asks for the operations of one key.
type slowReader struct {
	ledger.Ledger
	key   func(string) bool
	began chan string
	open  chan struct{}
}

func (s *slowReader) Derived(ctx context.Context, key string, limit int) ([]*ledger.Record, error) {
	if s.key(key) {
		s.began <- key
		<-s.open
	}
	return s.Ledger.Derived(ctx, key, limit)
}

// A store that is slow to say what an earlier process left under one key holds up that key alone.
func TestRecallHoldsUpItsKeyAlone(t *testing.T) {
	var first string
	var mu sync.Mutex
	s := &slowReader{began: make(chan string, 8), open: make(chan struct{})}
	s.key = func(key string) bool {
		mu.Lock()
		defer mu.Unlock()
		if first == "" {
			first = key
		}
		return key == first
	}
	r := newRig(t, func(c *rigConfig) { c.wrap = func(l ledger.Ledger) ledger.Ledger { s.Ledger = l; return s } })
	answers := make(chan *answered, 2)
	for range 2 {
		go func() { answers <- r.do(chat("slow")) }()
	}
	<-s.began
	for i := range 200 { // more keys than there are shards
		r.must(chat(fmt.Sprint("other", i)), 200)
	}
	select {
	case key := <-s.began:
		t.Errorf("%s is looked up twice at once", key)
	default:
	}
	close(s.open)
	bodies(t, []*answered{<-answers, <-answers})
	r.calls("slow", 2)
}
