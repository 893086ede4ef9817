package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// faulty is a real ledger behind a door that a test can shut or slow down.
type faulty struct {
	ledger.Ledger
	mu      sync.Mutex
	fail    error         // every write and read fails with it
	settles error         // writes that settle fail with it
	hold    chan struct{} // writes wait for it
	ending  chan struct{} // writes that settle wait for it
	held    chan struct{}
}

func (f *faulty) set(change func(*faulty)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *faulty) now() (hold, ending chan struct{}, fail, settles error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hold, f.ending, f.fail, f.settles
}

var errDisk = fmt.Errorf("%w: disk on fire", ledger.ErrUnavailable)

func (f *faulty) Enqueue(w *ledger.Write) <-chan struct{} {
	hold, ending, fail, settles := f.now()
	if fail == nil && w.Settle {
		fail = settles
	}
	if fail != nil {
		w.Err = fail
		done := make(chan struct{})
		close(done)
		return done
	}
	if hold == nil && w.Settle {
		hold = ending
	}
	if hold == nil {
		return f.Ledger.Enqueue(w)
	}
	done := make(chan struct{})
	go func() {
		if f.held != nil {
			f.held <- struct{}{}
		}
		<-hold
		<-f.Ledger.Enqueue(w)
		close(done)
	}()
	return done
}

func (f *faulty) Get(ctx context.Context, id string) (*ledger.Record, error) {
	if _, _, fail, _ := f.now(); fail != nil {
		return nil, fail
	}
	return f.Ledger.Get(ctx, id)
}

func (f *faulty) Healthy() error {
	if _, _, fail, settles := f.now(); fail != nil || settles != nil {
		return errors.Join(fail, settles)
	}
	return f.Ledger.Healthy()
}

func newFaultyRig(t *testing.T) (*rig, *faulty) {
	f := &faulty{}
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, "env: test", "env: test\nlimits: {commit_wait: 1500ms}", 1)
		c.wrap = func(l ledger.Ledger) ledger.Ledger { f.Ledger = l; return f }
	})
	return r, f
}

// BR-015: while the store is down nothing is dispatched; once it is back the key runs once. (Run 2 of the case
// asks for a first execution out of local memory: semantics 18 refuses it.)
func TestBR015StoreDown(t *testing.T) {
	r, f := newFaultyRig(t)
	for _, workflow := range []string{"external", "deny", "default"} {
		f.set(func(f *faulty) { f.fail = errDisk })
		q := chat(workflow).workflow(workflow).key(workflow)
		for range 2 {
			a := r.must(q, 503)
			if a.code() != string(gateway.CodeStoreUnavailable) || a.header.Get("Retry-After") == "" || a.header.Get("Holdfast-Degraded") != "store" {
				t.Errorf("%v", a.header)
			}
		}
		r.calls(workflow, 0)
		if err := r.gw.Ready(); err == nil {
			t.Errorf("ready without a store")
		}
		r.must(request{method: "GET", path: "/v1/models"}, 200) // a read needs no store
		f.set(func(f *faulty) { f.fail = nil })
		r.must(q, 200)
		r.must(q, 200)
		r.calls(workflow, 1)
	}
}

// BR-015, run 1, over an HTTP tool: without a store the payroll does not run, and with it back it runs once.
func TestBR015ToolStoreDown(t *testing.T) {
	f := &faulty{}
	r := newToolRig(t, func(c *rigConfig) {
		c.wrap = func(l ledger.Ledger) ledger.Ledger { f.Ledger = l; return f }
	})
	q := charge("/charges", "payroll")
	f.set(func(f *faulty) { f.fail = errDisk })
	for range 2 {
		if a := r.must(q, 503); toolFailure(t, a).Code != string(gateway.CodeStoreUnavailable) || a.header.Get("Retry-After") == "" || a.header.Get("Holdfast-Degraded") != "store" {
			t.Errorf("%v", a.header)
		}
	}
	r.effects("payroll", 0)
	f.set(func(f *faulty) { f.fail = nil })
	r.must(q, 200)
	r.must(q, 200)
	r.effects("payroll", 1)
}

// BR-015, run 3: a workflow that allows it has its generations go on without a record while the store is away, alone or several at
// once under one key, plain or streamed, and says so; once it is back, each has a record again.
func TestBR015AllowGoesOnWithoutARecord(t *testing.T) {
	r, f := newFaultyRig(t)
	f.set(func(f *faulty) { f.fail = errDisk })
	for name, q := range map[string]request{"plain": chat("plain"), "stream": streamed("stream")} {
		q = q.workflow("allow").key(name)
		for range 2 {
			a := r.must(q, 200)
			if a.header.Get("Holdfast-Degraded") != "store" || a.header.Get("Holdfast-Recorded") != "no" || a.header.Get("Holdfast-Intent") != "" {
				t.Errorf("%s: %v", name, a.header)
			}
		}
		r.calls(name, 2) // nothing knows the first
	}
	if a := r.must(chat("job").workflow("allow").key("job").async(), 503); a.code() != string(gateway.CodeStoreUnavailable) {
		t.Errorf("a job without a store: %v", a.header)
	}
	r.calls("job", 0)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if a := r.must(chat("twins").workflow("allow").key("twins"), 200); a.header.Get("Holdfast-Degraded") != "store" {
				t.Errorf("a twin: %v", a.header)
			}
		})
	}
	all.Wait()
	r.calls("twins", 8)
	f.set(func(f *faulty) { f.fail = nil })
	q := chat("back").workflow("allow").key("back")
	if a := r.must(q, 200); a.header.Get("Holdfast-Degraded") != "" || a.header.Get("Holdfast-Intent") == "" {
		t.Errorf("with the store back: %v", a.header)
	}
	r.must(q, 200)
	r.calls("back", 1)
}

// The answer of an operation whose end is not on record is nobody else's: deny refuses who repeats it, local says that it is in
// progress (semantics 18).
func TestRepeatWhileTheRecordIsAway(t *testing.T) {
	r, f := newFaultyRig(t)
	for workflow, want := range map[string]gateway.Code{"deny": gateway.CodeStoreUnavailable, "default": gateway.CodeInFlight} {
		f.set(func(f *faulty) { f.settles = errDisk })
		q := chat(workflow).workflow(workflow).key(workflow)
		first := r.must(q, 200)
		again := r.do(q)
		if again.code() != string(want) || again.header.Get("Holdfast-Degraded") != "store" || again.header.Get("Retry-After") == "" {
			t.Errorf("%s: %v", workflow, again.header)
		}
		f.set(func(f *faulty) { f.settles = nil })
		r.settled(first.header.Get("Holdfast-Intent"))
		r.must(q, 200)
		r.calls(workflow, 1)
	}
}

// BR-017: the store fails after the work was done: the caller gets its answer, repeats are held off while it is
// away, and replay what was kept once it is back.
func TestBR017StoreFailsAfterTheWork(t *testing.T) {
	r, f := newFaultyRig(t)
	for name, q := range map[string]request{"strict-plain": chat("save").workflow("strict"), "strict-stream": streamed("save").workflow("strict"), "relaxed": chat("save"),
		"external": chat("save").workflow("external")} {
		before := r.sim.Counts("save").Calls
		f.set(func(f *faulty) { f.settles = errDisk })
		first := r.must(q.key(name), 200)
		if stored := first.header.Get("Holdfast-Stored") + first.trailer.Get("Holdfast-Stored"); stored != "pending" && name != "relaxed" {
			t.Errorf("%s: a strict answer that is not on record does not say so: %v %v", name, first.header, first.trailer)
		}
		during := r.must(q.key(name), 409)
		if during.code() != string(gateway.CodeInFlight) {
			t.Errorf("%s: %v", name, during.header)
		}
		f.set(func(f *faulty) { f.settles = nil })
		r.settled(first.header.Get("Holdfast-Intent"))
		again := r.must(q.key(name), 200)
		if again.header.Get("Idempotency-Replayed") != "true" || string(again.body) != string(first.body) {
			t.Errorf("%s: %v", name, again.header)
		}
		if got := r.sim.Counts("save").Calls - before; got != 1 {
			t.Errorf("%s: %d calls", name, got)
		}
	}
}

// A commit that outlives commit_wait is refused, and when it lands after all nothing was sent (semantics 9).
func TestSlowCommitIsRefusedAndDiscarded(t *testing.T) {
	r, f := newFaultyRig(t)
	door := make(chan struct{})
	f.set(func(f *faulty) { f.hold, f.held = door, make(chan struct{}, 100) })
	q := chat("slow").workflow("external").key("k")
	r.must(q, 503)
	f.set(func(f *faulty) { f.hold = nil })
	close(door)
	wait(t, func() bool {
		list, err := r.store.List(context.Background(), ledger.Filter{Key: "", Limit: 10})
		return err == nil && len(list) == 1 && list[0].State == ledger.Settled && list[0].Outcome == ledger.OutcomeDiscarded
	})
	r.calls("slow", 0)
	r.must(q, 200)
	r.calls("slow", 1)
}

// A job whose submitter was refused is nobody's while its late commit is being taken back: at every door the next request with its
// key is told to come again, as behind a call, and not that the job is there (semantics 9).
func TestRefusedSubmissionIsNobodysJob(t *testing.T) {
	t.Parallel()
	for _, workflow := range []string{"act", "approved"} {
		f := &faulty{}
		r := newRig(t, func(c *rigConfig) {
			c.yaml = strings.Replace(queued, "env: test", "env: test\nlimits: {commit_wait: 1500ms}", 1) +
				"  approved: {match: {paths: [\"/by-name-only\"]}, approval: dispatch}\n"
			c.wrap = func(l ledger.Ledger) ledger.Ledger { f.Ledger = l; return f }
		})
		door, end := make(chan struct{}), make(chan struct{})
		f.set(func(f *faulty) { f.hold, f.ending = door, end })
		q := chat("slow").workflow(workflow).key("k")
		r.must(q.async(), 503)
		f.set(func(f *faulty) { f.hold = nil })
		close(door)
		state := func(unsettled bool) func() bool {
			return func() bool {
				list, err := r.store.List(context.Background(), ledger.Filter{Unsettled: unsettled, Limit: 10})
				return err == nil && len(list) == 1 && (unsettled || list[0].Outcome == ledger.OutcomeDiscarded)
			}
		}
		wait(t, state(true))
		for name, a := range map[string]*answered{"async": r.do(q.async()), "jobs": r.submitBy(q), "plain": r.do(q)} {
			if a.status != 409 || a.code() != string(gateway.CodeInFlight) || name != "jobs" && a.header.Get("Retry-After") == "" {
				t.Errorf("%s, %s: %d %s %v", workflow, name, a.status, a.body, a.header)
			}
		}
		f.set(func(f *faulty) { f.ending = nil })
		close(end)
		wait(t, state(false))
		r.calls("slow", 0)
		id := r.submit(q)
		if workflow == "act" {
			r.until(id, settledJob)
			r.calls("slow", 1)
		}
	}
}

// A strict stream holds back the event that completes it until the record is durable, and nothing before it.
func TestStrictHoldsTheCompletingEvent(t *testing.T) {
	for _, wire := range wires {
		r, f := newFaultyRig(t)
		door := make(chan struct{})
		lead := map[string]int{"openai-chat": 3, "openai-responses": 6, "anthropic": 4, "gemini-sse": 2, "gemini-array": 2}[wire]
		r.script(wire, fmt.Sprintf(`{"chunks":4,"hold":"last","hold_at":"event","hold_n":%d}`, lead))
		resp, err := r.open(ask(wire, wire).workflow("strict").key("k"))
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan string, 100)
		go func() {
			defer close(got)
			p := make([]byte, 64<<10)
			for {
				n, err := resp.Body.Read(p)
				got <- string(p[:n])
				if err != nil {
					return
				}
			}
		}()
		if err := r.sim.WaitHeld(t.Context(), "last", 1); err != nil {
			t.Fatal(err)
		}
		f.set(func(f *faulty) { f.hold, f.held = door, make(chan struct{}, 10) })
		r.sim.Release("last")
		<-f.held // the settling write is at the door: everything but the end has been passed on
		seen := ""
		for idle := false; !idle; {
			select {
			case s := <-got:
				seen += s
			case <-time.After(50 * time.Millisecond):
				idle = true
			}
		}
		for _, end := range []string{`"finish_reason":"stop"`, "message_delta", "response.completed", `"finishReason":"STOP"`} {
			if strings.Contains(seen, end) {
				t.Errorf("%s: the completing event left before the record was durable: %s", wire, tail([]byte(seen)))
			}
		}
		f.set(func(f *faulty) { f.hold = nil })
		close(door)
		for s := range got {
			seen += s
		}
		_ = resp.Body.Close()
		if again := r.must(ask(wire, wire).workflow("strict").key("k"), 200); string(again.body) != seen {
			t.Errorf("%s: the replay differs from what was streamed\n%s\n%s", wire, seen, again.body)
		}
	}
}

func TestDrainFinishesWhatRuns(t *testing.T) {
	r := newRig(t)
	r.script("drain", `{"hold":"go"}`)
	answer := make(chan *answered)
	go func() { answer <- r.do(chat("drain").key("k")) }()
	if err := r.sim.WaitHeld(t.Context(), "go", 1); err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	go func() { r.gw.Drain(t.Context()); close(drained) }()
	wait(t, func() bool { return r.gw.Ready() != nil })
	if a := r.must(chat("late").key("late"), 503); a.code() != string(gateway.CodeDraining) {
		t.Errorf("%v", a.header)
	}
	r.sim.Release("go")
	if a := <-answer; a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	<-drained
}

// A stop that cannot wait records what is in flight as interrupted: external ones are unknown.
func TestDrainInterrupts(t *testing.T) {
	r := newRig(t)
	r.script("cut", "hang", "hang", "hang")
	answers := make(chan *answered, 3)
	go func() { answers <- r.do(chat("cut").workflow("external").key("external")) }()
	go func() { answers <- r.do(chat("cut").key("plain")) }()
	go func() { answers <- r.do(chat("cut").workflow("off")) }()
	wait(t, func() bool { return r.sim.Counts("cut").InFlight == 3 })
	now, cancel := context.WithCancel(t.Context())
	cancel()
	r.gw.Drain(now)
	for range 3 {
		if a := <-answers; a.status < 500 && a.status != 409 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	records, err := r.store.List(context.Background(), ledger.Filter{Limit: 10})
	if err != nil || len(records) != 3 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	for _, rec := range records {
		want := map[string]ledger.State{"external": ledger.Unknown, "default": ledger.Dispatched, "off": ledger.Settled}[rec.Workflow]
		if rec.State != want || rec.BilledMaybe != 1 || rec.Crashes != 0 {
			t.Errorf("%s: %+v", rec.Workflow, rec.Status)
		}
	}
	r.close()
	r.start(rigConfig{})
	r.must(chat("cut").key("plain"), 200) // goes on from where it was: the second attempt of the same intent
	r.must(chat("cut").workflow("external").key("external"), 409)
}
