package queue

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-ai/holdfast/ledger"
)

// model is a schedule that is driven by hand, with what its bars say.
type model struct {
	q    *Queue
	now  time.Time
	bars map[string]time.Time // by model
	out  []hands
	n    int
}

func newModel() *model {
	m := &model{now: time.UnixMilli(1e12), bars: map[string]time.Time{}}
	m.q = New(Config{Workers: 8, Rules: func(h *ledger.Intent) Rules {
		r := Rules{MaxAttempts: 3}
		if h.Workflow == "limited" {
			r.Key, r.Limit = h.Workflow, 2
		}
		return r
	}, Barred: func(h *ledger.Intent) (time.Duration, bool) {
		return max(0, m.bars[h.RequestedModel].Sub(m.now)), h.RequestedModel == "a"
	}})
	return m
}

func (m *model) job(t *rapid.T) {
	r := &ledger.Record{}
	m.n++
	pick := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
	r.ID, r.Provider, r.RequestedModel = fmt.Sprintf("job-%04d", m.n), pick("provider", "p", "q"), pick("model", "a", "b", "c")
	r.Workflow, r.OwnerKey, r.Priority = pick("workflow", "w", "limited"), pick("owner", "1", "2", "3"), pick("priority", "high", "low")
	r.Crashes = rapid.IntRange(0, 2).Draw(t, "crashes")
	r.CreatedAt = m.now
	r.ReadyAt = m.now.Add(time.Duration(rapid.IntRange(-1000, 1000).Draw(t, "ready")) * time.Millisecond)
	if rapid.Bool().Draw(t, "ages") {
		r.ExpiresAt = m.now.Add(2 * time.Second)
	}
	e := entryOf(r)
	m.q.known[e.id] = e
	m.q.push(m.q.lineOf(&r.Intent, r.Crashes), e)
}

// best is what choose has to come to, found by looking at everything.
func (m *model) best() (best *line) {
	for _, l := range m.q.lines {
		var first *entry
		for _, e := range append(append([]*entry{}, l.ready.list...), l.later.list...) {
			if e.readyAt <= m.now.UnixMicro() && e.expires > m.now.UnixMicro() && (first == nil || less(l.rules.Order, e, first)) {
				first = e
			}
		}
		shut := l.way.shut && l.way.alarm.at > m.now.UnixMicro()
		if first == nil || shut || m.bars[l.key.model].After(m.now) || m.q.obstacle(l) != nil {
			continue
		}
		for !l.ready.empty() && l.first().expires <= m.now.UnixMicro() { // as choose will find it
			m.q.remove(l.first())
		}
		m.q.promote(l, m.now.UnixMicro())
		if best == nil || ahead(l, best) {
			best = l
		}
	}
	return best
}

// Whatever comes, goes, is barred and given back, the job that goes next is the first of all that may go.
func TestTheScheduleChoosesAsOneThatLooksAtEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		for range rapid.IntRange(0, 120).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0, 1, 2:
				m.job(t)
			case 3:
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 500).Draw(t, "ms")) * time.Millisecond)
			case 4:
				m.bars[rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "barred")] = m.now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "for")) * time.Millisecond)
				if rapid.Bool().Draw(t, "told") {
					m.q.reopen()
				}
			case 5:
				m.begin(t)
			case 6:
				if len(m.out) > 0 {
					i := rapid.IntRange(0, len(m.out)-1).Draw(t, "done")
					m.q.giveBack(m.out[i])
					m.q.released()
					m.out = append(m.out[:i], m.out[i+1:]...)
				}
			}
			m.check(t)
		}
	})
}

func (m *model) begin(t *rapid.T) {
	for m.q.working < m.q.Workers {
		want := m.best()
		if want != nil {
			want = m.best() // one that was begun by looking has moved nothing
		}
		got := m.q.choose(m.now)
		if got != want {
			t.Fatalf("chose %v, want %v", name(got), name(want))
		}
		if got == nil {
			return
		}
		m.q.pace(got.way, m.now)
		e := got.first()
		m.out = append(m.out, m.q.take(got))
		m.q.pull(e)
		delete(m.q.known, e.id)
	}
}

func name(l *line) string {
	if l == nil {
		return "none"
	}
	return fmt.Sprintf("%s of %+v", l.first().id, l.key)
}

// check counts what the schedule holds by hand.
func (m *model) check(t *rapid.T) {
	waiting, ready, ways := 0, 0, map[*way]int{}
	for _, l := range m.q.lines {
		waiting, ready = waiting+len(l.ready.list)+len(l.later.list), ready+len(l.ready.list)
		ways[l.way]++
		if (l.at == nil) != l.ready.empty() || l.later.empty() != (l.alarm.pos == 0) {
			t.Fatalf("%+v stands nowhere", l.key)
		}
		if l.ready.empty() && l.later.empty() && l.working == 0 {
			t.Fatalf("%+v is empty", l.key)
		}
	}
	if waiting != m.q.waiting || ready != m.q.ready || waiting != len(m.q.known) || len(ways) != len(m.q.ways) {
		t.Fatalf("%d wait, %d ready, %d known; counted %d and %d", waiting, ready, len(m.q.known), m.q.waiting, m.q.ready)
	}
	for w, lines := range ways {
		if w.lines != lines || w.shut != (w.alarm.pos > 0) || (w.pos > 0) != (!w.shut && !w.standing.empty()) {
			t.Fatalf("%+v is in disorder", w)
		}
	}
	passing := 0
	for _, g := range m.q.gates {
		passing += g.holders
		if g.holders == 0 && g.working == 0 {
			t.Fatalf("gate %q leads nowhere", g.name)
		}
	}
	if len(m.q.lines) == 0 && passing > 0 {
		t.Fatal("gates are held by no line")
	}
}

// BenchmarkOwners schedules jobs whose owners are few or many, all of which wait first: what a job costs must not grow with
// how many owners there are.
func BenchmarkOwners(b *testing.B) {
	for _, owners := range []int{1, 15_000} {
		b.Run(fmt.Sprint(owners), func(b *testing.B) {
			now := time.UnixMilli(1e12)
			var cost time.Duration
			for range b.N {
				q := New(Config{Rules: func(h *ledger.Intent) Rules { return Rules{Key: h.OwnerKey, Limit: 2, MaxAttempts: 3} }})
				began := time.Now()
				for i := range 15_000 {
					r := &ledger.Record{}
					r.ID, r.OwnerKey, r.ReadyAt = fmt.Sprintf("job-%05d", i), fmt.Sprint(i%owners), now.Add(time.Duration(i)*time.Millisecond)
					e := entryOf(r)
					q.known[e.id] = e
					q.push(q.lineOf(&r.Intent, 0), e)
				}
				for done := 0; done < 15_000; done++ {
					l := q.choose(now.Add(time.Hour))
					h := q.take(l)
					e := l.first()
					q.pull(e)
					delete(q.known, e.id)
					q.giveBack(h)
					q.released()
				}
				cost += time.Since(began)
			}
			b.ReportMetric(float64(cost.Nanoseconds())/float64(b.N)/15_000, "ns/job")
		})
	}
}
