package gateway

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// Gateways on one ledger talk over their data planes. Each request is signed by a secret that only who reads the ledger has: a
// peer may read every tenant's answers, and no client is one.

const (
	peerPrefix = "/holdfast/v1/peer/"
	peerHead   = "Holdfast-Peer"
	// peerSkew bounds how old a signature may be, by ledger time, which all gateways share.
	peerSkew = 30 * time.Second
	// maxNonces bounds those that are remembered; beyond it nobody is let in before the oldest are too old.
	maxNonces = 1 << 16

	peerDial  = 500 * time.Millisecond // to connect, and again until the head of the answer
	peerAlive = 500 * time.Millisecond // a peer that relays says something at least so often
	peerIdle  = 2 * time.Second        // … and is given up where it does not
	// peerRest is how long a peer that was silent is left alone, doubled each time up to maxPeerRest.
	peerRest    = 500 * time.Millisecond
	maxPeerRest = 15 * time.Second
)

var errPeerAway = errors.New("gateway: the other replica cannot be reached")

func peerPath(path string) bool { return strings.HasPrefix(path, peerPrefix) }

// links are the ways to other gateways.
type links struct {
	g      *Gateway
	key    []byte
	client *http.Client

	mu     sync.Mutex
	rests  map[string]rested // by owner
	nonces map[string]time.Time
}

type rested struct {
	until time.Time
	last  time.Duration
}

// linkUp makes ready what joins this gateway with others, where there may be some.
func (g *Gateway) linkUp(ctx context.Context) error {
	g.awaits = newAwaits(g)
	if g.peers == nil {
		return nil
	}
	secret, err := g.ledger.Secret(ctx, "peer")
	if err != nil {
		return fmt.Errorf("gateway: read the secret that replicas know each other by: %w", err)
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("holdfast peer 1"))
	dialer := &net.Dialer{Timeout: peerDial}
	g.links = &links{g: g, key: mac.Sum(nil), rests: map[string]rested{}, nonces: map[string]time.Time{},
		client: &http.Client{
			Transport: &http.Transport{DialContext: dialer.DialContext, ResponseHeaderTimeout: peerDial, MaxIdleConnsPerHost: 16,
				IdleConnTimeout: time.Minute, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	return nil
}

func (g *Gateway) unlink() {
	g.awaits.close()
	if g.links != nil {
		g.links.client.CloseIdleConnections()
	}
}

// do asks an owner. An error says that it cannot be reached, and it is left alone for a while.
func (l *links) do(ctx context.Context, owner, method, path string, body []byte) (*http.Response, error) {
	address, ok := l.g.peers.Find(owner)
	if !ok || address == "" || l.resting(owner) {
		return nil, errPeerAway
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(address, "/")+path, strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set(peerHead, l.sign(req, body))
	resp, err := l.client.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			l.silent(owner)
		}
		return nil, err
	}
	l.mu.Lock()
	delete(l.rests, owner)
	l.mu.Unlock()
	return resp, nil
}

func (l *links) resting(owner string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.rests[owner]
	return ok && time.Now().Before(r.until)
}

// silent leaves a peer alone that did not answer, longer each time, so that it costs others nothing.
func (l *links) silent(owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rests[owner]
	r.last = min(max(2*r.last, peerRest), maxPeerRest)
	r.until = time.Now().Add(r.last)
	if len(l.rests) > 1024 { // owners come and go
		clear(l.rests)
	}
	l.rests[owner] = r
}

// sign is the header by which a peer knows this request as one of its own kind.
func (l *links) sign(r *http.Request, body []byte) string {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails
	at, once := strconv.FormatInt(l.g.ledger.Now().UnixMilli(), 10), hex.EncodeToString(nonce[:])
	return at + " " + once + " " + hex.EncodeToString(l.mac(r, at, once, body))
}

func (l *links) mac(r *http.Request, at, nonce string, body []byte) []byte {
	sum := sha256.Sum256(body)
	m := hmac.New(sha256.New, l.key)
	for _, part := range []string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, at, nonce} {
		fmt.Fprintf(m, "%d:%s\n", len(part), part)
	}
	m.Write(sum[:])
	return m.Sum(nil)
}

// maxPeerBody bounds what a peer may send with a request.
const maxPeerBody = 64 << 10

// known reads a peer's request, and says whether it is one.
func (l *links) known(r *http.Request) (body []byte, ok bool) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxPeerBody+1))
	if err != nil || len(body) > maxPeerBody {
		return nil, false
	}
	if mutant.On("peer-unsigned") {
		return body, true
	}
	parts := strings.Split(r.Header.Get(peerHead), " ")
	if len(parts) != 3 {
		return nil, false
	}
	said, err := hex.DecodeString(parts[2])
	if err != nil || !hmac.Equal(said, l.mac(r, parts[0], parts[1], body)) {
		return nil, false
	}
	ms, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return nil, false
	}
	at, now := time.UnixMilli(ms), l.g.ledger.Now()
	if at.Before(now.Add(-peerSkew)) || at.After(now.Add(peerSkew)) {
		return nil, false
	}
	return body, l.once(parts[1], now)
}

// once says that a request has not come before.
func (l *links) once(nonce string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, again := l.nonces[nonce]; again {
		return false
	}
	if len(l.nonces) >= maxNonces {
		for n, at := range l.nonces {
			if now.Sub(at) > 2*peerSkew {
				delete(l.nonces, n)
			}
		}
		if len(l.nonces) >= maxNonces {
			return false
		}
	}
	l.nonces[nonce] = now
	return true
}

// servePeer answers another gateway.
func (g *edition) servePeer(w http.ResponseWriter, r *http.Request) {
	body, ok := g.links.known(r)
	if !ok {
		http.NotFound(w, r) // as if there were nothing: who is no peer learns nothing of it
		return
	}
	what := strings.TrimPrefix(r.URL.Path, peerPrefix)
	id, running := strings.CutPrefix(what, "executions/")
	switch {
	case running && r.Method == http.MethodGet:
		g.serveRelay(w, r, id)
	case what == "adopt" && r.Method == http.MethodPost:
		g.serveAdopt(w, r, body)
	default:
		http.NotFound(w, r)
	}
}
