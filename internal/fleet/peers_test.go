package fleet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/fleet"
)

// replica is one engine's end of the calls, behind a real listener.
type replica struct {
	*fleet.Peers
	server *httptest.Server
}

func newReplica(t *testing.T, id string, o *owners) *replica {
	t.Helper()
	d := fleet.NewDirectory(o, id, nil)
	t.Cleanup(d.Close)
	p := fleet.NewPeers(d, fleet.NewSigner(id, []byte("the store's own"), o.Now), nil)
	t.Cleanup(p.Close)
	r := &replica{Peers: p, server: httptest.NewServer(p)}
	t.Cleanup(r.server.Close)
	return r
}

func pair(t *testing.T) (o *owners, a, b *replica) {
	o = &owners{}
	a, b = newReplica(t, "a", o), newReplica(t, "b", o)
	o.put("a", time.Hour, fleet.Info{Address: a.server.URL})
	o.put("b", time.Hour, fleet.Info{Address: b.server.URL})
	return o, a, b
}

func TestPeersCall(t *testing.T) {
	_, a, b := pair(t)
	b.Handle("POST /holdfast/v1/peer/echo/{what}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, `{"said":"`+r.PathValue("what")+" "+r.URL.Query().Get("q")+" "+fleet.From(r)+" "+strings.Trim(string(body), `"`)+`"}`)
	}))
	var out struct{ Said string }
	if err := a.Call(t.Context(), "b", http.MethodPost, "/holdfast/v1/peer/echo/it?q=1", "body", &out); err != nil {
		t.Fatal(err)
	}
	if out.Said != "it 1 a body" {
		t.Errorf("got %q", out.Said)
	}
	if err := a.Call(t.Context(), "b", http.MethodGet, "/holdfast/v1/peer/nothing", nil, nil); err == nil || errors.Is(err, fleet.ErrUnreachable) {
		t.Errorf("a path that is none: %v", err)
	}
	for _, nobody := range []string{"c", "a", ""} {
		if err := a.Call(t.Context(), nobody, http.MethodGet, "/holdfast/v1/peer/x", nil, nil); !errors.Is(err, fleet.ErrUnreachable) {
			t.Errorf("%q: %v", nobody, err)
		}
	}
}

// TestPeersStream reads an answer whose end comes long after its head, and leaves another one.
func TestPeersStream(t *testing.T) {
	_, a, b := pair(t)
	goOn, left := make(chan struct{}), make(chan struct{})
	b.Handle("GET /holdfast/v1/peer/stream", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "first\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-goOn:
			_, _ = io.WriteString(w, "last\n")
		case <-r.Context().Done():
			close(left)
		}
	}))
	get := func() *http.Response {
		r, err := a.Do(t.Context(), "b", http.MethodGet, "/holdfast/v1/peer/stream", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r.Body, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := get()
	_ = r.Body.Close()
	<-left
	r = get()
	defer func() { _ = r.Body.Close() }()
	close(goOn)
	if rest, err := io.ReadAll(r.Body); err != nil || string(rest) != "last\n" {
		t.Errorf("got %q %v", rest, err)
	}
}

// TestPeersRefuse asks as strangers, and as engines that have stopped, do.
func TestPeersRefuse(t *testing.T) {
	o, _, b := pair(t)
	var served atomic.Int64
	b.Handle("/", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	ask := func(what string, sign func(*http.Request)) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.server.URL+"/holdfast/v1/peer/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		sign(r)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		if answer.StatusCode != http.StatusUnauthorized || answer.Header.Get(fleet.ProofHeader) != "" || served.Load() != 0 {
			t.Errorf("%s: %s", what, answer.Status)
		}
	}
	ask("a stranger", func(*http.Request) {})
	ask("one who guesses", func(r *http.Request) { fleet.NewSigner("a", []byte("guess"), o.Now).Sign(r, "b", nil) })
	ask("one who is not there", func(r *http.Request) { fleet.NewSigner("c", []byte("the store's own"), o.Now).Sign(r, "b", nil) })
	o.put("a", time.Hour, fleet.Info{Ended: true})
	for {
		if _, ok := b.Directory().Member("a"); !ok {
			break
		}
	}
	ask("one who has stopped", func(r *http.Request) { fleet.NewSigner("a", []byte("the store's own"), o.Now).Sign(r, "b", nil) })
}

// TestPeersBelieveNobodyElse calls an address at which another program listens by now.
func TestPeersBelieveNobodyElse(t *testing.T) {
	o, a, _ := pair(t)
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "{}") }))
	defer stranger.Close()
	o.put("b", time.Hour, fleet.Info{Address: stranger.URL})
	if err := a.Call(t.Context(), "b", http.MethodGet, "/holdfast/v1/peer/x", nil, nil); !errors.Is(err, fleet.ErrUnreachable) {
		t.Error(err)
	}
}

// TestSilentPeerRests calls one that accepts and says nothing, which is what a stopped process does.
func TestSilentPeerRests(t *testing.T) {
	o, a, b := pair(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	o.put("b", time.Hour, fleet.Info{Address: "http://" + l.Addr().String()})
	if _, err := a.Do(t.Context(), "b", http.MethodGet, "/holdfast/v1/peer/x", nil, nil); !errors.Is(err, fleet.ErrUnreachable) {
		t.Fatal(err)
	}
	_ = l.Close()
	o.put("b", time.Hour, fleet.Info{Address: b.server.URL})
	b.Handle("/", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for { // it rests, then one call finds that it is there again
		r, err := a.Do(t.Context(), "b", http.MethodGet, "/holdfast/v1/peer/x", nil, nil)
		if err == nil {
			_ = r.Body.Close()
			break
		}
		if !errors.Is(err, fleet.ErrUnreachable) {
			t.Fatal(err)
		}
	}
}

// TestCallerWhoLeaves is no silence of the peer's.
func TestCallerWhoLeaves(t *testing.T) {
	_, a, b := pair(t)
	came := make(chan struct{})
	b.Handle("/holdfast/v1/peer/slow", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(came)
		<-r.Context().Done()
	}))
	b.Handle("/holdfast/v1/peer/quick", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-came; leave() }()
	if _, err := a.Do(ctx, "b", http.MethodGet, "/holdfast/v1/peer/slow", nil, nil); !errors.Is(err, context.Canceled) && !errors.Is(err, fleet.ErrUnreachable) {
		t.Fatal(err) // under load the peer's patience may be over first
	} else if errors.Is(err, fleet.ErrUnreachable) {
		t.Skip("the machine was slower than the patience with a peer")
	}
	if err := a.Call(t.Context(), "b", http.MethodGet, "/holdfast/v1/peer/quick", nil, nil); err != nil {
		t.Error(err)
	}
}
