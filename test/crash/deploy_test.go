package crash

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A deploy in the middle costs nobody an attempt: what is on its way is answered, what waits is sent by the next process.
func TestDeployCostsNoAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Rule(`{"match":{"body":"held"},"times":-1,"steps":[{"hold":"gate","hold_at":"request"}]}`)
	r.start("")
	var ids []string
	for _, name := range numbered("held", 100) { // more than are sent at a time
		ids = append(ids, r.enqueue("jobs", name))
	}
	for deploy := range 2 {
		r.Await("gate=gate&held=30")
		if err := syscall.Kill(r.gateway.ID(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		for !strings.Contains(r.gateway.Output(), "msg=draining") {
			if <-time.After(5 * time.Millisecond); r.dead() {
				t.Fatalf("deploy %d: it ended with calls on their way\n%s", deploy, r.gateway.Output())
			}
		}
		for !r.dead() { // what began in the same moment is held, too
			r.Release("gate")
			<-time.After(5 * time.Millisecond)
		}
		r.stop() // wants it to have ended well
		r.start("")
	}
	r.Control(http.MethodDelete, r.Sim.URL+"/sim/v1/script", "")
	r.Release("gate")
	for _, id := range ids {
		if j := r.awaitJob(id, done); j.Attempt != 1 || j.Crashes != 0 {
			t.Errorf("over two deploys: %+v", j)
		}
	}
	for op, n := range r.Calls() {
		if n.Calls != 1 {
			t.Errorf("%s was sent %d times", op, n.Calls)
		}
	}
	r.stop()
}

// A job that takes longer than a lease, in a process that stands still for longer than a lease, is sent once: nobody takes
// a store over whose holder lives.
func TestJobLongerThanItsLease(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Rule(`{"match":{"op":"long"},"times":-1,"steps":[{"hold":"gate","hold_at":"request"}]}`)
	r.start("")
	id := r.enqueue("jobs", "long")
	r.Await("gate=gate&held=1")
	if err := syscall.Kill(r.gateway.ID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	lease := time.NewTimer(16 * time.Second) // three heartbeats of 5 s are a lease
	zombie := r.gateway
	r.Release("gate") // it is answered meanwhile
	<-lease.C
	if err := r.serve(r.command("")); err == nil || r.gateway != zombie {
		t.Fatal("two gateways on one store")
	}
	if err := syscall.Kill(zombie.ID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if j := r.awaitJob(id, done); j.Outcome != "success" || j.Attempt != 1 || j.Crashes != 0 {
		t.Errorf("%+v", j)
	}
	if n := r.Calls()["long"].Calls; n != 1 {
		t.Errorf("sent %d times", n)
	}
	r.stop()
}

// jobView is a job as the API shows it.
type jobView struct {
	ID, State, Outcome, Lane string
	Attempt, Crashes         int
}

func done(j *jobView) bool { return j.State == "settled" }

// enqueue submits a job whose operation is op.
func (r *rig) enqueue(workflow, op string) string {
	r.t.Helper()
	in, err := json.Marshal(map[string]any{"path": "/v1/chat/completions", "workflow": workflow, "idempotency_key": op,
		"body": map[string]any{"model": "m", "messages": []map[string]string{{"role": "user", "content": "hello op=" + op}}}})
	if err != nil {
		r.t.Fatal(err)
	}
	a, err := r.Send(r.gateway.URL, "/holdfast/v1/jobs", in, nil)
	if err != nil || a.Status != http.StatusAccepted {
		r.t.Fatalf("%s: %v %v", op, a, err)
	}
	return a.Intent()
}

func (r *rig) job(id string) *jobView {
	r.t.Helper()
	var j jobView
	r.GetJSON(r.gateway.Admin+"/holdfast/v1/jobs/"+id, &j)
	return &j
}

// awaitJob waits for a job to stand as told.
func (r *rig) awaitJob(id string, ok func(*jobView) bool) *jobView {
	r.t.Helper()
	limit := time.Now().Add(patience)
	for j := r.job(id); ; j = r.job(id) {
		if ok(j) {
			return j
		}
		if time.Now().After(limit) {
			r.t.Fatalf("the job does not come to where it should: %+v", j)
		}
		<-time.After(5 * time.Millisecond)
	}
}
