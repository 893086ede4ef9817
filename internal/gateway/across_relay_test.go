package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
)

// A running stream of another gateway is read while it runs, and resumed there behind any event, in each wire format.
func TestAcrossStreamIsRelayed(t *testing.T) {
	f := newFleet(t, 2)
	a, b := f.nodes[0], f.nodes[1]
	for _, wire := range wires {
		q := ask(wire, wire).key(wire)
		a.script(wire, fmt.Sprintf(`{"chunks":8,"hold":%q,"hold_at":"event","hold_n":5}`, wire))
		first := f.running(a, q)
		shown := func(got []byte) bool { return bytes.Contains(got, []byte("ans")) }
		second, _ := b.rawUntil(q, shown) // while the provider stands still in the middle
		resumed := f.joins(b, q.with("Last-Event-ID", "2"))
		late := f.joins(b, q)
		a.sim.Release(wire)
		x, y, z := <-first, <-resumed, <-late
		reset(second)
		if z.err != nil || z.status != 200 || !bytes.Equal(x.body, z.body) || z.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: %d %v %v\n%q\n%q", wire, z.status, z.header, z.err, x.body, z.body)
		}
		if rest := x.body[ends(wire, x.body)[1]:]; !bytes.Equal(y.body, rest) {
			t.Errorf("%s behind the second event: %d %q, want %q", wire, y.status, y.body, rest)
		}
		settled := b.must(q.with("Last-Event-ID", "3"), 200)
		if rest := x.body[ends(wire, x.body)[2]:]; !bytes.Equal(settled.body, rest) {
			t.Errorf("%s from the record: %q", wire, settled.body)
		}
		a.calls(wire, 1)
	}
}

// breaks has a client of the second gateway see the beginning of the first's stream, and the relay break then.
func (f *fleet) breaks(wire string, meanwhile func()) *answered {
	f.t.Helper()
	a, b := f.nodes[0], f.nodes[1]
	q := ask(wire, wire).key(wire)
	a.script(wire, fmt.Sprintf(`{"chunks":8,"hold":%q,"hold_at":"event","hold_n":5}`, wire))
	f.running(a, q)
	resp, err := b.open(q)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	got := make([]byte, 1)
	if _, err := io.ReadFull(resp.Body, got); err != nil {
		f.t.Fatal(err)
	}
	meanwhile()
	f.unreachable()
	a.server.CloseClientConnections()
	a.sim.Release(wire)
	x := &answered{status: resp.StatusCode, header: resp.Header}
	rest, err := io.ReadAll(resp.Body)
	x.body, x.err = append(got, rest...), err
	return x
}

// Behind a relay that breaks the rest comes from the record, byte for byte.
func TestAcrossRelayBreaks(t *testing.T) {
	for _, wire := range wires {
		t.Run(wire, func(t *testing.T) {
			f := newFleet(t, 2)
			x := f.breaks(wire, func() {})
			stored := f.nodes[1].must(ask(wire, wire).key(wire), 200)
			if x.err != nil || !bytes.Equal(x.body, stored.body) {
				t.Errorf("%v\n%q\nwant\n%q", x.err, x.body, stored.body)
			}
			f.nodes[0].calls(wire, 1)
		})
	}
}

// Semantics 26: what is on record is not spliced onto what a client has seen of another run.
func TestAcrossRelaySplicesNothing(t *testing.T) {
	for _, wire := range wires {
		t.Run(wire, func(t *testing.T) {
			f := newFleet(t, 2)
			other := []byte(strings.Repeat("another run ", 400))
			x := f.breaks(wire, func() { f.nodes[1].cut.body.Store(&other) })
			if bytes.Contains(x.body, []byte("another run")) {
				t.Errorf("two runs in one answer: %q", x.body)
			}
			if !bytes.Contains(x.body, []byte(`"error"`)) {
				t.Errorf("the break is not told: %v %q", x.err, x.body)
			}
		})
	}
}

// Nobody reads another's answers over a peer's way who has not the ledger's secret.
func TestPeersAreSigned(t *testing.T) {
	f := newFleet(t, 2)
	a, b := f.nodes[0], f.nodes[1]
	a.script("secret", `{"hold":"secret"}`)
	first := f.running(a, chat("secret").key("k"))
	all, err := a.store.List(t.Context(), ledger.Filter{Limit: 1})
	if err != nil || len(all) != 1 {
		t.Fatal(err)
	}
	target := "/holdfast/v1/peer/executions/" + all[0].ID + "?key=" + url.QueryEscape(all[0].Key)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	peers, err := b.peers.Do(ctx, a.log.Owner(), http.MethodGet, target, nil, nil)
	if err != nil || peers.StatusCode != http.StatusOK {
		t.Fatalf("a peer is not answered: %v %v", peers, err)
	}
	_ = peers.Body.Close()
	anybodys, err := a.client.Get(a.server.URL + target)
	if err != nil {
		t.Fatal(err)
	}
	defer anybodys.Body.Close()
	if anybodys.StatusCode != http.StatusUnauthorized {
		t.Errorf("anybody is answered %d", anybodys.StatusCode)
	}
	a.sim.Release("secret")
	<-first
}

// Without a word from anybody the end of another gateway's call is seen in the log.
func TestAcrossAwaitsWithoutNotice(t *testing.T) {
	f := newFleet(t, 2, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, "default: {", "default: {timeouts: {request: 30s, total: 25s, attempt: 25s, first_token: 25s}, ", 1)
	})
	f.unreachable()
	a, b := f.nodes[0], f.nodes[1]
	a.script("quiet", `{"hold":"quiet"}`)
	q := chat("quiet").key("k")
	first := f.running(a, q)
	second := f.follows(b, q)
	a.sim.Release("quiet")
	if x, y := <-first, <-second; x.status != 200 || y.status != 200 || !bytes.Equal(x.body, y.body) {
		t.Errorf("%d, %d %s", x.status, y.status, y.body)
	}
	a.calls("quiet", 1)
}
