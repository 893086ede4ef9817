package gateway_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// BR-004: requests with one key, released together over three gateways, are one upstream call.
func TestBR004BarrierAcross(t *testing.T) {
	for _, q := range []request{chat("race"), streamed("race")} {
		ways(t, func(t *testing.T, fleet func(int, ...option) *fleet) {
			f := fleet(3)
			first := f.nodes[0]
			first.script("race", `{"hold":"gate"}`)
			const n = 150
			answers := make([]*answered, n)
			var clients sync.WaitGroup
			for i := range n {
				clients.Go(func() { answers[i] = f.nodes[i%3].do(q.key("k-race-1")) })
			}
			if err := first.sim.WaitHeld(t.Context(), "gate", 1); err != nil {
				t.Fatal(err)
			}
			first.sim.Release("gate")
			clients.Wait()
			first.calls("race", 1)
			originals := 0
			for i, a := range answers {
				if a.err != nil || a.status != 200 {
					t.Fatalf("client %d: status %d, %s %v", i, a.status, a.body, a.err)
				}
				if a.header.Get("Idempotency-Replayed") == "" && a.trailer.Get("Idempotency-Replayed") == "" {
					originals++
				}
				if !bytes.Equal(a.body, answers[0].body) {
					t.Errorf("bodies differ")
				}
			}
			if originals != 1 {
				t.Errorf("%d answers without the replay marker, want 1", originals)
			}
			for _, n := range f.nodes {
				if again := n.must(q.key("k-race-1"), 200); again.header.Get("Idempotency-Replayed") != "true" {
					t.Errorf("a call behind them is no replay")
				}
			}
			first.calls("race", 1)
		})
	}
}

// running begins q at a gateway and waits until its upstream call stands at the gate of its operation's name.
func (f *fleet) running(at *node, q request) <-chan *answered {
	f.t.Helper()
	answer := make(chan *answered, 1)
	go func() { answer <- at.do(q) }()
	if err := at.sim.WaitHeld(f.t.Context(), q.op(), 1); err != nil {
		f.t.Fatal(err)
	}
	return answer
}

// follows begins q at a gateway and waits until it follows an operation of another.
func (f *fleet) follows(at *node, q request) <-chan *answered {
	f.t.Helper()
	before := gateway.Mirrors(at.gw)
	answer := make(chan *answered, 1)
	go func() { answer <- at.do(q) }()
	wait(f.t, func() bool { return gateway.Mirrors(at.gw) > before })
	return answer
}

// A duplicate at another gateway is answered as on_in_flight says.
func TestAcrossConflictAndWait(t *testing.T) {
	ways(t, func(t *testing.T, fleet func(int, ...option) *fleet) {
		f := fleet(2)
		a, b := f.nodes[0], f.nodes[1]
		for _, workflow := range []string{"conflict", "wait", "default"} {
			a.script(workflow, fmt.Sprintf(`{"hold":%q}`, workflow))
			q := chat(workflow).workflow(workflow).key(workflow)
			first := f.running(a, q)
			if workflow == "conflict" {
				if second := b.must(q, 409); second.code() != string(gateway.CodeInFlight) {
					t.Errorf("headers %v", second.header)
				}
				a.sim.Release(workflow)
				<-first
				continue
			}
			second := f.follows(b, q)
			a.sim.Release(workflow)
			x, y := <-first, <-second
			if x.status != 200 || y.status != 200 || !bytes.Equal(x.body, y.body) || y.header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("%s: %d, %d %v %s", workflow, x.status, y.status, y.header, y.body)
			}
			a.calls(workflow, 1)
		}
	})
}

// Semantics 21: a failing leader gives its followers its error, wherever they wait.
func TestAcrossFailureIsShared(t *testing.T) {
	ways(t, func(t *testing.T, fleet func(int, ...option) *fleet) {
		f := fleet(2)
		a, b := f.nodes[0], f.nodes[1]
		a.script("fails", `{"hold":"fails","status":503}`, "ok")
		q := chat("fails").key("k")
		first := f.running(a, q)
		second := f.follows(b, q)
		a.sim.Release("fails")
		if x, y := <-first, <-second; x.status != 503 || y.status < 500 {
			t.Errorf("%d %s; %d %s", x.status, x.body, y.status, y.body)
		}
		a.calls("fails", 1)
		b.must(q, 200) // the key is free again
		a.calls("fails", 2)
	})
}

// Of the followers of a gateway that died one goes on, and the others follow that one.
func TestAcrossLeaderDies(t *testing.T) {
	ways(t, func(t *testing.T, fleet func(int, ...option) *fleet) {
		f := fleet(3)
		a := f.nodes[0]
		a.script("dies", `{"hold":"dies"}`, "ok")
		q := chat("dies").key("k")
		first := f.running(a, q)
		var followers []<-chan *answered
		for range 4 {
			for _, n := range f.nodes[1:] {
				answer := make(chan *answered, 1)
				go func() { answer <- n.do(q) }()
				followers = append(followers, answer)
			}
		}
		wait(t, func() bool { return gateway.Mirrors(f.nodes[1].gw)+gateway.Mirrors(f.nodes[2].gw) == 2 })
		f.die(a)
		for _, c := range followers {
			if x := <-c; x.status != 200 {
				t.Errorf("%d %s", x.status, x.body)
			}
		}
		a.calls("dies", 2)
		a.sim.Release("dies")
		<-first
		all, err := a.store.List(t.Context(), ledger.Filter{Limit: 10})
		if err != nil || len(all) != 1 || all[0].Attempt != 2 || all[0].BilledMaybe != 1 {
			t.Errorf("%d intents, %v; %+v", len(all), err, all[0].Status)
		}
	})
}
