package gateway

import (
	"io"
	"net/http"
	"time"
)

// What gateways on one ledger ask of each other, over their data planes. Who asks has been known as one of them: it may read every
// tenant's answers, and no client is one.
const (
	peerPrefix = "/holdfast/v1/peer/"

	peerAlive = 500 * time.Millisecond // a peer that relays says something at least so often
	peerIdle  = 2 * time.Second        // … and is given up where it does not
	peerWait  = time.Second            // for the whole of an answer that a peer has in memory
	// maxPeerBody bounds what a peer may send with a request.
	maxPeerBody = 64 << 10
)

// linkUp makes ready what joins this gateway with others, where there may be some.
func (g *Gateway) linkUp() {
	g.awaits = newAwaits(g)
	if g.peers == nil {
		return
	}
	g.peers.Handle("GET "+peerPrefix+"executions/{intent}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.current.Load().serveRelay(w, r, r.PathValue("intent"))
	}))
	g.peers.Handle("POST "+peerPrefix+"adopt", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPeerBody))
		if err != nil {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			return
		}
		g.current.Load().serveAdopt(w, r, body)
	}))
}
