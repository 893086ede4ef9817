package crash

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// told counts what a receiver of callbacks has had, by webhook-id.
type told struct {
	mu  sync.Mutex
	ids map[string]int
	new chan string
}

func (c *told) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	id := r.Header.Get("Webhook-Id")
	c.mu.Lock()
	c.ids[id]++
	c.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
	c.new <- id
}

// TestCallbackCrash kills the gateway on each side of the commit by which a job ends, and of the call that tells of it.
// Whatever it dies of, the end is told, by one intent.
func TestCallbackCrash(t *testing.T) {
	for _, point := range []string{"store.commit.before", "store.commit.after", "callback.before", "callback.after"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			receiver := &told{ids: map[string]int{}, new: make(chan string, 100)}
			s := httptest.NewServer(receiver)
			defer s.Close()
			r := newRig(t)
			r.Rule(`{"match":{"op":"tell"},"times":-1,"steps":[{"delay_ms":400}]}`)
			armed := filepath.Join(t.TempDir(), "armed")
			command := r.command(point)
			command.Env = append(command.Env, "HOLDFAST_CRASH_ARMED="+armed)
			if err := r.serve(command); err != nil {
				t.Fatal(err)
			}
			job := r.submitTold("tell", s.URL)
			r.until(func() bool { return r.CallsOf("tell") > 0 }) // the next commit is its end's
			if err := os.WriteFile(armed, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r.mustDie("the gateway did not reach " + point)
			r.start("")
			var last string
			r.until(func() bool {
				select {
				case last = <-receiver.new:
				default:
				}
				return last != "" && r.settled(last)
			})
			r.stop()
			r.judgeTold(job, receiver)
		})
	}
}

func (r *rig) submitTold(op, url string) string {
	r.t.Helper()
	in, err := json.Marshal(map[string]any{"path": "/v1/chat/completions", "workflow": "told", "idempotency_key": op, "callback_url": url,
		"body": json.RawMessage(fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"op=%s"}]}`, op))})
	if err != nil {
		r.t.Fatal(err)
	}
	a, err := r.Send(r.gateway.URL, "/holdfast/v1/jobs", in, nil)
	if err != nil || a.Status != http.StatusAccepted {
		r.t.Fatalf("%v %v", a, err)
	}
	return a.Intent()
}

func (r *rig) settled(id string) bool {
	var v struct{ State string }
	r.GetJSON(r.gateway.Admin+"/holdfast/v1/intents/"+id, &v)
	return v.State == "settled"
}

// until looks again and again, with an end.
func (r *rig) until(ok func() bool) {
	r.t.Helper()
	for range 1500 {
		if ok() {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	r.t.Fatal("it does not come to that")
}

// judgeTold holds the log to what the receiver has had.
func (r *rig) judgeTold(job string, receiver *told) {
	r.t.Helper()
	b := r.read()
	calls := 0
	for _, s := range b.ByID {
		if intent.CallbackOf(&s.Intent) != job {
			continue
		}
		calls++
		if s.State != ledger.Settled || s.Outcome != ledger.OutcomeSuccess || receiver.ids[s.ID] == 0 || receiver.ids[s.ID] > s.Attempt {
			r.t.Errorf("%+v, and its receiver has had it %d times", s.Status, receiver.ids[s.ID])
		}
	}
	if s := b.ByID[job]; s == nil || s.State != ledger.Settled || calls != 1 || len(receiver.ids) != 1 {
		r.t.Errorf("%d callbacks of %+v, its receiver has had %v", calls, s, receiver.ids)
	}
	found, err := sqlite.Verify(r.t.Context(), r.store())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, v := range found {
		r.t.Errorf("store verify: %s", v)
	}
}
