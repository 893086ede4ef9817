package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/callback"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// away shuts the store for a moment that is longer than a caller waits for it.
func (f *faulty) away() {
	f.set(func(f *faulty) { f.fail = errDisk })
	time.AfterFunc(10*time.Second, func() { f.set(func(f *faulty) { f.fail = nil }) })
}

// behind starts the engine anew behind another ledger.
func (b *bubble) behind(l ledger.Ledger) {
	b.life.stop()
	b.store = l
	b.life = b.engine(true)
	b.gw = b.life.gw
}

// A provider refuses a job for certain while the store is away: the job is back in its lane once the store is, without a
// restart, and nothing of it is unknown.
func TestStoreAwayAsAJobIsRefused(t *testing.T) {
	for _, workflow := range []string{"default", "act"} {
		t.Run(workflow, func(t *testing.T) {
			f := &faulty{}
			var calls atomic.Int32
			far := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "application/json")
				if calls.Add(1) > 1 {
					_, _ = io.WriteString(w, completion)
					return
				}
				f.away()
				w.Header().Set("Retry-After", "30")
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = io.WriteString(w, `{"error":{"message":"slow down","type":"rate_limit_exceeded","code":"rate_limit_exceeded"}}`)
			})
			inBubble(t, bubbled, far, func(b *bubble) {
				f.Ledger = b.store
				b.behind(f)
				id := b.submit("a", workflow)
				time.Sleep(20 * time.Second)
				if rec := b.get(id); rec.State != ledger.Created || rec.LeaseOwner != "" {
					t.Errorf("once the store is back: %+v", rec.Status)
				}
				time.Sleep(time.Minute)
				if rec := b.get(id); rec.Outcome != ledger.OutcomeSuccess || rec.Attempt != 2 || rec.Crashes != 0 || rec.BilledMaybe != 0 || calls.Load() != 2 {
					t.Errorf("%d calls, %+v", calls.Load(), rec.Status)
				}
			})
		})
	}
}

// So is a callback that its receiver refuses.
func TestStoreAwayAsACallbackIsRefused(t *testing.T) {
	var store *faulty
	tell(t, func(n int, _ *callback.Delivery) callback.Result {
		if n > 1 {
			return answer(204)
		}
		store.away()
		return answer(503)
	}, func(r *telling) {
		store = r.store
		id := r.end("a", "https://away.example/done")
		time.Sleep(2 * time.Minute)
		if rec := r.get(id); rec.Outcome != ledger.OutcomeSuccess || rec.Attempt != 2 || rec.Crashes != 0 || rec.BilledMaybe != 0 {
			t.Errorf("%+v", rec.Status)
		}
	})
}

// brittle is a ledger that breaks its caller once, behind the dispatch of a job and before anything of it is sent.
type brittle struct {
	ledger.Ledger
	broke atomic.Bool
}

func (l *brittle) Enqueue(w *ledger.Write) <-chan struct{} {
	if w.Append && len(w.Events) > 0 && w.Events[0].Rule == "reconcile.metadata" && l.broke.CompareAndSwap(false, true) {
		panic("a defect between dispatch and sending")
	}
	return l.Ledger.Enqueue(w)
}

// A job whose worker fails behind its dispatch, and before anything is sent, was not sent: it costs a crash and is worked on
// again, also where what it does may not happen twice.
func TestWorkerFailsBeforeSending(t *testing.T) {
	var calls atomic.Int32
	far := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		calls.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, completion)
	})
	marked := strings.Replace(bubbled, "{retry: {base: 1ms, max: 2ms}, breaker", "{on_unknown: hold, reconcile: {openai_response: true, metadata: true}, retry: {base: 1ms, max: 2ms}, breaker", 1)
	inBubble(t, marked, far, func(b *bubble) {
		l := &brittle{Ledger: b.store}
		b.behind(l)
		made, _, err := b.gw.SubmitJob(httptest.NewRequest("POST", "/holdfast/v1/jobs", nil), gateway.JobRequest{Path: "/v1/chat/completions",
			IdempotencyKey: "a", Workflow: "default", Body: json.RawMessage(`{"model":"m","store":true,"messages":[{"role":"user","content":"a"}]}`)})
		if err != nil {
			b.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if rec := b.get(made.ID); rec.Outcome != ledger.OutcomeSuccess || rec.Attempt != 2 || rec.Crashes != 1 || rec.BilledMaybe != 0 || calls.Load() != 1 || !l.broke.Load() {
			t.Errorf("%d calls, %+v", calls.Load(), rec.Status)
		}
	})
}
