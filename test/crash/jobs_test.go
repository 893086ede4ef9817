package crash

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// Jobs of the whole programme; every run does a twentieth.
const (
	jobCount = 10_000
	jobKills = 12
)

// weather is a provider that is away, throttles with Retry-After, fails after the effect, and is well again.
const weather = `[
	{"name": "away", "match": {"path": "/v1/**"}, "probability": 0.06, "times": -1, "steps": ["503"]},
	{"name": "throttled", "match": {"path": "/v1/**"}, "probability": 0.002, "times": -1, "steps": [{"status": 429, "headers": {"Retry-After": "1"}}]},
	{"name": "cut", "match": {"path": "/v1/**"}, "probability": 0.02, "times": -1, "steps": ["reset_after_body"]},
	{"name": "hopeless", "match": {"body": "hopeless"}, "times": -1, "steps": ["500"]},
	{"name": "well", "match": {"path": "/v1/**"}, "times": -1, "steps": [{"delay_ms": 150}]}]`

// receipt is what a submitter knows of a job.
type receipt struct{ op, id, body, workflow string }

// TestJobsSurviveTheirWorkers submits jobs, kills every process that works on them, and holds what has become of each to
// the far side's own count.
func TestJobsSurviveTheirWorkers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(seed(t), 6))
	jobs, kills := jobCount/20, jobKills/3
	if full() {
		jobs, kills = jobCount, jobKills
	}
	r := newRig(t)
	r.rules(weather)
	var all []*receipt
	for i := range jobs {
		all = append(all, newReceipt(rnd, i))
	}
	for life := range kills {
		r.start("")
		kill := time.AfterFunc(time.Duration(100+rnd.IntN(600))*time.Millisecond, r.gateway.Kill)
		r.submitAll(all[:len(all)*(life+1)/kills])
		<-r.gateway.Done()
		kill.Stop()
	}
	r.start("")
	r.submitAll(all)
	r.drainJobs()
	r.judgeJobs(all)
	r.stop()
	found, err := sqlite.Verify(t.Context(), r.store())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Errorf("store verify: %s", v)
	}
}

func newReceipt(rnd *rand.Rand, i int) *receipt {
	c := &receipt{op: fmt.Sprintf("job-%d", i), workflow: "jobs"}
	word := "hello"
	switch n := rnd.IntN(100); {
	case n < 2:
		word = "hopeless"
	case n < 30:
		c.workflow = "acts"
	}
	c.body = fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%s op=%s"}]}`, word, c.op)
	return c
}

// rules gives the far side more of its script.
func (r *rig) rules(list string) {
	r.t.Helper()
	resp, err := r.client.Post(r.sim.URL+"/sim/v1/rules", "application/json", strings.NewReader(list))
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		r.t.Fatalf("rules: %s", resp.Status)
	}
}

// submitAll submits every job, those that were submitted before too: each is the job that it was.
func (r *rig) submitAll(all []*receipt) {
	r.t.Helper()
	todo := make(chan *receipt)
	var workers sync.WaitGroup
	for range clients {
		workers.Go(func() {
			for c := range todo {
				r.submitJob(c)
			}
		})
	}
	for _, c := range all {
		if r.dead() {
			break
		}
		todo <- c
	}
	close(todo)
	workers.Wait()
}

func (r *rig) submitJob(c *receipt) {
	in, err := json.Marshal(map[string]any{"path": "/v1/chat/completions", "workflow": c.workflow, "idempotency_key": c.op,
		"body": json.RawMessage(c.body)})
	if err != nil {
		r.t.Error(err)
		return
	}
	a, err := r.send(r.gateway.URL, "/holdfast/v1/jobs", in, nil)
	switch {
	case err != nil:
		return // it is dying
	case a.status != http.StatusAccepted:
		r.t.Errorf("%s: %v", c.op, a)
	case c.id != "" && a.intent() != c.id:
		r.t.Errorf("%s: its job was %s and is now %s", c.op, c.id, a.intent())
	default:
		c.id = a.intent()
	}
}

// drainJobs waits until no job waits for a worker.
func (r *rig) drainJobs() {
	r.t.Helper()
	limit := time.NewTimer(5 * time.Minute)
	defer limit.Stop()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		var left []struct{ ID, State, Lane string }
		r.getJSON(r.gateway.URL+"/holdfast/v1/jobs?lane="+intent.LaneBackground+"&state=intent_created,dispatched&limit=10", &left)
		if len(left) == 0 {
			return
		}
		select {
		case <-ticker.C:
		case <-limit.C:
			r.t.Fatalf("jobs still wait: %v", left)
		}
	}
}

// judgeJobs holds every job to its receipt, its end, and the law (semantics 1).
func (r *rig) judgeJobs(all []*receipt) {
	r.t.Helper()
	calls, b := r.calls(), r.read()
	byOp := map[string][]*seen{}
	for _, s := range b.byID {
		byOp[keyPart(s)] = append(byOp[keyPart(s)], s)
	}
	ends, crashes := map[string]int{}, 0
	for _, c := range all {
		s := b.byID[c.id]
		if s == nil {
			r.t.Errorf("%s: lost: its submitter was told of %q", c.op, c.id)
			continue
		}
		crashes += s.Crashes
		switch {
		case s.State == ledger.Settled:
			ends["settled "+s.Outcome.String()]++
		case s.Lane == intent.LaneDead:
			ends[intent.LaneDead]++
		case s.State == ledger.Unknown:
			ends["unknown"]++
		default:
			r.t.Errorf("%s did not end: %s in %s", c.op, s.State, s.Lane)
		}
		n := count(byOp[keyPart(s)])
		made := calls[c.op].Calls
		if made > n.logged || made < n.answered {
			r.t.Errorf("%s: %d calls, and in the log %+v", c.op, made, n)
		}
		if made-1 > n.excused {
			r.t.Errorf("%s: %d calls, only %d of them failed for certain or may have been billed", c.op, made, n.excused)
		}
		if c.workflow == "acts" && n.possible > 1 {
			r.t.Errorf("%s: sent again although its effect may have happened: %+v", c.op, n)
		}
	}
	r.t.Logf("%d jobs: %v, %d crashes counted", len(all), ends, crashes)
	if crashes == 0 {
		r.t.Error("no process was killed with a job in hand: the test shows nothing")
	}
}

// keyPart is what tells a job's key from others.
func keyPart(s *seen) string {
	parts := strings.Split(s.Key, ":")
	return parts[len(parts)-1]
}
