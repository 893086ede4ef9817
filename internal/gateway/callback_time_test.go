package gateway_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/callback"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
	"github.com/holdfast-ai/holdfast/ledger/sqlite/faultdisk"
)

// telling is a gateway whose callbacks go to a receiver of the test's own, in fake time.
type telling struct {
	*testing.T
	log   *intent.Log
	store *faulty
	gw    *gateway.Gateway

	mu    sync.Mutex
	sends []callback.Delivery
	at    []time.Time
	now   map[string]int // on their way, by host
	most  int
	reply func(n int, d *callback.Delivery) callback.Result
}

// Send implements gateway.CallbackSender.
func (r *telling) Send(_ context.Context, d callback.Delivery) callback.Result {
	host := callback.Host(d.URL)
	r.mu.Lock()
	r.sends, r.at = append(r.sends, d), append(r.at, time.Now())
	n := len(r.sends)
	r.now[host]++
	r.most = max(r.most, r.now[host])
	r.mu.Unlock()
	out := r.reply(n, &d)
	r.mu.Lock()
	r.now[host]--
	r.mu.Unlock()
	return out
}

// sent are the attempts so far.
func (r *telling) sent() ([]callback.Delivery, []time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.sends), slices.Clone(r.at)
}

func config(t *testing.T, yaml string) *policy.Config {
	cfg, faults := policy.Parse("test.yaml", []byte(strings.ReplaceAll(yaml, "SIM", "http://sim.invalid")), os.LookupEnv)
	if cfg == nil {
		t.Fatalf("policy: %v", faults)
	}
	return cfg
}

// tell runs body beside a gateway, in fake time.
func tell(t *testing.T, reply func(n int, d *callback.Delivery) callback.Result, body func(*telling)) {
	synctest.Test(t, func(t *testing.T) {
		l, err := sqlite.Open(t.Context(), sqlite.Config{Path: "/callback.db", Env: "test", Disk: faultdisk.New(t.TempDir()), Readers: 1})
		if err != nil {
			t.Fatal(err)
		}
		r := &telling{T: t, store: &faulty{Ledger: l}, now: map[string]int{}, reply: reply}
		r.log = intent.New(intent.Config{Ledger: r.store, Exclusive: true, Lane: func(rec *ledger.Record) string { return r.gw.AgedLane(rec) }})
		client := upstream.New(upstream.Config{})
		r.gw, err = gateway.New(t.Context(), gateway.Config{Policy: config(t, calling), Ledger: r.store, Log: r.log, Upstream: client, Callbacks: r,
			Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for _, run := range []func(context.Context) error{r.log.Run, r.gw.Jobs().Run, r.gw.Callbacks().Run} {
			all.Go(func() { _ = run(ctx) })
		}
		body(r)
		stop()
		all.Wait()
		r.log.Close()
		client.CloseIdle()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// end brings a job to its end whose end is told to url, and returns the callback's id.
func (r *telling) end(key, url string) string {
	r.Helper()
	return r.endOf("main", key, url)
}

func (r *telling) endOf(tenant, key, url string) string {
	r.Helper()
	op, err := r.log.Begin(intent.Begin{Job: true, Claim: true, Lane: intent.LaneReview, Head: ledger.Intent{Tenant: tenant, Workflow: "told", Key: "idem:test:" + tenant + ":key:" + key,
		Effect: ledger.EffectGeneration, Method: "POST", Path: "/v1/chat/completions", Provider: "openai"}})
	if err != nil {
		r.Fatal(err)
	}
	rec, err := r.store.Get(r.Context(), op.ID())
	if err != nil {
		r.Fatal(err)
	}
	rec.Callback = url
	if err := r.log.Load(rec).GiveUp("test", "rejected", "test"); err != nil {
		r.Fatal(err)
	}
	events, err := r.store.History(r.Context(), op.ID())
	if err != nil {
		r.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == intent.CallbackKind {
			return strings.Split(string(e.Evidence), `"`)[3]
		}
	}
	r.Fatal("no callback")
	return ""
}

func (r *telling) get(id string) *ledger.Record {
	r.Helper()
	rec, err := r.store.Get(r.Context(), id)
	if err != nil {
		r.Fatal(err)
	}
	return rec
}

func answer(status int, header ...string) callback.Result {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return callback.Result{Status: status, Header: h, Sent: true}
}

// A receiver that is away is tried over hours, with one id and a new timestamp each time; then the callback is in the dead
// letter with all its attempts, and somebody who replays it has it sent.
func TestCallbackIsTriedOverHours(t *testing.T) {
	var well atomic.Bool
	tell(t, func(n int, _ *callback.Delivery) callback.Result {
		switch {
		case well.Load():
			return answer(204)
		case n%2 == 0:
			return callback.Result{Err: errors.New("connection refused")}
		}
		return answer(503)
	}, func(r *telling) {
		id := r.end("a", "https://away.example/done?token=hidden")
		time.Sleep(18 * time.Hour)
		rec := r.get(id)
		if rec.Lane != intent.LaneDead || rec.State != ledger.Created || rec.Attempt != intent.CallbackAttempts {
			t.Fatalf("%+v", rec.Status)
		}
		end := 5 * time.Second
		sends, at := r.sent()
		for i, d := range sends {
			if d.ID != id || string(d.Body) != string(sends[0].Body) || len(d.Body) == 0 || string(d.Key) == "" {
				t.Errorf("attempt %d: %+v", i+1, d)
			}
			if i == 0 {
				continue
			}
			if wait := at[i].Sub(at[i-1]); wait > min(end, 4*time.Hour)+3*time.Second {
				t.Errorf("attempt %d after %s, of at most %s", i+1, wait, end)
			}
			end *= 2
		}
		if n := len(sends); n != intent.CallbackAttempts || at[n-1].Sub(at[0]) < time.Hour {
			t.Errorf("%d attempts in %s", n, at[n-1].Sub(at[0]))
		}
		events, err := r.store.History(r.Context(), id)
		ends := 0
		for _, e := range events {
			if e.Kind == "attempt_end" {
				ends++
			}
			if strings.Contains(e.Reason, "hidden") || strings.Contains(string(e.Evidence), "hidden") {
				t.Errorf("%+v", e)
			}
		}
		if ends != intent.CallbackAttempts || err != nil {
			t.Errorf("%d attempts on record: %v", ends, err)
		}
		well.Store(true)
		if err := r.log.Load(rec).Revive(intent.Revival{By: "ops", Reason: "it is back"}); err != nil {
			t.Fatal(err)
		}
		r.gw.Look(r.Context(), id)
		time.Sleep(time.Minute)
		sends, _ = r.sent()
		if rec := r.get(id); rec.Outcome != ledger.OutcomeSuccess || rec.Attempt != intent.CallbackAttempts+1 || sends[intent.CallbackAttempts].ID != id {
			t.Errorf("replayed: %+v", rec.Status)
		}
	})
}

// A receiver that is told to come back tomorrow is told so for that callback: the same tenant's others to it wait for minutes,
// and another tenant's do not.
func TestCallbackWaitIsItsTenants(t *testing.T) {
	const url = "https://busy.example/"
	tell(t, func(n int, _ *callback.Delivery) callback.Result {
		if n == 1 {
			return answer(429, "Retry-After", "86400")
		}
		return answer(200)
	}, func(r *telling) {
		first := r.end("a", url)
		time.Sleep(time.Second)
		sibling, others := r.end("b", url), r.endOf("other", "a", url)
		settled := func(id string, want bool) {
			t.Helper()
			if rec := r.get(id); (rec.State == ledger.Settled) != want {
				t.Errorf("%s after %s: %+v", id, time.Since(rec.CreatedAt), rec.Status)
			}
		}
		time.Sleep(time.Minute)
		settled(others, true)
		settled(sibling, false)
		time.Sleep(14 * time.Minute)
		settled(sibling, true)
		time.Sleep(23 * time.Hour)
		settled(first, false)
		time.Sleep(2 * time.Hour)
		settled(first, true)
	})
}

// What a receiver says is heard: Retry-After by its callback and those beside it, 410 for good, a redirect not at all; an
// address that is refused waits for a person at once.
func TestCallbackHearsItsReceiver(t *testing.T) {
	tell(t, func(n int, d *callback.Delivery) callback.Result {
		switch callback.Host(d.URL) {
		case "busy.example:443":
			if n == 1 {
				return answer(429, "Retry-After", "600")
			}
		case "gone.example:443":
			return answer(410)
		case "moved.example:443":
			return answer(301, "Location", "https://elsewhere.example/")
		case "inner.example:443":
			return callback.Result{Err: callback.ErrAddress}
		case "cut.example:443":
			return callback.Result{Err: errors.New("EOF"), Sent: true}
		}
		return answer(200)
	}, func(r *telling) {
		first := r.end("a", "https://busy.example/")
		time.Sleep(time.Second)
		second := r.end("b", "https://busy.example/other")
		gone, moved, inner, cut := r.end("c", "https://gone.example/"), r.end("d", "https://moved.example/"), r.end("e", "https://inner.example/"), r.end("f", "https://cut.example/")
		time.Sleep(590 * time.Second)
		for _, id := range []string{first, second} {
			if rec := r.get(id); rec.State == ledger.Settled {
				t.Errorf("called although the receiver asked for ten minutes: %+v", rec.Status)
			}
		}
		time.Sleep(5 * time.Minute)
		for _, id := range []string{first, second} {
			if rec := r.get(id); rec.Outcome != ledger.OutcomeSuccess {
				t.Errorf("%+v", rec.Status)
			}
		}
		if rec := r.get(gone); rec.State != ledger.Settled || rec.Outcome != ledger.OutcomeFailed || rec.Attempt != 1 {
			t.Errorf("410: %+v", rec.Status)
		}
		if rec := r.get(moved); rec.State != ledger.Created || rec.Attempt < 2 || rec.LastError != "http_301" {
			t.Errorf("301: %+v", rec.Status)
		}
		if rec := r.get(inner); rec.Lane != intent.LaneDead || rec.Attempt != 1 || rec.LastError != "address_refused" {
			t.Errorf("a refused address: %+v", rec.Status)
		}
		if rec := r.get(cut); rec.State != ledger.Dispatched || rec.Attempt < 2 || rec.BilledMaybe != rec.Attempt {
			t.Errorf("no answer: %+v", rec.Status)
		}
		sends, _ := r.sent()
		for _, d := range sends {
			if callback.Host(d.URL) == "elsewhere.example:443" {
				t.Errorf("a redirect was followed: %+v", d)
			}
		}
	})
}

// A receiver that hangs holds no more than its share, and no other waits behind it.
func TestCallbackBulkheads(t *testing.T) {
	tell(t, func(_ int, d *callback.Delivery) callback.Result {
		if callback.Host(d.URL) == "slow.example:443" {
			time.Sleep(15 * time.Second)
			return callback.Result{Err: context.DeadlineExceeded, Sent: true}
		}
		return answer(200)
	}, func(r *telling) {
		for i := range 200 {
			r.end("slow"+time.Duration(i).String(), "https://slow.example/"+time.Duration(i).String())
		}
		time.Sleep(time.Second)
		quick := r.end("quick", "https://quick.example/")
		time.Sleep(time.Second)
		if rec := r.get(quick); rec.State != ledger.Settled {
			t.Errorf("behind a receiver that hangs: %+v", rec.Status)
		}
		r.mu.Lock()
		if r.most != 4 {
			t.Errorf("%d at a time to one receiver", r.most)
		}
		r.mu.Unlock()
		time.Sleep(time.Hour)
	})
}

// A changed secret signs from the next attempt on; while there is none, callbacks wait and cost no attempt.
func TestCallbackReload(t *testing.T) {
	var status atomic.Int64
	status.Store(503)
	const another = "another secret of more than 24 bytes"
	tell(t, func(int, *callback.Delivery) callback.Result { return answer(int(status.Load())) }, func(r *telling) {
		id := r.end("a", "https://shop.example/")
		time.Sleep(time.Second)
		before, _ := r.sent()
		if len(before) == 0 {
			t.Fatal("not called")
		}
		none := strings.ReplaceAll(calling, `secret: "`+callbackSecret+`", `, "")
		if err := r.gw.Reload(config(r.T, strings.ReplaceAll(none, `, callbacks: {secret: "`+callbackSecret+`"}`, ""))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		sends, _ := r.sent()
		if rec := r.get(id); len(sends) != len(before) || rec.Attempt != len(before) {
			t.Errorf("called without a secret: %d, %+v", len(sends), rec.Status)
		}
		if err := r.gw.Reload(config(r.T, strings.ReplaceAll(calling, callbackSecret, another))); err != nil {
			t.Fatal(err)
		}
		status.Store(200)
		time.Sleep(5 * time.Minute)
		sends, _ = r.sent()
		if rec := r.get(id); rec.Outcome != ledger.OutcomeSuccess || string(sends[len(sends)-1].Key) != another {
			t.Errorf("%+v, %+v", rec.Status, sends[len(sends)-1])
		}
	})
}
