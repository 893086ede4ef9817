package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"github.com/holdfast-ai/holdfast/test/farside"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// Jobs and kills of the whole programme; every run does a tenth or less.
const (
	jobCount = 10_000
	jobKills = 40
)

const (
	// retryAfter is what the throttled far side asks for. It is longer than what is waited for in place (semantics 36).
	retryAfter = 3 * time.Second
)

// The far side's weather. Whatever it is, some calls fail after their effect, and some jobs always fail.
var weather = map[string]string{
	"well":      `[CUT, HOPELESS, LINED, {"name": "well", "match": {"path": "/v1/**"}, "times": -1, "steps": [{"delay_ms": 150}]}]`,
	"dead":      `[HOPELESS, {"name": "dead", "match": {"path": "/v1/**"}, "times": -1, "steps": ["503", "reset_before_body", "503"]}]`,
	"throttled": `[HOPELESS, {"name": "throttled", "match": {"path": "/v1/**"}, "times": -1, "steps": [{"status": 429, "headers": {"Retry-After": "3"}}]}]`,
}

var clouds = strings.NewReplacer(
	"CUT", `{"name": "cut", "match": {"path": "/v1/**"}, "probability": 0.02, "times": -1, "steps": ["reset_after_body"]}`,
	"HOPELESS", `{"name": "hopeless", "match": {"body": "hopeless"}, "times": -1, "steps": ["500"]}`,
	"LINED", `{"name": "lined", "match": {"body": "lined"}, "times": -1, "steps": [{"delay_ms": 5}]}`)

// turn changes the weather.
func (r *rig) turn(name string) {
	r.t.Helper()
	r.Control(http.MethodPut, r.Sim.URL+"/sim/v1/script", `{"rules": `+clouds.Replace(weather[name])+`}`)
}

// TestJobsSurviveTheirWorkers submits jobs while the far side dies, throttles and returns, kills every process that works
// on them, and holds what has become of each to the far side's own count and to what its submitter wrote down.
func TestJobsSurviveTheirWorkers(t *testing.T) {
	s := &season{rig: newRig(t), rnd: rand.New(rand.NewPCG(seed(t), 6))}
	jobs, kills, age := jobCount/16, 8, 2*time.Second
	if full() {
		jobs, kills, age = jobCount, jobKills, 20*time.Second
	}
	for i := range jobs {
		s.all = append(s.all, newReceipt(s.rnd, i, age))
	}
	s.turn("well")
	s.backlog(s.all[:jobs/4])
	ctx, give := context.WithTimeout(t.Context(), patience)
	defer give()
	var submitters sync.WaitGroup
	s.submit(ctx, &submitters, s.all[jobs/4:jobs*3/4])
	for life := range kills {
		s.turn([...]string{"well", "dead", "throttled", "well"}[life*4/kills])
		lives := time.Duration(100+s.rnd.IntN(900)) * time.Millisecond
		if life == kills/2 { // long enough for what the far side asks for
			s.submit(ctx, &submitters, s.all[jobs*3/4:])
			lives = retryAfter + time.Second
		}
		s.life(lives)
	}
	s.start("")
	s.serve.Store(s.gateway)
	submitters.Wait()
	if ctx.Err() != nil {
		t.Fatal("the submitters could not submit everything")
	}
	s.submit(ctx, &submitters, s.all) // what was submitted before is the job that it was
	submitters.Wait()
	s.drainJobs()
	b := s.read()
	s.hear()
	s.judgeJobs(b)
	s.judgeOrder(b)
	s.judgeAges(b)
	s.judgeWaits(b)
	s.stop()
	found, err := sqlite.Verify(t.Context(), s.store())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Errorf("store verify: %s", v)
	}
}

// newReceipt draws a job. Some are to be done within age, or not at all.
func newReceipt(rnd *rand.Rand, i int, age time.Duration) *receipt {
	c := &receipt{op: fmt.Sprintf("job-%d", i), workflow: "jobs", word: "hello"}
	c.priority = [...]string{"low", "normal", "high"}[rnd.IntN(3)]
	switch n := rnd.IntN(100); {
	case n < 2:
		c.word = "hopeless"
	case n < 27:
		c.workflow = "acts"
	case n < 52:
		c.workflow, c.word, c.owner = "lined", "lined", fmt.Sprintf("owner-%d", rnd.IntN(4))
	case n < 62:
		c.age = age
	}
	c.body = fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%s op=%s"}]}`, c.word, c.op)
	return c
}

// backlog submits jobs to a gateway that may send none of them yet: whoever is in the queue when it may is there for
// certain.
func (s *season) backlog(jobs []*receipt) {
	s.t.Helper()
	s.start("")
	s.serve.Store(s.gateway)
	s.pause()
	var submitters sync.WaitGroup
	s.submit(s.t.Context(), &submitters, jobs)
	submitters.Wait()
	s.resumed = time.Now()
	s.Control(http.MethodPost, s.gateway.Admin+"/holdfast/v1/routes/resume", `{"route":"*","reason":"it is built up"}`)
	s.kill()
}

// pause keeps this gateway from sending anything.
func (r *rig) pause() {
	r.t.Helper()
	r.Control(http.MethodPost, r.gateway.Admin+"/holdfast/v1/routes/pause", `{"route":"*","reason":"a backlog is built up"}`)
}

// life starts a gateway and kills it after a time.
func (s *season) life(lives time.Duration) {
	s.t.Helper()
	s.start("")
	s.serve.Store(s.gateway)
	timer := time.NewTimer(lives)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.gateway.Done():
		s.t.Fatalf("the gateway ended by itself:\n%s", s.gateway.Output())
	}
	s.hear()
	s.kill()
}

func (s *season) kill() {
	s.kills = append(s.kills, time.Now())
	s.serve.Store(nil)
	s.rig.kill()
}

// submit has several submitters submit jobs, each until it is told of it.
func (s *season) submit(ctx context.Context, all *sync.WaitGroup, jobs []*receipt) {
	todo := make(chan *receipt)
	for range clients {
		all.Go(func() {
			for c := range todo {
				s.submitJob(ctx, c)
			}
		})
	}
	all.Go(func() {
		defer close(todo)
		for _, c := range jobs {
			select {
			case todo <- c:
			case <-ctx.Done():
				return
			}
		}
	})
}

// submitJob submits a job to whatever gateway there is until one says 202.
func (s *season) submitJob(ctx context.Context, c *receipt) {
	in, err := json.Marshal(map[string]any{"path": "/v1/chat/completions", "workflow": c.workflow, "idempotency_key": c.op,
		"owner_key": c.owner, "priority": c.priority, "max_queue_age_ms": c.age.Milliseconds(), "body": json.RawMessage(c.body)})
	if err != nil {
		s.t.Error(err)
		return
	}
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for ctx.Err() == nil {
		if g := s.serve.Load(); g != nil {
			sent := time.Now()
			if a, err := s.Send(g.URL, "/holdfast/v1/jobs", in, nil); err == nil {
				s.acknowledged(c, a, sent)
				return
			} // it is dying
		}
		<-again.C
	}
}

// acknowledged writes down what a submitter was told. A later submission is told of the same job.
func (s *season) acknowledged(c *receipt, a *farside.Answer, sent time.Time) {
	var told struct {
		ID        string    `json:"id"`
		CreatedAt time.Time `json:"created_at"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	err := json.Unmarshal(a.Body, &told)
	switch {
	case a.Status != http.StatusAccepted || err != nil || told.ID != a.Intent():
		s.t.Errorf("%s: %v %v", c.op, a, err)
	case c.id != "" && c.id != told.ID:
		s.t.Errorf("%s: its job was %s and is now %s", c.op, c.id, told.ID)
	case c.id == "":
		c.id, c.created, c.expires, c.sent, c.received = told.ID, told.CreatedAt, told.ExpiresAt, sent, time.Now()
		c.known = a.Replayed() // an earlier submission of it was taken on, and its submitter never told
	}
}

// drainJobs waits until no job waits for a worker.
func (s *season) drainJobs() {
	s.t.Helper()
	limit := time.NewTimer(5 * time.Minute)
	defer limit.Stop()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		var left []struct{ ID, State, Lane string }
		s.GetJSON(s.gateway.URL+"/holdfast/v1/jobs?lane="+intent.LaneBackground+"&state=intent_created,dispatched&limit=10", &left)
		if len(left) == 0 {
			return
		}
		s.hear()
		select {
		case <-ticker.C:
		case <-limit.C:
			s.t.Fatalf("jobs still wait: %v", left)
		}
	}
}
