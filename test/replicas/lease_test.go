package replicas

import (
	"encoding/json"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/test/farside"
)

// BR-068: a job that takes longer than its lease is worked once while its worker lives. A worker that stands still loses it: a generation is
// done again and its first answer, late, is no state; what acts is never done twice.
func TestBR068LongJobs(t *testing.T) {
	for _, c := range []struct {
		name, workflow string
		freeze         bool
		calls          int64
	}{
		{"renewed, generates", "jobs", false, 1},
		{"renewed, acts", "acts", false, 1},
		{"frozen, generates", "jobs", true, 2},
		{"frozen, acts", "acts", true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "")
			r.beat = 300 * time.Millisecond
			if !c.freeze {
				r.beat = 3 * time.Second // a machine that is busy for as long as a lease would take it from a worker that lives
			}
			r.replicas[0].mustUp()
			r.Rule(`{"match":{"op":"long"},"steps":[{"hold":"gate","hold_at":"effect"}]}`)
			id := r.enqueue(c.workflow, "long")
			r.Await("op=long&gate=gate&held=1")
			r.replicas[1].mustUp()
			r.replicas[2].mustUp()
			if c.freeze {
				r.replicas[0].signal(syscall.SIGSTOP)
				until(t, "the job is taken from who stands still", func() bool {
					s := r.jobAt(r.replicas[1], id)
					return s.State == "unknown" || s.State == "settled"
				})
			} else {
				r.beats(5) // longer than a lease
			}
			r.Release("gate")
			if c.freeze {
				r.replicas[0].signal(syscall.SIGCONT)
			}
			r.beats(2) // what the late one says is in the log
			seen := r.read().ByID[id]
			n := farside.Count([]*farside.Seen{seen})
			calls, effects := r.CallsOf("long"), r.Effects()["long"]
			t.Logf("%s, %s: %d calls, %d effects, %+v, %d crashes", seen.State, seen.Outcome, calls, effects, n, seen.Crashes)
			if calls != c.calls || calls > n.Logged {
				t.Errorf("%d calls, want %d", calls, c.calls)
			}
			if c.workflow == "acts" && effects != 1 {
				t.Errorf("%d effects", effects)
			}
			if !c.freeze && (seen.State != ledger.Settled || seen.Outcome != ledger.OutcomeSuccess || seen.Crashes != 0 || seen.Attempt != 1) {
				t.Errorf("it was renewed, and is %+v", seen.Status)
			}
			if c.freeze && c.workflow == "jobs" && (seen.State != ledger.Settled || seen.Outcome != ledger.OutcomeSuccess || seen.Attempt != 2) {
				t.Errorf("its second worker ended it, and it is %+v", seen.Status)
			}
			r.stop()
			r.verify()
		})
	}
}

// beats waits for n heartbeats of a replica, by the store's own word.
func (r *rig) beats(n int) {
	r.t.Helper()
	l := r.ledger()
	defer func() { _ = l.Close() }() // it only read
	seen := map[time.Time]bool{}
	until(r.t, fmt.Sprintf("%d heartbeats", n), func() bool {
		owners, err := l.Owners(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		for _, o := range owners {
			seen[o.Until] = true
		}
		return len(seen) > n*size
	})
}

// enqueue submits a job whose operation is op, to whichever replica is there.
func (r *rig) enqueue(workflow, op string) string {
	r.t.Helper()
	in, err := json.Marshal(map[string]any{"path": "/v1/chat/completions", "workflow": workflow, "idempotency_key": op,
		"body": json.RawMessage(chat(op, false))})
	if err != nil {
		r.t.Fatal(err)
	}
	var id string
	until(r.t, "the job "+op+" is taken", func() bool {
		a, err := r.Send(r.balancer.URL, "/holdfast/v1/jobs", in, nil)
		if err == nil && a.Status == http.StatusAccepted {
			id = a.Intent()
		}
		return id != ""
	})
	return id
}

// jobView is a job as the API shows it.
type jobView struct {
	ID, State, Outcome, Lane string
	Attempt, Crashes         int
}

func (r *rig) jobAt(k *replica, id string) (j jobView) {
	r.t.Helper()
	r.GetJSON(k.p.Admin+"/holdfast/v1/jobs/"+id, &j)
	return j
}
