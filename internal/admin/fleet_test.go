package admin

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/fleet"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/route"
	"github.com/holdfast-ai/holdfast/ledger"
)

// replicaRig is one of several APIs over one store, with the port by which the others reach it.
type replicaRig struct {
	*rig
	id     string
	server *httptest.Server
}

func (r *rig) replica(t *testing.T, info fleet.Info) *replicaRig {
	t.Helper()
	l := r.api.Ledger
	g := intent.New(intent.Config{Ledger: l})
	t.Cleanup(g.Close)
	secret, err := l.Secret(t.Context(), fleet.SecretName)
	if err != nil {
		t.Fatal(err)
	}
	d := fleet.NewDirectory(l, g.Owner(), nil)
	t.Cleanup(d.Close)
	p := fleet.NewPeers(d, fleet.NewSigner(g.Owner(), secret, l.Now), nil)
	t.Cleanup(p.Close)
	table := route.New(route.Config{Cooldowns: l})
	t.Cleanup(table.Close)
	table.Get("openai/gpt-5/chat.completions/ab", breaker.Config{}, 0.2)
	api := New(Config{Ledger: l, Log: g, Policy: r.api.Policy, Routes: table, Peers: p, Logger: slog.New(slog.DiscardHandler)})
	api.ServePeers(p)
	x := &replicaRig{rig: &rig{t, g, api}, id: g.Owner(), server: httptest.NewServer(p)}
	t.Cleanup(x.server.Close)
	info.Address, info.Version, info.StartedAt, info.BeatAt = x.server.URL, "v1", l.Now(), l.Now()
	x.beat(time.Hour, info)
	return x
}

func (r *replicaRig) beat(lives time.Duration, i fleet.Info) {
	r.t.Helper()
	if err := r.api.Ledger.Beat(r.t.Context(), ledger.Owner{ID: r.id, Until: r.api.Ledger.Now().Add(lives), Info: i.Encode()}); err != nil {
		r.t.Fatal(err)
	}
}

// TestOrdersReachTheFleet orders at one replica, and looks at both.
func TestOrdersReachTheFleet(t *testing.T) {
	r := newRig(t)
	a, b := r.replica(t, fleet.Info{}), r.replica(t, fleet.Info{})
	h := a.operators(policy.Auth{})
	for action, check := range map[string]func(route.Info) bool{
		"pause": func(i route.Info) bool { return i.Paused }, "trip": func(i route.Info) bool { return i.Breaker.Forced },
	} {
		undo := map[string]string{"pause": "resume", "trip": "reset"}[action]
		if out := told(t, h, action, `{"route":"openai/*","reason":"why","by":"ada"}`); out.Replicas != 2 || out.Known != 1 || out.Unreached != nil {
			t.Errorf("%s: %+v", action, out)
		}
		if !check(a.api.Routes.List()[0]) || !check(b.api.Routes.List()[0]) {
			t.Errorf("%s is not obeyed by both", action)
		}
		told(t, h, undo, `{"route":"openai/*"}`)
		if check(a.api.Routes.List()[0]) || check(b.api.Routes.List()[0]) {
			t.Errorf("%s is not obeyed by both", undo)
		}
	}
	list := routesOf(t, h)
	if len(list) != 2 || list[0].Replica != a.id || list[1].Replica != b.id || list[1].Route != list[0].Route {
		t.Errorf("got %+v", list)
	}
}

// TestOrdersSayWhomTheyMissed has a replica that cannot be reached, and one that has no address.
func TestOrdersSayWhomTheyMissed(t *testing.T) {
	r := newRig(t)
	a, b, c := r.replica(t, fleet.Info{}), r.replica(t, fleet.Info{}), r.replica(t, fleet.Info{})
	b.server.Close()
	c.beat(time.Hour, fleet.Info{})
	h := a.operators(policy.Auth{})
	out := told(t, h, "pause", `{"route":"openai/*","reason":"why"}`)
	if out.Replicas != 1 || len(out.Unreached) != 2 || !a.api.Routes.List()[0].Paused {
		t.Errorf("%+v", out)
	}
	for _, u := range out.Unreached {
		if u.Replica != b.id && u.Replica != c.id || u.Why == "" {
			t.Errorf("%+v", u)
		}
	}
	w := send(h, http.MethodGet, routesPath, "")
	if got := w.Header().Get(UnreachedHeader); got != b.id+", "+c.id {
		t.Errorf("not reached: %q", got)
	}
	if list := routesOf(t, h); len(list) != 2 || list[0].Replica != a.id || list[1].Route != "openai/*" {
		t.Errorf("%+v", list)
	}
}

// TestRefusedOrdersGoNowhere: what one replica does not understand, none is given.
func TestRefusedOrdersGoNowhere(t *testing.T) {
	r := newRig(t)
	a, b := r.replica(t, fleet.Info{}), r.replica(t, fleet.Info{})
	h := a.operators(policy.Auth{})
	if w := send(h, http.MethodPost, routesPath+"/pause", `{"route":"openai/*"}`); w.Code != http.StatusBadRequest {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := send(h, http.MethodPost, routesPath+"/fault", `{"route":"openai/*","status":503,"for_ms":1000}`); w.Code != http.StatusForbidden {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if b.api.Routes.List()[0].Paused || len(b.api.Routes.Faults()) > 0 {
		t.Error("the other one obeyed")
	}
	// An order between replicas is no operator's: it goes no further, and nobody else gives it.
	answer, err := http.Post(b.server.URL+peerOrders+"pause", "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized {
		t.Error(answer.Status)
	}
}

func TestReplicasAreListed(t *testing.T) {
	r := newRig(t)
	up, draining, ended, lost, old := r.replica(t, fleet.Info{}), r.replica(t, fleet.Info{Draining: true}), r.replica(t, fleet.Info{}),
		r.replica(t, fleet.Info{}), r.replica(t, fleet.Info{})
	ended.beat(0, fleet.Info{Ended: true})
	lost.beat(-time.Minute, fleet.Info{Version: "v0", Address: "http://10.0.0.9:8787"})
	old.beat(-2*time.Hour, fleet.Info{})
	list := func(path string) map[string]Replica {
		t.Helper()
		w := send(up.operators(policy.Auth{}), http.MethodGet, path, "")
		var all []Replica
		if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		by := map[string]Replica{}
		for _, v := range all {
			by[v.Replica] = v
		}
		return by
	}
	got := list("/holdfast/v1/replicas")
	if v := got[up.id]; v.State != "up" || !v.Self || v.Address != up.server.URL || v.Version != "v1" || v.StartedAt == nil || v.BeatAt == nil {
		t.Errorf("%+v", v)
	}
	if v := got[draining.id]; v.State != "draining" || !v.Draining || v.Self {
		t.Errorf("%+v", v)
	}
	if v := got[lost.id]; v.State != "lost" || v.Version != "v0" || len(got) != 3 {
		t.Errorf("%+v of %d", v, len(got))
	}
	got = list("/holdfast/v1/replicas?all=1")
	if got[ended.id].State != "ended" || got[old.id].State != "lost" || len(got) != 5 {
		t.Errorf("%+v", got)
	}
	if w := send(up.operators(policy.Auth{}), http.MethodGet, "/holdfast/v1/replicas?al=1", ""); w.Code != http.StatusBadRequest {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
