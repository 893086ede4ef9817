package holdfast

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/fleet"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/pause"
)

// fleetService is what an engine is among those on its store.
type fleetService struct {
	directory *fleet.Directory
	peers     *fleet.Peers // nil where the store admits one engine at a time
	started   time.Time    // ledger time
	address   atomic.Pointer[string]
	leaving   atomic.Bool // told to stop
	over      atomic.Bool // has stopped: its last heartbeat says so
}

// many says that other engines may work on the store beside this one.
func (e *Engine) many() bool { return e.config().Shared() }

// startFleet finds the other engines, and has them know of this one before it takes on anything: a lease whose owner has no
// heartbeat is a dead one's.
func (e *Engine) startFleet(ctx context.Context) error {
	e.fleet.started = e.ledger.Now()
	e.fleet.directory = fleet.NewDirectory(e.ledger, e.log.Owner(), e.logger)
	if !e.many() {
		return nil
	}
	secret, err := e.ledger.Secret(ctx, fleet.SecretName)
	if err != nil {
		return fmt.Errorf("store: read what signs the calls between replicas: %w", err)
	}
	e.fleet.peers = fleet.NewPeers(e.fleet.directory, fleet.NewSigner(e.log.Owner(), secret, e.ledger.Now), e.logger)
	if err := e.log.Alive(ctx); err != nil {
		return fmt.Errorf("store: say that this replica is here: %w", err)
	}
	return nil
}

// ownerInfo is what this engine says of itself with each heartbeat.
func (e *Engine) ownerInfo() []byte { return e.selfInfo().Encode() }

func (e *Engine) selfInfo() fleet.Info {
	i := fleet.Info{Version: fleet.Version(), StartedAt: e.fleet.started, BeatAt: e.ledger.Now(), Draining: e.fleet.leaving.Load(), Ended: e.fleet.over.Load()}
	i.Draining = i.Draining && !i.Ended
	if a := e.fleet.address.Load(); a != nil {
		i.Address = *a
	}
	return i
}

// others finds the other engines for the gateway; nil where there are none.
func (e *Engine) others() gateway.Peers {
	if e.fleet.peers == nil {
		return nil
	}
	return e.fleet.directory
}

// heartbeat is what readiness asks of this engine's own; nil where no other engine could take over.
func (e *Engine) heartbeat() func() error {
	if !e.many() {
		return nil
	}
	return func() error {
		if !e.log.Current() {
			return intent.ErrLeaseOver
		}
		return nil
	}
}

// reachable notes by which address others reach the data plane: as configured, or where it listens on one address.
func (e *Engine) reachable() {
	address := strings.TrimSuffix(e.config().Fleet.Advertise, "/")
	if address == "" {
		address = listenerAddress(e.Addr())
	}
	e.fleet.address.Store(&address)
}

// listenerAddress is a listener's, as others reach it; "" where it is none machine's in particular.
func listenerAddress(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if ip, parsed := netip.ParseAddr(host); err != nil || parsed != nil || ip.IsUnspecified() {
		return ""
	}
	return "http://" + addr
}

// dataPlane serves the port of clients, and the calls of other replicas on it.
func (e *Engine) dataPlane() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.partWith(w, r)
		if e.fleet.peers != nil && strings.HasPrefix(r.URL.Path, fleet.Prefix) {
			e.fleet.peers.ServeHTTP(w, r)
			return
		}
		e.gateway.ServeHTTP(w, r)
	})
}

// partWith has a client's connection closed behind this answer, once this replica was told to stop: the next request goes
// where it can be answered. A tunnel is its own connection's end.
func (e *Engine) partWith(w http.ResponseWriter, r *http.Request) {
	if e.fleet.leaving.Load() && r.Header.Get("Upgrade") == "" {
		w.Header().Set("Connection", "close")
	}
}

// sayWait bounds how long the store may take to hear that this replica is about to stop, or has.
const sayWait = 2 * time.Second

// leave says that this replica is going to stop, and serves on for as long as balancers may need to notice. Jobs are left to the
// others from now on.
func (e *Engine) leave(ctx context.Context) {
	e.fleet.leaving.Store(true)
	e.gateway.Leave()
	if e.stopJobs != nil {
		e.stopJobs()
	}
	if !e.many() {
		return
	}
	said, cancel := context.WithTimeout(ctx, sayWait)
	defer cancel()
	if err := e.log.Alive(said); err != nil {
		e.logger.Warn("the other replicas do not hear yet that this one stops", "error", err)
	}
	if e.data != nil {
		pause.For(ctx, e.config().Fleet.DrainGrace)
		e.data.http.SetKeepAlivesEnabled(false) // what is idle by now, nobody is about to use
	}
}

// ended closes what this engine has of the others, behind the log.
func (e *Engine) ended() {
	if e.fleet.directory != nil {
		e.fleet.directory.Close()
	}
	if e.fleet.peers != nil {
		e.fleet.peers.Close()
	}
}
