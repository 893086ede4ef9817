package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
	"github.com/holdfast-ai/holdfast/queue"
)

// workerStore names the store on which this program, started once more, is a worker.
const workerStore = "HOLDFAST_TEST_WORKER_STORE"

// poisonRules are those of the jobs of worker.
var poisonRules = queue.Rules{MaxAttempts: 3, Dead: []string{"max_attempts_exhausted"}}

// worker works on the jobs of a store until none is left. Of the job named poison it dies, as by kill -9, before anything
// is sent.
func worker(file string) int {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	l, log, err := openLog(ctx, file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	const workers = 8
	var inHand atomic.Int64 // but for the poison
	q := queue.New(queue.Config{Ledger: l, Log: log, Workers: workers, Rules: func(*ledger.Intent) queue.Rules { return poisonRules },
		Work: func(_ context.Context, j *queue.Job) queue.Rest {
			if strings.HasSuffix(j.Op.Head().Key, "poison") {
				for range 50 { // until all other workers have something in hand, if there is so much
					if <-time.After(time.Millisecond); inHand.Load() == workers-1 {
						break
					}
				}
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
			inHand.Add(1)
			defer inHand.Add(-1)
			<-time.After(100 * time.Millisecond)
			err := j.Op.Dispatch(intent.Attempt{Route: "r", Tier: "t", Model: "m"})
			if err == nil {
				err = j.Op.Settle(intent.Settlement{Ending: intent.Ending{End: ledger.AttemptSuccess}, Outcome: ledger.OutcomeSuccess}, false, nil)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			return queue.Rest{}
		}})
	ended := make(chan error)
	go func() { ended <- q.Run(ctx) }()
	for left := -1; left != 0; {
		waiting, err := l.List(ctx, ledger.Filter{Unsettled: true, Lane: intent.LaneBackground, Limit: 1})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		left = len(waiting)
		<-time.After(10 * time.Millisecond)
	}
	stop()
	err = <-ended
	log.Close()
	if err = errors.Join(err, l.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// openLog opens a store as an engine does: what a dead one left is recovered.
func openLog(ctx context.Context, file string) (*sqlite.Ledger, *intent.Log, error) {
	l, err := sqlite.Open(ctx, sqlite.Config{Path: file, Env: "crash"})
	if err != nil {
		return nil, nil, err
	}
	log := intent.New(intent.Config{Ledger: l, Exclusive: true})
	if _, err := log.Recover(ctx); err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return l, log, nil
}

// A job that kills its worker's process is given up after max_attempts crashes. The jobs that die with it in the same
// processes are not: they are done.
func TestPoisonedJobKillsItsWorkers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "holdfast.db")
	l, log, err := openLog(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	q := queue.New(queue.Config{Ledger: l, Log: log, Rules: func(*ledger.Intent) queue.Rules { return poisonRules }})
	ids := map[string]string{}
	for _, name := range append([]string{"poison"}, numbered("job", 40)...) {
		op, err := q.Submit(intent.Begin{Claim: true, Head: ledger.Intent{Tenant: "main", Workflow: "w", Effect: ledger.EffectGeneration,
			Key: "idem:crash:main:key:" + name, Method: "POST", Path: "/v1/x", Provider: "p", RequestedModel: "m"}})
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = op.ID()
	}
	log.Close()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	died := 0
	for died <= 2*poisonRules.MaxAttempts {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), workerStore+"="+file)
		out, err := cmd.CombinedOutput()
		if err == nil {
			break
		}
		if died++; !killed(cmd.ProcessState) {
			t.Fatalf("a worker ended by itself: %v\n%s", err, out)
		}
	}
	read, err := sqlite.OpenReadOnly(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	crashes := 0
	for name, id := range ids {
		rec, err := read.Get(t.Context(), id)
		switch {
		case err != nil:
			t.Error(err)
		case name == "poison":
			if rec.Lane != intent.LaneDead || rec.State != ledger.Created || rec.Crashes != poisonRules.MaxAttempts || rec.Attempt != 0 || died != rec.Crashes {
				t.Errorf("%d processes died, and the poison: %+v", died, rec.Status)
			}
		case rec.Outcome != ledger.OutcomeSuccess || rec.Attempt != 1:
			t.Errorf("%s, which killed nobody: %+v", name, rec.Status)
		default:
			crashes += rec.Crashes
		}
	}
	t.Logf("%d processes died of one job; the others lost their worker %d times", died, crashes)
	if crashes == 0 {
		t.Error("no other job was in a worker's hands: the test shows nothing")
	}
}

func numbered(name string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s-%d", name, i))
	}
	return all
}

func killed(s *os.ProcessState) bool {
	w, ok := s.Sys().(syscall.WaitStatus)
	return ok && w.Signaled() && w.Signal() == syscall.SIGKILL
}

// A job whose call kills the gateway each time has its attempts, and no more; jobs beside it are sent once.
func TestJobWhoseCallKillsTheGateway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.rule(`{"match":{"op":"poison"},"times":-1,"steps":[{"hold":"poison","hold_at":"request"}]}`)
	r.start("")
	poison := r.enqueue("jobs", "poison")
	var ids []string
	for life := 1; life <= 4; life++ { // lanes.background_retry.max_attempts
		for i := range 10 {
			ids = append(ids, r.enqueue("jobs", fmt.Sprintf("life-%d-%d", life, i)))
		}
		r.await(fmt.Sprintf("op=poison&calls=%d", life))
		for _, id := range ids { // beside the poison they are done
			r.awaitJob(id, done)
		}
		r.kill()
		r.start("")
	}
	r.awaitJob(poison, func(j *jobView) bool { return j.Lane == intent.LaneDead && j.Attempt == 4 && j.State == "unknown" })
	for _, id := range ids {
		if j := r.job(id); j.Outcome != "success" || j.Attempt != 1 || j.Crashes != 0 {
			t.Errorf("beside the poison: %+v", j)
		}
	}
	if calls := r.calls(); calls["poison"].Calls != 4 {
		t.Errorf("the poison was sent %d times", calls["poison"].Calls)
	}
	r.stop()
}

// A deploy in the middle costs nobody an attempt: what is on its way is answered, what waits is sent by the next process.
func TestDeployCostsNoAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.rule(`{"match":{"body":"held"},"times":-1,"steps":[{"hold":"gate","hold_at":"request"}]}`)
	r.start("")
	var ids []string
	for _, name := range numbered("held", 100) { // more than are sent at a time
		ids = append(ids, r.enqueue("jobs", name))
	}
	for deploy := range 2 {
		r.await("gate=gate&held=30")
		if err := syscall.Kill(r.gateway.ID(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		for !strings.Contains(r.gateway.Output(), "msg=draining") {
			if <-time.After(5 * time.Millisecond); r.dead() {
				t.Fatalf("deploy %d: it ended with calls on their way\n%s", deploy, r.gateway.Output())
			}
		}
		for !r.dead() { // what began in the same moment is held, too
			r.release("gate")
			<-time.After(5 * time.Millisecond)
		}
		r.stop() // wants it to have ended well
		r.start("")
	}
	r.control(http.MethodDelete, r.sim.URL+"/sim/v1/script", "")
	r.release("gate")
	for _, id := range ids {
		if j := r.awaitJob(id, done); j.Attempt != 1 || j.Crashes != 0 {
			t.Errorf("over two deploys: %+v", j)
		}
	}
	for op, n := range r.calls() {
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
	r.rule(`{"match":{"op":"long"},"times":-1,"steps":[{"hold":"gate","hold_at":"request"}]}`)
	r.start("")
	id := r.enqueue("jobs", "long")
	r.await("op=long&calls=1")
	if err := syscall.Kill(r.gateway.ID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	lease := time.NewTimer(16 * time.Second) // three heartbeats of 5 s are a lease
	zombie := r.gateway
	r.release("gate") // it is answered meanwhile
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
	if n := r.calls()["long"].Calls; n != 1 {
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
	a, err := r.send(r.gateway.URL, "/holdfast/v1/jobs", in, nil)
	if err != nil || a.status != http.StatusAccepted {
		r.t.Fatalf("%s: %v %v", op, a, err)
	}
	return a.intent()
}

func (r *rig) job(id string) *jobView {
	r.t.Helper()
	var j jobView
	r.getJSON(r.gateway.Admin+"/holdfast/v1/jobs/"+id, &j)
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
