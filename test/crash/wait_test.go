package crash

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Thirty workers that are told at the same time to come again in 5 s come when those are over, none before, and not in one
// instant, although their process was killed meanwhile (BR-024, design.md §4). The far side's log is the witness.
func TestThirtyWorkersAreToldToWait(t *testing.T) {
	t.Parallel()
	const workers, asked = 30, 5 * time.Second
	r := newRig(t)
	r.Rule(fmt.Sprintf(`{"times":%d,"steps":[{"status":429,"headers":{"Retry-After":"5"},"hold":"gate","hold_at":"request"}]}`, workers))
	r.start("")
	var ids []string
	for _, op := range numbered("told", workers) {
		ids = append(ids, r.enqueue("jobs", op))
	}
	r.Await(fmt.Sprintf("gate=gate&held=%d", workers))
	r.Release("gate")
	for _, id := range ids {
		r.awaitJob(id, func(j *jobView) bool { return j.State == "intent_created" && j.Attempt == 1 })
	}
	r.kill()
	r.start("")
	for _, id := range ids {
		if j := r.awaitJob(id, done); j.Outcome != "success" || j.Attempt != 2 {
			t.Errorf("%+v", j)
		}
	}
	var calls []*heard
	r.GetJSON(r.Sim.URL+"/sim/v1/calls", &calls)
	said := map[string]time.Time{}
	var came []time.Duration
	for _, h := range calls {
		if h.Status == 429 {
			said[h.Op] = h.Ended
			continue
		}
		came = append(came, h.Start.Sub(said[h.Op]))
	}
	slices.Sort(came)
	if len(calls) != 2*workers || len(came) != workers || came[0] < asked {
		t.Errorf("%d calls, the first of %d that came again after %s", len(calls), len(came), came[0])
	}
	if spread := came[len(came)-1] - came[0]; spread < 50*time.Millisecond {
		t.Errorf("all came within %s", spread)
	}
	t.Logf("%d workers came after %s to %s", workers, came[0], came[len(came)-1])
	r.stop()
}
