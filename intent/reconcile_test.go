package intent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// far is a far side that a test writes: what a look finds, from when on, and when it was looked at.
type far struct {
	mu    sync.Mutex
	looks []time.Duration // since the beginning
	began time.Time
	says  func(since time.Duration, look int) (intent.Finding, error)
}

func (f *far) Check(context.Context, *ledger.Record) (intent.Finding, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	since := time.Since(f.began)
	f.looks = append(f.looks, since.Round(time.Second))
	return f.says(since, len(f.looks))
}

func (f *far) seen() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.looks)
}

func finds(found intent.Found) func(time.Duration, int) (intent.Finding, error) {
	return func(time.Duration, int) (intent.Finding, error) { return finding(found), nil }
}

func finding(found intent.Found) intent.Finding {
	return intent.Finding{Found: found, Reason: "the far side says so", Evidence: json.RawMessage(`{"get":"/x"}`)}
}

// patrolled is a log in fake time with a patrol over it.
type patrolled struct {
	*testing.T
	path  string
	store ledger.Ledger
	log   *intent.Log
	far   *far
	plan  intent.Plan
	out   bytes.Buffer
	stop  func()
	back  []string
}

var plan = intent.Plan{Name: "reconciler test", Every: time.Minute, Quiet: time.Minute, Attempts: 5, Keep: time.Hour}

func newPatrolled(t *testing.T, p intent.Plan, says func(time.Duration, int) (intent.Finding, error)) *patrolled {
	r := &patrolled{T: t, path: filepath.Join(t.TempDir(), "holdfast.db"), plan: p, far: &far{began: time.Now(), says: says}}
	r.plan.Reconciler = r.far
	r.start()
	return r
}

func (r *patrolled) start() {
	l, err := sqlite.Open(r.Context(), sqlite.Config{Path: r.path, Env: "test"})
	if err != nil {
		r.Fatal(err)
	}
	r.store = l
	r.log = intent.New(intent.Config{Ledger: l, Exclusive: true, Logger: slog.New(slog.NewTextHandler(&r.out, nil))})
	if _, err := r.log.Recover(r.Context()); err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- r.log.Reconcile(ctx, intent.Patrol{Plan: func(*ledger.Record) (intent.Plan, bool) { return r.plan, r.plan.Reconciler != nil },
			Returned: func(id string) { r.back = append(r.back, id) }})
	}()
	r.stop = func() {
		cancel()
		if err := <-done; err != nil {
			r.Error(err)
		}
		r.log.Close()
		if err := l.Close(); err != nil {
			r.Error(err)
		}
	}
}

// over ends the log and holds it against every invariant.
func (r *patrolled) over() {
	r.stop()
	found, err := sqlite.Verify(context.Background(), r.path)
	if err != nil {
		r.Error(err)
	}
	for _, v := range found {
		r.Errorf("verify: %s", v)
	}
}

// lose begins an external operation and loses its outcome.
func (r *patrolled) lose(change ...func(*intent.Begin)) string {
	r.Helper()
	o, err := r.log.Begin(begin("k", append(change, held)...))
	if err == nil {
		err = o.Lose(lost, nil)
	}
	if err != nil {
		r.Fatal(err)
	}
	return o.ID()
}

func (r *patrolled) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *patrolled) is(id string, state ledger.State, outcome ledger.Outcome) *ledger.Record {
	r.Helper()
	rec, err := r.store.Get(r.Context(), id)
	if err != nil {
		r.Fatal(err)
	}
	if rec.State != state || rec.Outcome != outcome {
		r.Errorf("%s, %s; want %s, %s", rec.State, rec.Outcome, state, outcome)
	}
	return rec
}

func (r *patrolled) count(id, kind string) int {
	r.Helper()
	events, err := r.store.History(r.Context(), id)
	if err != nil {
		r.Fatal(err)
	}
	n := 0
	for _, e := range events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func inBubble(t *testing.T, p intent.Plan, says func(time.Duration, int) (intent.Finding, error), f func(*patrolled)) {
	synctest.Test(t, func(t *testing.T) {
		r := newPatrolled(t, p, says)
		defer r.over()
		f(r)
	})
}

func seconds(n ...int) []time.Duration {
	out := make([]time.Duration, len(n))
	for i := range n {
		out[i] = time.Duration(n[i]) * time.Second
	}
	return out
}

func (r *patrolled) looked(want ...int) {
	r.Helper()
	if got := r.far.seen(); !slices.Equal(got, seconds(want...)) {
		r.Errorf("looked at %v, want %v", got, seconds(want...))
	}
}

// The effect that took place is found at once, and the far side's own answer is replayed.
func TestReconcileHappened(t *testing.T) {
	says := func(time.Duration, int) (intent.Finding, error) {
		f := finding(intent.Happened)
		f.Read = []byte(`{"items":[1]}`)
		f.Answer, f.Body = &ledger.Answer{HTTPStatus: 201, HasBody: true}, &ledger.Body{ContentType: "application/json", Data: []byte(`{"id":1}`)}
		return f, nil
	}
	inBubble(t, plan, says, func(r *patrolled) {
		id := r.lose()
		r.pass(time.Second)
		rec := r.is(id, ledger.Settled, ledger.OutcomeSuccess)
		if rec.Answer == nil || rec.Answer.HTTPStatus != 201 || !rec.ClaimUntil.After(r.store.Now().Add(59*time.Minute)) {
			r.Errorf("answer %+v, claim until %s", rec.Answer, rec.ClaimUntil)
		}
		for kind, want := range map[ledger.BodyKind]string{ledger.BodyAnswer: `{"id":1}`, ledger.BodyEvidence: `{"items":[1]}`} {
			if b, err := r.store.Body(r.Context(), id, kind); err != nil || string(b.Data) != want {
				r.Errorf("body %d: %v %v", kind, b, err)
			}
		}
		r.looked(0)
		if n := r.count(id, "check"); n != 1 {
			r.Errorf("%d checks on record", n)
		}
		r.pass(time.Hour)
		r.looked(0)
	})
}

// An absence counts only after the quiet period, and only if a second read agrees (semantics 8).
func TestReconcileDidNotHappen(t *testing.T) {
	inBubble(t, plan, finds(intent.DidNotHappen), func(r *patrolled) {
		id := r.lose()
		r.pass(119 * time.Second)
		r.is(id, ledger.Unknown, ledger.OutcomeUnknown)
		if _, err := r.log.Begin(begin("k", held)); !errors.Is(err, ledger.ErrClaimed) {
			r.Errorf("the key of an unknown operation is free: %v", err)
		}
		r.pass(2 * time.Minute)
		r.is(id, ledger.Settled, ledger.OutcomeFailed)
		r.looked(0, 5, 15, 60, 120)
		o, err := r.log.Begin(begin("k", held))
		if err != nil {
			r.Fatalf("the key is not free: %v", err)
		}
		if err := o.NotSent("a test looked", ""); err != nil {
			r.Error(err)
		}
	})
}

// What a far side does late, after a first read found nothing, is found and never done again.
func TestReconcileLateEffect(t *testing.T) {
	for _, late := range []int{1, 10, 59, 61, 100, 119} {
		says := func(since time.Duration, _ int) (intent.Finding, error) {
			if since >= time.Duration(late)*time.Second {
				return finding(intent.Happened), nil
			}
			return finding(intent.DidNotHappen), nil
		}
		inBubble(t, plan, says, func(r *patrolled) {
			id := r.lose()
			r.pass(10 * time.Minute)
			r.is(id, ledger.Settled, ledger.OutcomeSuccess)
		})
	}
}

// After its checks a person is asked, once, and nothing more is looked at; the person's word ends it.
func TestReconcileAsksAPerson(t *testing.T) {
	says := func(_ time.Duration, look int) (intent.Finding, error) {
		switch look {
		case 2:
			return intent.Finding{}, errors.New("connection refused")
		case 3:
			panic("a reconciler's own defect")
		}
		return finding(intent.CannotTell), nil
	}
	inBubble(t, plan, says, func(r *patrolled) {
		id := r.lose()
		r.pass(time.Hour)
		r.is(id, ledger.Unknown, ledger.OutcomeUnknown)
		r.looked(0, 5, 15, 60, 100)
		if n := r.count(id, "alert"); n != 1 || strings.Count(r.out.String(), "a person decides") != 1 {
			r.Errorf("%d alerts on record; log: %s", n, &r.out)
		}
		if _, ok := r.log.NextCheck(id); ok {
			r.Errorf("a check is announced that does not come")
		}
		r.stop()
		r.start() // a restart asks nobody again
		r.pass(time.Hour)
		r.looked(0, 5, 15, 60, 100)
		if n := r.count(id, "alert"); n != 1 {
			r.Errorf("%d alerts on record", n)
		}
		rec, err := r.store.Get(r.Context(), id)
		if err == nil {
			err = r.log.Load(rec).Resolve(ledger.OutcomeSuccess, "alice", "seen", nil, r.store.Now().Add(time.Hour))
		}
		if err != nil {
			r.Error(err)
		}
	})
}

// The schedule stands in the log: a restart between two reads neither repeats a check nor forgets one.
func TestReconcileSurvivesRestart(t *testing.T) {
	inBubble(t, plan, finds(intent.DidNotHappen), func(r *patrolled) {
		id := r.lose()
		for range 8 {
			r.pass(14 * time.Second)
			r.stop()
			r.start()
		}
		r.pass(2 * time.Minute)
		r.is(id, ledger.Settled, ledger.OutcomeFailed)
		if n := r.count(id, "check"); n != 5 {
			r.Errorf("%d checks on record, want 5", n)
		}
	})
}

// What recovery finds unknown is looked for like everything else, from its own end on.
func TestReconcileAfterCrash(t *testing.T) {
	inBubble(t, plan, finds(intent.DidNotHappen), func(r *patrolled) {
		o, err := r.log.Begin(begin("k", held))
		if err != nil {
			r.Fatal(err)
		}
		r.pass(10 * time.Second)
		r.stop() // as it is: dispatched
		r.start()
		r.pass(time.Second)
		r.is(o.ID(), ledger.Unknown, ledger.OutcomeUnknown)
		r.pass(5 * time.Minute)
		r.is(o.ID(), ledger.Settled, ledger.OutcomeFailed)
	})
}

// A job whose effect did not take place goes back, with its attempts counted, until they are used up.
func TestReconcileReturnsJobs(t *testing.T) {
	p := plan
	p.Wanted = true
	inBubble(t, p, finds(intent.DidNotHappen), func(r *patrolled) {
		id := r.lose(func(b *intent.Begin) { b.Head.MaxAttempts = 2 })
		r.pass(5 * time.Minute)
		rec := r.is(id, ledger.Created, ledger.OutcomePending)
		if rec.Attempt != 1 || !slices.Equal(r.back, []string{id}) {
			r.Errorf("attempt %d, returned %v", rec.Attempt, r.back)
		}
		o := r.log.Load(rec)
		for _, err := range []error{o.Dispatch(try), o.EndAttempt(intent.Ending{End: ledger.AttemptFailed, Reason: "refused"})} {
			if err != nil {
				r.Fatal(err)
			}
		}
		r.is(id, ledger.Created, ledger.OutcomePending) // not held by the attempt that evidence cleared up
		if err := o.Discard("enough", ""); err != nil {
			r.Error(err)
		}
	})
	inBubble(t, p, finds(intent.DidNotHappen), func(r *patrolled) {
		id := r.lose()
		r.pass(5 * time.Minute)
		r.is(id, ledger.Settled, ledger.OutcomeFailed)
	})
}

// when: batch looks only in the sweep.
func TestReconcileBatch(t *testing.T) {
	p := plan
	p.Batch, p.Every = true, 10*time.Minute
	inBubble(t, p, finds(intent.DidNotHappen), func(r *patrolled) {
		id := r.lose()
		r.pass(time.Hour)
		r.is(id, ledger.Settled, ledger.OutcomeFailed)
		r.looked(600, 1200)
	})
}

// A far side that answered 409 said that it has the request: that it finds nothing is no proof.
func TestReconcileConflict(t *testing.T) {
	inBubble(t, plan, finds(intent.DidNotHappen), func(r *patrolled) {
		o, err := r.log.Begin(begin("k", held))
		if err != nil {
			r.Fatal(err)
		}
		if err := o.Lose(intent.Ending{Status: 409, Billed: true, Reason: "409"}, nil); err != nil {
			r.Fatal(err)
		}
		r.pass(time.Hour)
		r.is(o.ID(), ledger.Unknown, ledger.OutcomeUnknown)
		if n := r.count(o.ID(), "alert"); n != 1 {
			r.Errorf("%d alerts", n)
		}
	})
}

// A late answer ends the unknown as it would have ended the attempt; behind a person's word it is evidence.
func TestLateAnswer(t *testing.T) {
	p := plan
	inBubble(t, p, finds(intent.CannotTell), func(r *patrolled) {
		id := r.lose()
		if err := r.log.Late(r.Context(), id, won(r.store.Now().Add(time.Hour))); err != nil {
			r.Fatal(err)
		}
		rec := r.is(id, ledger.Settled, ledger.OutcomeSuccess)
		if rec.Answer == nil || rec.ClaimUntil.IsZero() {
			r.Errorf("%+v", rec)
		}
		if err := r.log.Late(r.Context(), id, won(time.Time{})); err != nil {
			r.Fatal(err)
		}
		if n := r.count(id, "evidence"); n != 2 {
			r.Errorf("%d pieces of evidence", n)
		}
		r.pass(time.Hour)
	})
}

// A plan that comes after the start is asked as soon as it is said that it is there.
func TestReconsider(t *testing.T) {
	inBubble(t, plan, finds(intent.Happened), func(r *patrolled) {
		r.plan.Reconciler = nil
		id := r.lose()
		r.pass(5 * time.Minute)
		r.is(id, ledger.Unknown, ledger.OutcomeUnknown)
		r.plan.Reconciler = r.far
		r.log.Reconsider()
		r.pass(time.Second)
		r.is(id, ledger.Settled, ledger.OutcomeSuccess)
	})
}

// A look that was not possible is no check: none is used up, nobody is asked, and it comes as soon as it can.
func TestReconcileNotNow(t *testing.T) {
	there := false
	says := func(time.Duration, int) (intent.Finding, error) {
		if !there {
			return intent.Finding{}, fmt.Errorf("no session: %w", intent.ErrNotNow)
		}
		return finding(intent.DidNotHappen), nil
	}
	inBubble(t, plan, says, func(r *patrolled) {
		id := r.lose()
		r.pass(10*time.Minute + 30*time.Second)
		r.is(id, ledger.Unknown, ledger.OutcomeUnknown)
		if n, m := r.count(id, "check"), r.count(id, "alert"); n != 0 || m != 0 {
			r.Errorf("%d checks and %d alerts on record", n, m)
		}
		if n := strings.Count(r.out.String(), "cannot be looked for"); n != 1 {
			r.Errorf("%d warnings: %s", n, &r.out)
		}
		there = true
		r.log.Reconsider()
		r.pass(time.Second)
		if n := r.count(id, "check"); n != 1 {
			r.Errorf("%d checks as soon as one can be made", n)
		}
		r.pass(2 * time.Minute)
		r.is(id, ledger.Settled, ledger.OutcomeFailed)
	})
}

// Many unknown operations at once are all looked at, and none twice.
func TestReconcileMany(t *testing.T) {
	inBubble(t, plan, finds(intent.Happened), func(r *patrolled) {
		var ids []string
		for i := range 40 {
			ids = append(ids, r.lose(func(b *intent.Begin) { b.Head.Key += string(rune('a' + i)) }))
		}
		r.pass(time.Minute)
		for _, id := range ids {
			r.is(id, ledger.Settled, ledger.OutcomeSuccess)
		}
		if n := len(r.far.seen()); n != len(ids) {
			r.Errorf("%d looks at %d operations", n, len(ids))
		}
	})
}
