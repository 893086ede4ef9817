package intent_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clocked is a real ledger whose time a test moves and whose writes it can hold up.
type clocked struct {
	ledger.Ledger
	mu    sync.Mutex
	ahead time.Duration
	gate  chan struct{} // writes wait for it
	last  chan struct{} // … and then for the one before them, as in every ledger
}

func (c *clocked) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Ledger.Now().Add(c.ahead)
}

func (c *clocked) pass(d time.Duration) {
	c.mu.Lock()
	c.ahead += d
	c.mu.Unlock()
}

func (c *clocked) hold(gate chan struct{}) {
	c.mu.Lock()
	c.gate = gate
	c.mu.Unlock()
}

func (c *clocked) Enqueue(w *ledger.Write) <-chan struct{} {
	c.mu.Lock()
	gate, before, done := c.gate, c.last, make(chan struct{})
	if gate != nil {
		c.last = done
	}
	c.mu.Unlock()
	if gate == nil {
		return c.Ledger.Enqueue(w)
	}
	go func() {
		<-gate
		if before != nil {
			<-before
		}
		<-c.Ledger.Enqueue(w)
		close(done)
	}()
	return done
}

type rig struct {
	*testing.T
	store  *clocked
	verify func() (found []string, err error)
	logs   []*intent.Log
}

func newRig(t *testing.T) *rig {
	path := filepath.Join(t.TempDir(), "holdfast.db")
	l, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Env: "test"})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, store: &clocked{Ledger: l}, verify: func() (found []string, err error) {
		list, err := sqlite.Verify(context.Background(), path)
		for _, v := range list {
			found = append(found, v.String())
		}
		return found, err
	}}
	t.Cleanup(r.close)
	return r
}

// close ends all engines and holds the log against every invariant.
func (r *rig) close() {
	for _, g := range r.logs {
		g.Close()
	}
	if err := r.store.Close(); err != nil {
		r.Error(err)
	}
	found, err := r.verify()
	if err != nil {
		r.Error(err)
	}
	for _, v := range found {
		r.Errorf("verify: %s", v)
	}
}

// engine is a new owner of the log, as a new process is.
func (r *rig) engine(change ...func(*intent.Config)) *intent.Log {
	c := intent.Config{Ledger: r.store, Exclusive: true, CommitWait: time.Minute} // a busy machine is no store that is away
	for _, f := range change {
		f(&c)
	}
	g := intent.New(c)
	r.logs = append(r.logs, g)
	return g
}

func begin(key string, change ...func(*intent.Begin)) intent.Begin {
	b := intent.Begin{Head: ledger.Intent{Tenant: "main", Workflow: "w", Effect: ledger.EffectGeneration, Key: key, Method: "POST",
		Path: "/v1/chat/completions", Provider: "openai", Endpoint: "chat.completions", RequestedModel: "m", MaxAttempts: 1},
		Claim: key != "", Attempt: &try, Visibility: ledger.VisBefore}
	for _, f := range change {
		f(&b)
	}
	return b
}

var try = intent.Attempt{Route: "openai/m/chat.completions", Tier: "openai", Model: "m"}

func held(b *intent.Begin)    { b.Head.Hold, b.Head.Effect = true, ledger.EffectExternal }
func stream(b *intent.Begin)  { b.Head.Stream = true }
func waiting(b *intent.Begin) { b.Attempt = nil }

func (r *rig) begin(g *intent.Log, b intent.Begin) *intent.Op {
	r.Helper()
	o, err := g.Begin(b)
	if err != nil {
		r.Fatal(err)
	}
	return o
}

func (r *rig) get(id string) *ledger.Record {
	r.Helper()
	rec, err := r.store.Get(r.Context(), id)
	if err != nil {
		r.Fatal(err)
	}
	return rec
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// is checks where an intent stands.
func (r *rig) is(id string, state ledger.State, outcome ledger.Outcome) *ledger.Record {
	r.Helper()
	rec := r.get(id)
	if rec.State != state || rec.Outcome != outcome {
		r.Errorf("%s, %s; want %s, %s", rec.State, rec.Outcome, state, outcome)
	}
	return rec
}

// free says whether a new request may have the key.
func (r *rig) free(g *intent.Log, key string, want bool) {
	r.Helper()
	o, err := g.Begin(begin(key))
	if (err == nil) != want {
		r.Errorf("key %s: %v, want it free: %v", key, err, want)
	}
	if err == nil {
		r.ok(o.NotSent("a test looked", ""))
	}
}

func won(until time.Time) intent.Settlement {
	return intent.Settlement{Ending: intent.Ending{End: ledger.AttemptSuccess, Status: 200}, Outcome: ledger.OutcomeSuccess,
		Visibility: ledger.VisComplete, KeepUntil: until, Answer: &ledger.Answer{HTTPStatus: 200, HasBody: true},
		Body: &ledger.Body{Kind: ledger.BodyAnswer, Data: []byte("answer")}}
}

var lost = intent.Ending{End: ledger.AttemptUnknown, Error: "timeout", Billed: true, Reason: "no answer"}
