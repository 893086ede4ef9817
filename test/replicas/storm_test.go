package replicas

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/test/farside"
)

// Operations and faults of the whole programme; every run does a tenth.
const (
	stormOps    = 10_000
	stormFaults = 60
	// stormClients ask at the same time.
	stormClients = 24
)

// storm is a season of operations of every kind, while things happen to replicas.
type storm struct {
	*rig
	rnd    *rand.Rand
	ops    []*farside.Op // calls through the data plane
	jobs   []*job
	orders []*order // calls of a write tool
	todo   chan func()
	gaveUp chan struct{} // closed when patience is over
}

// job is a job as its submitter knows it.
type job struct {
	op, workflow string
	id           string // as its submitter was told
}

// order is a call of the write tool.
type order struct {
	op   string
	last *farside.Answer
}

// TestStorm sends operations of all kinds through the balancer while replicas are killed, stopped beyond their lease and continued, and cut
// off from the database one way and both ways, and holds what became of each to the far side's own log.
func TestStorm(t *testing.T) {
	ops, faultCount := stormOps/10, len(faults)+3
	if full() {
		ops, faultCount = stormOps, stormFaults
	}
	s := &storm{rig: newRig(t, ""), rnd: rand.New(rand.NewPCG(seed(t), 8)), todo: make(chan func()), gaveUp: make(chan struct{})}
	s.beat = 500 * time.Millisecond
	s.weather()
	s.start()
	var clients sync.WaitGroup
	for range stormClients {
		clients.Go(func() {
			for f := range s.todo {
				f()
			}
		})
	}
	order := s.rnd.Perm(len(faults))
	for i := range faultCount {
		if i >= len(order) {
			order = append(order, s.rnd.IntN(len(faults)))
		}
		s.happens(s.rnd, faults[order[i]], func() { s.feed(ops / faultCount) })
		if t.Failed() {
			break
		}
	}
	close(s.todo)
	over := time.AfterFunc(patience, func() { close(s.gaveUp) })
	defer over.Stop()
	clients.Wait()
	s.settle()
	s.judge()
	s.stop()
	s.verify()
}

// weather is the far side's: some calls fail, some after their effect.
func (s *storm) weather() {
	s.Control(http.MethodPut, s.Sim.URL+"/sim/v1/script", `{"rules":[
		{"match":{"body":"a job"},"probability":0.03,"times":-1,"steps":["reset_after_body"]},
		{"match":{"body":"a job"},"probability":0.02,"times":-1,"steps":["reply_lost"]},
		{"match":{"body":"a job"},"probability":0.03,"times":-1,"steps":["overloaded"]},
		{"match":{"body":"a job"},"times":-1,"steps":[{"delay_ms":30}]},
		{"match":{"path":"/shop/**","method":"POST"},"probability":0.05,"times":-1,"steps":["reply_lost"]},
		{"match":{"path":"/shop/**","method":"POST"},"probability":0.05,"times":-1,"steps":["reset_after_body"]},
		{"match":{"path":"/shop/**","method":"POST"},"times":-1,"steps":[{"delay_ms":20}]}]}`)
}

// feed hands n operations to the clients; it returns when the last is in somebody's hands.
func (s *storm) feed(n int) {
	for range n {
		var f func()
		switch i := s.rnd.IntN(10); {
		case i < 5:
			c := &job{op: fmt.Sprintf("job-%d", len(s.jobs)), workflow: [...]string{"jobs", "acts"}[s.rnd.IntN(2)]}
			s.jobs = append(s.jobs, c)
			f = func() { s.submit(c) }
		case i < 8:
			o := farside.NewOp(s.rnd, fmt.Sprintf("op-%d", len(s.ops)))
			o.Tries = 1_000_000
			s.ops = append(s.ops, o)
			f = func() { o.Pursue(s.Side, s.balancer.URL, s.gaveUp) }
		default:
			o := &order{op: fmt.Sprintf("order-%d", len(s.orders))}
			s.orders = append(s.orders, o)
			f = func() { s.buy(o, func(a *farside.Answer) bool { return a.Code() == "outcome_unknown" }) }
		}
		s.todo <- f
	}
}

// submit submits a job until somebody says 202.
func (s *storm) submit(c *job) {
	in := fmt.Appendf(nil, `{"path":"/v1/chat/completions","workflow":%q,"idempotency_key":%q,"body":{"model":%q,"messages":[{"role":"user","content":"a job op=%s"}]}}`,
		c.workflow, c.op, c.op, c.op)
	s.insist(func() bool {
		a, err := s.Send(s.balancer.URL, "/holdfast/v1/jobs", in, nil)
		if err != nil || a.Status != http.StatusAccepted {
			if err == nil && a.Header.Get("X-Should-Retry") != "true" {
				s.t.Errorf("%s: %v", c.op, a)
				return true
			}
			return false
		}
		var told struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(a.Body, &told); err != nil || told.ID == "" {
			s.t.Errorf("%s: %v %v", c.op, a, err)
		}
		c.id = told.ID
		return true
	})
}

// buy calls the tool until it has an answer that ends it.
func (s *storm) buy(o *order, enough func(*farside.Answer) bool) {
	body := fmt.Appendf(nil, `{"order":%q,"note":"op=%s"}`, o.op, o.op)
	s.insist(func() bool {
		a, err := s.Send(s.balancer.URL, "/tools/shop/orders", body, nil)
		if err != nil {
			return false
		}
		o.last = a
		return a.Status == http.StatusOK || enough(a)
	})
}

// insist tries until it is done, or patience is over.
func (s *storm) insist(done func() bool) {
	for try := 0; !done(); try++ {
		select {
		case <-s.gaveUp:
			return
		case <-time.After(min(time.Duration(try)*5*time.Millisecond, 250*time.Millisecond)):
		}
	}
}

// settle waits for what nobody waits for any more: jobs, and tools whose outcome is being found out.
func (s *storm) settle() {
	s.t.Helper()
	s.whole()
	until(s.t, "every job has ended", func() bool {
		var left []struct{ ID, State, Lane string }
		s.GetJSON(s.balancer.URL+"/holdfast/v1/jobs?lane="+intent.LaneBackground+"&state=intent_created,dispatched&limit=10", &left)
		return len(left) == 0
	})
	for _, o := range s.orders {
		s.buy(o, func(*farside.Answer) bool { return false })
	}
}

// judge holds everything to the far side's log.
func (s *storm) judge() {
	s.t.Helper()
	ends := map[string]int{}
	for _, o := range s.ops {
		if o.Ended == "" {
			s.t.Errorf("op %s (%s) did not end; asked %d times, last %v", o.Name, o.Kind.Name, len(o.Asked), o.Acks[max(0, len(o.Acks)-2):])
		}
		ends["call "+o.Ended]++
	}
	effects, calls := s.Effects(), s.Calls()
	b := s.oracle(s.ops)
	byJob := map[string][]*farside.Seen{}
	for _, r := range b.ByID {
		if r.JobID != "" {
			byJob[r.RequestedModel] = append(byJob[r.RequestedModel], r)
		}
	}
	for _, c := range s.jobs {
		ends["job "+s.judgeJob(c, b.ByID[c.id], byJob[c.op], calls[c.op].Calls, effects[c.op])]++
	}
	for _, o := range s.orders {
		ends[fmt.Sprintf("order %d", o.last.Status)]++
		if effects[o.op] != 1 || o.last.Status != http.StatusOK {
			s.t.Errorf("%s: %d effects, and its last answer is %v", o.op, effects[o.op], o.last)
		}
	}
	s.linear()
	s.t.Logf("%d calls, %d jobs, %d orders: %v", len(s.ops), len(s.jobs), len(s.orders), ends)
}

// refused says that a submission was refused because its commit took too long, and landed after all: then it is discarded (semantics 9).
func refused(s *farside.Seen) bool {
	return s.State == ledger.Settled && s.Outcome == ledger.OutcomeDiscarded && len(s.Attempts) == 0
}

// judgeJob holds one job to its one end and the law (semantics 1).
func (s *storm) judgeJob(c *job, r *farside.Seen, all []*farside.Seen, calls int64, effects int) string {
	s.t.Helper()
	others := slices.DeleteFunc(slices.Clone(all), func(o *farside.Seen) bool { return o.ID == c.id || refused(o) })
	if r == nil || len(others) > 0 {
		s.t.Errorf("%s: lost, or there twice: its submitter was told of %q, the log has %v", c.op, c.id, all)
		return "lost"
	}
	n := farside.Count(all)
	broken := func(law string) {
		s.t.Helper()
		s.t.Errorf("%s (%s): %s: %d calls, %d effects; in the log %+v", c.op, c.workflow, law, calls, effects, n)
	}
	if calls > n.Logged {
		broken("a call without an attempt on record")
	}
	if calls < n.Answered {
		broken("an attempt has an answer, and nobody was asked")
	}
	if calls-1 > n.Excused {
		broken("called again although no earlier call failed for certain or may have been billed")
	}
	if c.workflow == "acts" && (effects > 1 || n.Possible > 1) {
		broken("more than one effect, or sent again although it may have happened")
	}
	settled := 0
	for _, e := range r.Events {
		if e.Kind == "transition" && e.To == ledger.Settled {
			settled++
		}
	}
	switch {
	case r.State == ledger.Settled && settled == 1:
		return "settled " + r.Outcome.String()
	case settled == 0 && r.Lane == intent.LaneDead:
		return r.Lane
	case settled == 0 && r.State == ledger.Unknown:
		return "unknown"
	}
	s.t.Errorf("%s did not end once: %s in %s, settled %d times", c.op, r.State, r.Lane, settled)
	return "no end"
}
