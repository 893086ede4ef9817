package crash

import (
	"fmt"
	"github.com/holdfast-ai/holdfast/test/farside"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/proc"
	"github.com/holdfast-ai/holdfast/ledger"
)

// receipt is a job as its submitter knows it.
type receipt struct {
	op, body, workflow, word, owner, priority string
	age                                       time.Duration // its max_queue_age_ms; 0: the policy's

	id               string
	created, expires time.Time // as the 202 says
	sent, received   time.Time // by the submitter's own clock, of the submission that was acknowledged first
	known            bool      // an earlier submission, of which it was told nothing, had made the job
}

// heard is a call as the far side wrote it down.
type heard struct {
	N      int64     `json:"n"`
	Op     string    `json:"op"`
	Rule   string    `json:"rule"`
	Status int       `json:"status"`
	Start  time.Time `json:"start"`
	Ended  time.Time `json:"ended"`
}

// season is the jobs of one store, with everything that was written down of them outside of it.
type season struct {
	*rig
	rnd     *rand.Rand
	all     []*receipt
	serve   atomic.Pointer[proc.Process] // what submitters talk to; nil while none is up
	resumed time.Time                    // before it no job could be begun
	kills   []time.Time
	list    []*heard // every call, in the order in which they came
	ended   int      // the first so many of them have
}

// hear reads the far side's log: it keeps the latest 10,000 calls only.
func (s *season) hear() {
	s.t.Helper()
	for s.ended < len(s.list) && !s.list[s.ended].Ended.IsZero() {
		s.ended++
	}
	after := int64(0)
	if s.ended > 0 {
		after = s.list[s.ended-1].N
	}
	s.list = s.list[:s.ended]
	var more []*heard
	s.GetJSON(fmt.Sprintf("%s/sim/v1/calls?after=%d", s.Sim.URL, after), &more)
	if len(more) > 0 && more[0].N != after+1 {
		s.t.Fatalf("calls were forgotten before they were read: %d follows %d", more[0].N, after)
	}
	s.list = append(s.list, more...)
}

func (s *season) byOp() map[string][]*heard {
	all := map[string][]*heard{}
	for _, h := range s.list {
		all[h.Op] = append(all[h.Op], h)
	}
	return all
}

// judgeJobs holds every job to its receipt, its one end, and the law (semantics 1).
func (s *season) judgeJobs(b *farside.Book) {
	s.t.Helper()
	calls, byOp := s.byOp(), map[string][]*farside.Seen{}
	for _, r := range b.ByID {
		byOp[keyPart(r)] = append(byOp[keyPart(r)], r)
	}
	if len(b.ByID) != len(s.all) {
		s.t.Errorf("%d jobs were submitted and %d are in the log", len(s.all), len(b.ByID))
	}
	ends, crashes := map[string]int{}, 0
	for _, c := range s.all {
		r := b.ByID[c.id]
		if r == nil {
			s.t.Errorf("%s: lost: its submitter was told of %q", c.op, c.id)
			continue
		}
		crashes += r.Crashes
		ends[s.end(c, r)]++
		n, made := farside.Count(byOp[keyPart(r)]), int64(len(calls[c.op]))
		if made > n.Logged || made < n.Answered {
			s.t.Errorf("%s: %d calls, and in the log %+v", c.op, made, n)
		}
		if made-1 > n.Excused {
			s.t.Errorf("%s: %d calls, only %d of them failed for certain or may have been billed", c.op, made, n.Excused)
		}
		if c.workflow == "acts" && n.Possible > 1 {
			s.t.Errorf("%s: sent again although its effect may have happened: %+v", c.op, n)
		}
	}
	s.t.Logf("%d jobs, %d calls, %d kills: %v, %d crashes counted", len(s.all), len(s.list), len(s.kills), ends, crashes)
	if crashes == 0 {
		s.t.Error("no process was killed with a job in hand: the test shows nothing")
	}
}

// end names the one end of a job.
func (s *season) end(c *receipt, r *farside.Seen) string {
	settled := 0
	for _, e := range r.Events {
		if e.Kind == "transition" && e.To == ledger.Settled {
			settled++
		}
	}
	switch {
	case r.State == ledger.Settled && settled == 1:
		return "settled " + r.Outcome.String()
	case settled > 0:
	case r.Lane == intent.LaneDead:
		return intent.LaneDead
	case r.State == ledger.Unknown:
		return "unknown"
	}
	s.t.Errorf("%s did not end once: %s in %s, settled %d times", c.op, r.State, r.Lane, settled)
	return "no end"
}

// bucket is the second in which a job became ready: within it priority decides (semantics 38).
func (c *receipt) bucket() int64 { return c.created.Unix() }

// before reports whether release_order lets c leave before d.
func (c *receipt) before(d *receipt) bool {
	rank := map[string]int{"high": 0, "normal": 1, "low": 2}
	switch {
	case c.bucket() != d.bucket():
		return c.bucket() < d.bucket()
	case c.priority != d.priority:
		return rank[c.priority] < rank[d.priority]
	}
	return c.created.Before(d.created)
}

// atOnce is how many jobs of a workflow are in workers' hands at most.
func atOnce(workflow string) int {
	if workflow == "lined" {
		return 4
	}
	return 64
}

// judgeOrder holds the order in which the far side heard of jobs first to release_order. Of the jobs that were in the
// queue for certain when another one was taken from it, and go before it, those may be heard of later that other workers
// had in hand: one less than there are workers for them.
func (s *season) judgeOrder(b *farside.Book) {
	s.t.Helper()
	calls := s.byOp()
	first := func(c *receipt) time.Time { return calls[c.op][0].Start }
	lines := map[string][]*receipt{}
	for _, c := range s.all {
		if r := b.ByID[c.id]; r != nil && len(calls[c.op]) > 0 && undisturbed(r, len(calls[c.op])) {
			lines[c.workflow+" "+c.owner] = append(lines[c.workflow+" "+c.owner], c)
		}
	}
	held, most := 0, map[string]int{}
	for _, line := range lines {
		for _, d := range line {
			overtaken := []string(nil)
			for _, c := range line {
				waited := c.received.Before(d.sent) || c.received.Before(s.resumed) && first(d).After(s.resumed)
				if c == d || !waited || !c.before(d) {
					continue
				}
				if held++; first(c).After(first(d)) {
					overtaken = append(overtaken, c.op)
				}
			}
			most[d.workflow] = max(most[d.workflow], len(overtaken))
			if len(overtaken) >= atOnce(d.workflow) {
				s.t.Errorf("%s (%s, %s) went before %d jobs that were first, %v among them", d.op, d.workflow, d.priority, len(overtaken), overtaken[:3])
			}
		}
	}
	s.t.Logf("release order: %d pairs in %d lines, overtaken at most %v", held, len(lines), most)
	if held < len(s.all) {
		s.t.Error("hardly any two jobs waited at the same time: the test shows nothing")
	}
}

// undisturbed reports whether the far side heard of a job when it was taken from the queue first: its worker did not die
// with it before, nor gave it back.
func undisturbed(r *farside.Seen, calls int) bool {
	attempts := 0
	for _, e := range r.Events {
		switch {
		case e.Kind == "attempt":
			attempts++
		case attempts == 0 && e.Kind == "transition" && e.From == ledger.Created && e.To == ledger.Created && e.Reason != "leased by a worker":
			return false
		}
	}
	return calls == attempts
}

// judgeAges: what is older than its max_queue_age is not dispatched, and that age begins with the submission.
func (s *season) judgeAges(b *farside.Book) {
	s.t.Helper()
	aged, done := 0, 0
	for _, c := range s.all {
		r := b.ByID[c.id]
		if r == nil || c.age == 0 {
			continue
		}
		if !c.known && (c.expires.Sub(c.received) > c.age || c.expires.Sub(c.sent) < c.age) {
			s.t.Errorf("%s: sent %s, acknowledged %s, to be done within %s: its time is over at %s", c.op, c.sent, c.received, c.age, c.expires)
		}
		for _, e := range r.Events {
			if e.Kind == "attempt" && !e.At.Before(c.expires) {
				s.t.Errorf("%s: dispatched %s after its max_queue_age", c.op, e.At.Sub(c.expires))
			}
		}
		switch {
		case r.Lane == intent.LaneDead && slices.ContainsFunc(r.Events, tooOld):
			aged++
		case r.State == ledger.Settled:
			done++
		}
	}
	s.t.Logf("max_queue_age: %d jobs in time, %d too late", done, aged)
	if aged == 0 || done == 0 {
		s.t.Error("no job came too late, or none in time: the test shows nothing")
	}
}

func tooOld(e ledger.Event) bool { return strings.HasPrefix(e.Reason, "max_queue_age_exceeded") }

// judgeWaits: a job that was told when to come back does not come before, nor do its siblings, but for those that were in
// workers' hands.
func (s *season) judgeWaits(b *farside.Book) {
	s.t.Helper()
	waited, windows, most, calls := 0, 0, 0, s.byOp()
	for _, c := range s.all {
		list := calls[c.op]
		if b.ByID[c.id] == nil || !allRecorded(b.ByID[c.id], list) {
			continue
		}
		for i, h := range list {
			if h.Rule != "throttled" || i+1 == len(list) {
				continue
			}
			if waited++; list[i+1].Start.Sub(h.Start) < retryAfter {
				s.t.Errorf("%s: told to wait %s, it came after %s", c.op, retryAfter, list[i+1].Start.Sub(h.Start))
			}
		}
	}
	for i, h := range s.list {
		if h.Rule != "throttled" || h.Ended.IsZero() || s.killed(h.Start, h.Start.Add(retryAfter)) {
			continue
		}
		windows++
		early := 0
		for _, next := range s.list[i+1:] {
			if next.Start.After(h.Ended) && next.Start.Before(h.Start.Add(retryAfter)) {
				early++
			}
		}
		if most = max(most, early); early > atOnce("") {
			s.t.Errorf("%d calls came within the %s that the far side had asked for at %s", early, retryAfter, h.Start)
		}
	}
	s.t.Logf("Retry-After: %d jobs told, %d times the route, %d calls at most came meanwhile", waited, windows, most)
	if waited == 0 || windows == 0 {
		s.t.Error("nobody was told to wait: the test shows nothing")
	}
}

// allRecorded reports whether the log has every 429 that a job was given: a process that dies with one in hand tells
// nobody.
func allRecorded(r *farside.Seen, list []*heard) bool {
	throttled := 0
	for _, h := range list {
		if h.Rule == "throttled" {
			throttled++
		}
	}
	for _, e := range r.Attempts {
		if e.Status == 429 {
			throttled--
		}
	}
	return throttled == 0
}

func (s *season) killed(from, to time.Time) bool {
	for _, k := range s.kills {
		if k.After(from) && k.Before(to) {
			return true
		}
	}
	return false
}

// keyPart is what tells a job's key from others.
func keyPart(s *farside.Seen) string {
	parts := strings.Split(s.Key, ":")
	return parts[len(parts)-1]
}
