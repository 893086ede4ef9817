package mcp

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// A proxy that is attached outlives the process that it works through. Its next request finds the socket dead, takes the store
// over, and goes to the same socket again, which this process serves by now; other attached proxies come to it in the same way.
// The session is begun anew behind it, under the same scope, so that what the client calls again is still the same call.

// holder is the way to whichever process holds the store.
type holder struct {
	next     *http.Transport
	dial     func(context.Context) (net.Conn, error)
	takeOver func(context.Context) error
	logger   *slog.Logger
	gateway  atomic.Bool // the last holder was one
	mu       sync.Mutex  // held while the store is taken over, by whoever needs it
}

const (
	// holderHeader says what holds the store.
	holderHeader  = "Holdfast-Holder"
	holderGateway = "gateway"
	holderProxy   = "proxy"

	// scopeHeader names an attached client's session over the processes that hold the store.
	scopeHeader = "Holdfast-Scope"
)

// kind tells a proxy that a client has started, and that nobody starts again, from a gateway and other programs with the engine
// inside.
func (p *Proxy) kind() string {
	if p.passing {
		return holderProxy
	}
	return holderGateway
}

var scopeForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// scopeOf reads scopeHeader; one that no proxy of ours has made is none.
func scopeOf(r *http.Request) string {
	if s := r.Header.Get(scopeHeader); scopeForm.MatchString(s) && !mutant.On("attached-scope-lost") {
		return s
	}
	return ""
}

func newScope() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// errNoHolder says that nobody serves the socket. Nothing was sent.
var errNoHolder = errors.New("the process that held the store has ended")

func newHolder(a Attachment) *holder {
	var d net.Dialer
	dial := func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "unix", a.Socket) }
	t := &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	return &holder{next: t, dial: dial, takeOver: a.TakeOver, logger: a.Logger}
}

// RoundTrip sends a request to the holder. Where there is none, a message is worth taking the store over for; a stream that is
// only listened to is not.
func (h *holder) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := h.next.RoundTrip(r)
	if err != nil && neverLeft(err) {
		if r.Method != http.MethodPost || h.takeOver == nil {
			return nil, fmt.Errorf("%w: %w", errNoHolder, err)
		}
		if err = h.revive(r.Context()); err == nil {
			resp, err = h.once(r)
		}
	}
	if err == nil {
		h.gateway.Store(resp.Header.Get(holderHeader) == holderGateway)
	}
	return resp, err
}

// How long a new holder is waited for: one that has the lock opens its socket soon, and a gateway is started again by whoever
// looks after it, which a proxy that had taken its store would prevent.
const (
	socketWait  = 3 * time.Second
	gatewayWait = 5 * time.Second
	socketLook  = 50 * time.Millisecond
)

// revive returns when the socket is served, by this process if need be.
func (h *holder) revive(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	patience := time.Duration(0)
	if h.gateway.Load() {
		patience = gatewayWait
	}
	look := time.NewTicker(socketLook)
	defer look.Stop()
	for began := time.Now(); ; {
		if c, err := h.dial(ctx); err == nil {
			_ = c.Close() // it was only to see that somebody listens
			return nil
		}
		if waited := time.Since(began); waited >= patience {
			err := h.takeOver(ctx)
			if err == nil {
				h.logger.Info("the process that held the store has ended; this one has taken the store over")
				return nil
			}
			if !errors.Is(err, ledger.ErrLocked) || waited >= patience+socketWait {
				return fmt.Errorf("%w, and this proxy cannot take the store over: %w", errNoHolder, err)
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errNoHolder, context.Cause(ctx))
		}
	}
}

// once sends a copy of r: the transport has closed the body of the one before.
func (h *holder) once(r *http.Request) (*http.Response, error) {
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	c := r.Clone(r.Context())
	c.Body = body
	return h.next.RoundTrip(c)
}
