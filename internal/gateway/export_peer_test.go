package gateway

import "net/http"

// SignPeer signs r as another gateway of g's ledger does.
func SignPeer(g *Gateway, r *http.Request) { r.Header.Set(peerHead, g.links.sign(r, nil)) }
