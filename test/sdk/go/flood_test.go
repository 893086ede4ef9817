package sdk

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// flooded is a gateway with as many workers as there are clients to vanish, narrow one with memory for one turn of
// answers: a place or a byte that did not come back is missed by the next flood.
const (
	flooded = "limits: {workers: 500, body_memory: 64MiB}\n"
	narrow  = "limits: {body_memory: 16MiB, max_response_bytes: 4MiB}\n"
	crowd   = 500
	quota   = crowd / 5 // finish_quota
)

// gauges is what the gateway says of itself.
type gauges struct{ goroutines, files, memory float64 }

func (p *process) gauges(t *testing.T) (g gauges) {
	t.Helper()
	resp, err := http.Get(p.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	into := map[string]*float64{"go_goroutines": &g.goroutines, "process_open_fds": &g.files, "process_resident_memory_bytes": &g.memory}
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		name, value, _ := strings.Cut(in.Text(), " ")
		if p := into[name]; p != nil {
			if *p, err = strconv.ParseFloat(value, 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	if g.goroutines == 0 {
		t.Fatal("/metrics has no go_goroutines")
	}
	return g
}

// settles waits until goroutines and open files are back at the level of before, up to slack.
func (p *process) settles(t *testing.T, before gauges, slack float64) gauges {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	patience := time.After(20 * time.Second)
	for {
		now := p.gauges(t)
		if now.goroutines <= before.goroutines+slack && (now.files <= before.files+slack) {
			return now
		}
		select {
		case <-tick.C:
		case <-patience:
			t.Fatalf("still %+v, before %+v", now, before)
		}
	}
}

// back holds that all is as it was before, and memory within what the pools, the collector and the replays may take.
func (p *process) back(t *testing.T, before gauges) {
	t.Helper()
	after := p.settles(t, before, 20)
	if grown := after.memory - before.memory; grown > 64<<20 {
		t.Errorf("%.0f MiB more memory than before", grown/(1<<20))
	}
	t.Logf("before %+v, after %+v", before, after)
}

// rawChat is one streamed chat request as bytes, for clients worse than any SDK.
func rawChat(op, question, script string) []byte {
	body := fmt.Sprintf(`{"model":%q,"stream":true,"messages":[{"role":"user","content":%q}]}`, openaiModel, question)
	return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\nContent-Type: application/json\r\n"+
		"Sim-Op: %s\r\nSim-Script: %s\r\nContent-Length: %d\r\n\r\n%s", op, script, len(body), body)
}

// dial sends a request on a connection of its own whose kernel takes in little.
func (p *process) dial(t *testing.T, request []byte) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	conn := c.(*net.TCPConn)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetReadBuffer(64 << 10) // a larger one only makes the test weaker
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	return conn
}

func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // the gateway may have hung up before
	_ = conn.Close()
}

// TestVanish: clients that vanish all at once leave behind what finish_quota allows and nothing else, time and again.
func TestVanish(t *testing.T) {
	g := startGateway(t, t.TempDir(), flooded)
	g.vanish(t) // the first fills pools
	before := g.settles(t, g.gauges(t), 0)
	for range 3 {
		g.vanish(t)
	}
	g.back(t, before)
}

func (p *process) vanish(t *testing.T) {
	t.Helper()
	op := theRig.op()
	script := fmt.Sprintf(`{"hold":%q}`, op)
	padding := strings.Repeat("x", 64<<10)
	conns := make([]*net.TCPConn, crowd)
	for i := range conns {
		conns[i] = p.dial(t, rawChat(op, fmt.Sprintf("%s %d %s", op, i, padding), script))
	}
	theRig.waitAllHeld(t, op, crowd) // so many places were free
	var all sync.WaitGroup
	for _, c := range conns {
		all.Go(func() { reset(c) })
	}
	all.Wait()
	theRig.waitCounts(t, op, fmt.Sprintf("timeout_ms=20000&peer_closed=%d", crowd-quota))
	if n := theRig.counts(t, op); n.InFlight != quota {
		t.Errorf("%d answers are finished for clients that left, want %d", n.InFlight, quota)
	}
	stays := theRig.op()
	c := clients(p.url)[0]
	if _, _, err := c.ask(t.Context(), true, call{op: stays, prompt: "I am still here"}); err != nil {
		t.Errorf("a client that stays: %v", err)
	}
	theRig.release(t, op)
	theRig.waitCounts(t, op, fmt.Sprintf("timeout_ms=20000&ended=%d", crowd))
}

// TestSlowReader: a client's own pace delays nobody else: the provider's stream ends, and the client gets all of it.
func TestSlowReader(t *testing.T) {
	g := startGateway(t, t.TempDir(), narrow)
	const size = 3 << 20
	op := theRig.op()
	before := g.gauges(t)
	conn := g.dial(t, rawChat(op, op, fmt.Sprintf(`{"size":%d,"chunks":200}`, size)))
	in := bufio.NewReaderSize(conn, 4<<10)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 16<<10)
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		t.Fatal(err)
	}
	theRig.waitCounts(t, op, "timeout_ms=20000&ended=1")
	rest, err := io.ReadAll(resp.Body)
	if err != nil || len(first)+len(rest) < size || !bytes.HasSuffix(rest, []byte("data: [DONE]\n\n")) {
		t.Errorf("%d bytes, %v", len(rest), err)
	}
	reset(conn)
	g.settles(t, before, 20)
}

// TestNeverReads: clients that read nothing hold no provider back, and when they go, what was kept for them goes.
// Their answers together fill body_memory, so that the second turn fails where the first left something.
func TestNeverReads(t *testing.T) {
	g := startGateway(t, t.TempDir(), narrow)
	begun := g.gauges(t)
	var before gauges
	for turn := range 8 {
		op := theRig.op()
		const idlers, size = 4, 3 << 20
		var conns []*net.TCPConn
		for i := range idlers {
			conns = append(conns, g.dial(t, rawChat(op, fmt.Sprint(op, i), fmt.Sprintf(`{"size":%d,"chunks":200}`, size))))
		}
		theRig.waitCounts(t, op, fmt.Sprintf("timeout_ms=20000&ended=%d", idlers))
		for _, c := range conns {
			reset(c)
		}
		g.settles(t, gauges{goroutines: begun.goroutines, files: begun.files + 20}, 4)
		// One more, whose answer is too large to be kept: the provider waits for this client, and with it no longer.
		op = theRig.op()
		conn := g.dial(t, rawChat(op, op, `{"size":6000000,"chunks":100}`))
		head := make([]byte, len("HTTP/1.1 200"))
		if _, err := io.ReadFull(conn, head); err != nil || string(head) != "HTTP/1.1 200" {
			t.Fatalf("turn %d: %s, %v", turn, head, err)
		}
		reset(conn)
		theRig.waitCounts(t, op, "timeout_ms=20000&ended=1")
		c, in := clients(g.url)[0], call{op: theRig.op(), prompt: "read", script: fmt.Sprintf(`{"size":%d,"chunks":200}`, size)}
		got, tape, err := c.ask(t.Context(), true, in)
		if err != nil || len(got.text) != size || tape.last().header.Get("Holdfast-Recorded") != "" {
			t.Fatalf("turn %d: %d bytes, %v, %v", turn, len(got.text), err, tape.last().header)
		}
		if turn == 1 {
			before = g.settles(t, g.gauges(t), 0)
		}
	}
	g.back(t, before)
}
