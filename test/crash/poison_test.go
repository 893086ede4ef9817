package crash

import (
	"context"
	"errors"
	"fmt"
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
	r.Rule(`{"match":{"op":"poison"},"times":-1,"steps":[{"hold":"poison","hold_at":"request"}]}`)
	r.start("")
	poison := r.enqueue("jobs", "poison")
	var ids []string
	for life := 1; life <= 4; life++ { // lanes.background_retry.max_attempts
		for i := range 10 {
			ids = append(ids, r.enqueue("jobs", fmt.Sprintf("life-%d-%d", life, i)))
		}
		r.Await(fmt.Sprintf("op=poison&calls=%d", life))
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
	if calls := r.Calls(); calls["poison"].Calls != 4 {
		t.Errorf("the poison was sent %d times", calls["poison"].Calls)
	}
	r.stop()
}
