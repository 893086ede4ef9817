package admin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/internal/fleet"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Replica is one engine on the store.
type Replica struct {
	Replica   string     `json:"replica"` // the id by which it leases
	State     string     `json:"state"`   // up, draining, ended: stopped in order, lost: its heartbeat has run out
	Self      bool       `json:"self"`    // it is the one that answers
	Address   string     `json:"address,omitempty"`
	Version   string     `json:"version,omitempty"`
	StartedAt *time.Time `json:"started_at,omitempty"`
	BeatAt    *time.Time `json:"beat_at,omitempty"` // of its last heartbeat
	Until     time.Time  `json:"until"`             // it counts as living until then
	Draining  bool       `json:"draining"`
}

// States of Replica.
const (
	replicaUp       = "up"
	replicaDraining = "draining"
	replicaEnded    = "ended"
	replicaLost     = "lost"
)

// lostFor is how long a replica that was lost is listed without ?all=1.
const lostFor = time.Hour

// replicas serves the list of the engines on the store.
func (a *API) replicas(mux *http.ServeMux) {
	mux.HandleFunc("GET /holdfast/v1/replicas", func(w http.ResponseWriter, r *http.Request) {
		q, err := parameters(r, []string{"all"})
		all := false
		if err == nil {
			all, err = flagOf(q, "all")
		}
		if err != nil {
			fail(w, http.StatusBadRequest, "invalid_request", err.Error())
			return
		}
		owners, err := a.Ledger.Owners(r.Context())
		if err != nil {
			a.away(w, err)
			return
		}
		answer(w, a.listReplicas(owners, all))
	})
}

func (a *API) listReplicas(owners []ledger.Owner, all bool) []Replica {
	now, out := a.Ledger.Now(), []Replica{}
	for _, o := range owners {
		m := fleet.MemberOf(o)
		v := Replica{Replica: m.ID, State: replicaUp, Self: a.Log != nil && m.ID == a.Log.Owner(), Address: m.Address, Version: m.Version,
			StartedAt: present(m.StartedAt), BeatAt: present(m.BeatAt), Until: m.Until.UTC(), Draining: m.Draining}
		switch {
		case m.Ended:
			v.State = replicaEnded
		case now.After(m.Until):
			v.State = replicaLost
		case m.Draining:
			v.State = replicaDraining
		}
		if all || v.State != replicaEnded && (v.State != replicaLost || now.Sub(m.Until) < lostFor) {
			out = append(out, v)
		}
	}
	return out
}

// others are the live engines beside this one; none where the store admits one at a time.
func (a *API) others() (others []fleet.Member) {
	if a.Peers == nil {
		return nil
	}
	for _, m := range a.Peers.Directory().Live() {
		if m.ID != a.Peers.Directory().Self() {
			others = append(others, m)
		}
	}
	return others
}

// each asks the other replicas, all at a time, and returns those that were not reached.
func (a *API) each(ctx context.Context, ask func(context.Context, string) error) []Unreached {
	var mu sync.Mutex
	var unreached []Unreached
	var all sync.WaitGroup
	for _, m := range a.others() {
		all.Go(func() {
			if err := ask(ctx, m.ID); err != nil {
				mu.Lock()
				defer mu.Unlock()
				unreached = append(unreached, Unreached{Replica: m.ID, Address: m.Address, Why: why(err)})
			}
		})
	}
	all.Wait()
	slices.SortFunc(unreached, func(x, y Unreached) int { return cmp.Compare(x.Replica, y.Replica) })
	return unreached
}

func why(err error) string {
	text := strings.TrimPrefix(err.Error(), fleet.ErrUnreachable.Error()+": ")
	if errors.Is(err, context.Canceled) {
		text = "the caller left"
	}
	return text
}

// Unreached is a replica that an order, or a question, did not reach.
type Unreached struct {
	Replica string `json:"replica"`
	Address string `json:"address,omitempty"`
	Why     string `json:"why"`
}

// UnreachedHeader names, on a list of what all replicas have, those of which it is not.
const UnreachedHeader = "Holdfast-Unreached"

// Paths of the calls between replicas.
const (
	peerRoutes = fleet.Prefix + "routes"
	peerOrders = fleet.Prefix + "routes/"
)

// ServePeers has the other replicas see and order what is this one's alone: the live state of its routes.
func (a *API) ServePeers(p *fleet.Peers) {
	if a.Routes == nil {
		return
	}
	p.Handle("GET "+peerRoutes, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, a.listRoutes()) }))
	for action, h := range a.orders(func(r *http.Request) giver { return giver{name: "replica " + fleet.From(r), passed: true} }) {
		p.Handle("POST "+peerOrders+action, h)
	}
}

// fleetRoutes are the routes of all replicas, each with whose it is; those of this one first.
func (a *API) fleetRoutes(ctx context.Context) ([]Route, []Unreached) {
	all := a.listRoutes()
	if a.Peers == nil {
		return all, nil
	}
	name(all, a.Peers.Directory().Self())
	var mu sync.Mutex
	theirs := map[string][]Route{}
	unreached := a.each(ctx, func(ctx context.Context, id string) error {
		var list []Route
		if err := a.Peers.Call(ctx, id, http.MethodGet, peerRoutes, nil, &list); err != nil {
			return err
		}
		name(list, id)
		mu.Lock()
		defer mu.Unlock()
		theirs[id] = list
		return nil
	})
	for _, m := range a.others() {
		all = append(all, theirs[m.ID]...)
	}
	return all, unreached
}

func name(list []Route, replica string) {
	for i := range list {
		list[i].Replica = replica
	}
}

// carry gives an order that this replica has obeyed to the others, and adds what they made of it.
func (a *API) carry(r *http.Request, action string, in any, out *Obeyed) {
	if a.Peers == nil || mutant.On("orders-stay-here") {
		return
	}
	out.Replicas = 1
	var mu sync.Mutex
	out.Unreached = a.each(r.Context(), func(ctx context.Context, id string) error {
		var theirs Obeyed
		if err := a.Peers.Call(ctx, id, http.MethodPost, peerOrders+action, in, &theirs); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		out.Replicas++
		if action == "heal" {
			out.Known += theirs.Known // each had faults of its own
		} else {
			out.Known = max(out.Known, theirs.Known)
		}
		return nil
	})
}

// unreachedIDs is how UnreachedHeader names them.
func unreachedIDs(list []Unreached) string {
	var b bytes.Buffer
	for i, u := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(u.Replica)
	}
	return b.String()
}
