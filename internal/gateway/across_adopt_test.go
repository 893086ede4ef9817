package gateway_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/gateway"
)

// lostPlaces are where a client may lose its connection: what the provider does meanwhile, and what the client has read by then.
var lostPlaces = []struct {
	name, step string
	enough     func(stream bool, b []byte) bool
}{
	{"before the head", `{"hold":"H","chunks":6}`, func(bool, []byte) bool { return true }},
	{"in the middle", `{"hold":"H","hold_at":"event","hold_n":5,"chunks":6}`, func(stream bool, b []byte) bool {
		return !stream || bytes.Contains(b, []byte("answe"))
	}},
	{"after the last byte", `{"chunks":6}`, func(stream bool, b []byte) bool {
		if stream {
			return bytes.Contains(b, []byte("\r\n0\r\n"))
		}
		_, body, ok := bytes.Cut(b, []byte("\r\n\r\n"))
		return ok && len(body) > 0 && (body[len(bytes.TrimSpace(body))-1] == '}' || body[len(bytes.TrimSpace(body))-1] == ']')
	}},
}

// A client that loses its connection to one gateway anywhere and asks another again gets the first execution's answer. Where the two
// do not reach each other the request has to say that it is a retry.
func TestAcrossLostAnswerIsAdopted(t *testing.T) {
	ways(t, func(t *testing.T, fleet func(int, ...option) *fleet) {
		f := fleet(3)
		for i, place := range lostPlaces {
			for _, wire := range wires {
				for _, stream := range []bool{false, true} {
					if wire == "gemini-array" && !stream {
						continue
					}
					op := fmt.Sprintf("lost-%d-%s-%v", i, wire, stream)
					q := plainAsk(wire, op)
					if stream {
						q = ask(wire, op)
					}
					f.loses(op, q, place.step, func(b []byte) bool { return place.enough(stream, b) })
				}
			}
		}
	})
}

// loses has a client of the first gateway lose its connection, and ask the second again.
func (f *fleet) loses(op string, q request, step string, enough func([]byte) bool) {
	f.t.Helper()
	a, b := f.nodes[0], f.nodes[1]
	holds := strings.Contains(step, "hold")
	a.script(op, strings.Replace(step, `"H"`, `"`+op+`"`, 1))
	conn, got := a.rawUntil(q, enough)
	wait(f.t, func() bool { return a.sim.Counts(op).Calls == 1 })
	lost := gateway.Lost(a.gw)
	reset(conn)
	wait(f.t, func() bool { return gateway.Lost(a.gw) > lost })
	again := q
	if f.peers.hidden.Load() {
		again = q.with("X-Stainless-Retry-Count", "1")
	}
	answer := make(chan *answered, 1)
	go func() { answer <- b.do(again) }()
	var x *answered
	for x == nil {
		select {
		case x = <-answer:
		case <-time.After(20 * time.Millisecond):
			a.sim.Release(op)
		}
	}
	if x.err != nil || x.status != 200 || x.header.Get("Idempotency-Replayed") != "true" {
		f.t.Errorf("%s: %d %v %v", op, x.status, x.header, x.err)
	}
	if !holds && !bytes.Equal(bodyOf(f.t, got), x.body) {
		f.t.Errorf("%s: the adopted answer differs", op)
	}
	a.calls(op, 1)
}

// What was adopted once is the second gateway's to deliver: lost there again, the third gets it.
func TestAcrossAdoptedTwice(t *testing.T) {
	f := newFleet(t, 3)
	for _, q := range []request{chat("twice-plain"), streamed("twice-stream")} {
		whole := func(b []byte) bool { // with chunks, of a known length, or a document
			return bytes.Contains(b, []byte("\r\n0\r\n")) || bytes.HasSuffix(b, []byte("[DONE]\n\n")) && bytes.Contains(b, []byte("\r\nContent-Length: ")) ||
				bytes.HasSuffix(bytes.TrimSpace(b), []byte("}")) && !bytes.Contains(b, []byte("event-stream"))
		}
		a, b, c := f.nodes[0], f.nodes[1], f.nodes[2]
		for _, n := range []*node{a, b} {
			before := gateway.Lost(n.gw)
			conn, _ := n.rawUntil(q, whole)
			reset(conn)
			wait(t, func() bool { return gateway.Lost(n.gw) > before })
		}
		if x := c.must(q, 200); x.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%v", x.header)
		}
		a.calls(q.op(), 1)
	}
}

// Identical requests of clients that stay are as many questions, wherever they come.
func TestAcrossIdenticalIsNotRepeated(t *testing.T) {
	ways(t, func(t *testing.T, fleet func(int, ...option) *fleet) {
		f := fleet(3)
		for i := range 6 {
			f.nodes[i%3].must(chat("vote"), 200)
		}
		f.nodes[0].calls("vote", 6)
	})
}

// A request for a new answer ends what another gateway still makes for nobody.
func TestAcrossRegenerate(t *testing.T) {
	f := newFleet(t, 2)
	a, b := f.nodes[0], f.nodes[1]
	a.script("anew", `{"hold":"anew"}`, "ok")
	conn, _ := a.rawUntil(streamed("anew"), func([]byte) bool { return true })
	if err := a.sim.WaitHeld(t.Context(), "anew", 1); err != nil {
		t.Fatal(err)
	}
	reset(conn)
	wait(t, func() bool { return gateway.Lost(a.gw) == 1 })
	if x := b.must(streamed("anew").with("Holdfast-Fresh", "1"), 200); x.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("%v", x.header)
	}
	wait(t, func() bool { return a.gw.Holding().Drains == 0 && a.sim.Counts("anew").InFlight == 0 })
	a.calls("anew", 2)
	a.sim.Release("anew")
}

// A relay is one of its answer's clients: under on_disconnect: cancel the call ends when the last has left, and not before.
func TestAcrossCancel(t *testing.T) {
	f := newFleet(t, 2)
	a, b := f.nodes[0], f.nodes[1]
	for _, stays := range []bool{true, false} {
		op := fmt.Sprintf("cancel-%v", stays)
		a.script(op, fmt.Sprintf(`{"hold":%q}`, op))
		q := streamed(op).workflow("cancel").key(op)
		first, _ := a.rawUntil(q, func([]byte) bool { return true })
		if err := a.sim.WaitHeld(t.Context(), op, 1); err != nil {
			t.Fatal(err)
		}
		second, _ := b.rawUntil(q, func([]byte) bool { return true })
		wait(t, func() bool { return gateway.Attached(a.gw) == 2 })
		reset(first)
		wait(t, func() bool { return gateway.Attached(a.gw) == 1 })
		if stays {
			third := f.joins(b, q)
			a.sim.Release(op)
			if x := <-third; x.err != nil || x.status != 200 {
				t.Errorf("%d %s %v", x.status, x.body, x.err)
			}
			reset(second)
			continue
		}
		reset(second)
		wait(t, func() bool { return a.sim.Counts(op).InFlight == 0 })
		a.sim.Release(op)
	}
}

// joins begins q at a gateway that has a mirror of it already.
func (f *fleet) joins(at *node, q request) <-chan *answered {
	f.t.Helper()
	before := gateway.Attached(at.gw)
	answer := make(chan *answered, 1)
	go func() { answer <- at.do(q) }()
	wait(f.t, func() bool { return gateway.Attached(at.gw) > before })
	return answer
}
