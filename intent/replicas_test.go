package intent_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/pgtest"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/postgres"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
	"github.com/holdfast-ai/holdfast/ledger/sqlite/faultdisk"
)

// beat is the interval of replicas in these tests: a lease is three of them, and others are patient for half a one more.
const beat = time.Second

// The same over the database that replicas share.
func TestReplicasOverPostgres(t *testing.T) {
	server := pgtest.Start(t)
	databases := 0
	open := func(t *testing.T) *rig {
		databases++
		name := fmt.Sprint("test", databases)
		server.Exec(t, "postgres", "CREATE DATABASE "+name)
		url := server.DSN(name)
		l, err := postgres.Open(t.Context(), postgres.Config{URL: url, Env: "test"})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{T: t, store: &clocked{Ledger: l}, verify: func() (found []string, err error) {
			list, err := postgres.Verify(context.Background(), url)
			for _, v := range list {
				found = append(found, v.String())
			}
			return found, err
		}}
		t.Cleanup(r.close)
		return r
	}
	for name, test := range map[string]func(*testing.T, func(*testing.T) *rig){
		"FrozenOwnerSendsNothing": frozenOwnerSendsNothing, "FrozenOwnerIsFenced": frozenOwnerIsFenced, "SuccessorIsPatient": successorIsPatient,
		"StopEndsTheLease": stopEndsTheLease, "EachIsTakenOverOnce": eachIsTakenOverOnce, "PromisedJobIsNotTakenBack": promisedJobIsNotTakenBack,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// replica is an engine of several on the log.
func (r *rig) replica(change ...func(*intent.Config)) *intent.Log {
	return r.engine(append([]func(*intent.Config){func(c *intent.Config) { c.Exclusive, c.Beat = false, beat }}, change...)...)
}

// An owner that stood still between the record of an attempt and its first byte sends nothing: by then others may have made the
// attempt theirs, and evidence or a person may have had it made again (BR-068: the frozen worker).
func TestFrozenOwnerSendsNothing(t *testing.T) { frozenOwnerSendsNothing(t, newRig) }

func frozenOwnerSendsNothing(t *testing.T, open func(*testing.T) *rig) {
	for _, taken := range []bool{true, false} {
		r := open(t)
		frozen, other := r.replica(), r.replica()
		o := r.begin(frozen, begin("k", held))
		if err := o.Sending(); err != nil || !frozen.Current() {
			t.Fatalf("its heartbeat is a moment old: %v", err)
		}
		r.store.pass(20 * beat) // SIGSTOP, SIGCONT
		if taken {
			if found, err := other.Recover(t.Context()); err != nil || found != (intent.Recovered{Unknown: 1}) {
				t.Fatalf("%+v %v", found, err)
			}
		}
		if err := o.Sending(); !errors.Is(err, intent.ErrLeaseOver) || frozen.Current() {
			t.Errorf("taken over %t: it would send: %v", taken, err)
		}
		switch err := o.NotSent("it stood still", "semantics 6"); {
		case taken && !errors.Is(err, ledger.ErrStale):
			t.Errorf("what was taken over was moved by a frozen owner: %v", err)
		case taken:
			r.is(o.ID(), ledger.Unknown, ledger.OutcomeUnknown)
		default:
			r.ok(err)
			r.is(o.ID(), ledger.Settled, ledger.OutcomeDiscarded)
			next := r.begin(frozen, begin("k", held)) // it lives again, and says so first
			r.ok(next.Sending())
			r.ok(next.NotSent("a test looked", ""))
		}
	}
}

// What was taken over from a frozen owner is its no more, wherever it wakes: each of its moves is refused, and no attempt is made twice.
func TestFrozenOwnerIsFenced(t *testing.T) { frozenOwnerIsFenced(t, newRig) }

func frozenOwnerIsFenced(t *testing.T, open func(*testing.T) *rig) {
	r := open(t)
	frozen, other := r.replica(), r.replica()
	leased, sent := r.begun(frozen, "idem:test:main:key:a"), r.begun(frozen, "idem:test:main:key:b")
	for _, o := range []*intent.Op{leased, sent} {
		r.ok(o.Lease())
	}
	r.ok(sent.Dispatch(try))
	r.store.pass(20 * beat)
	if found, err := other.Recover(t.Context()); err != nil || found != (intent.Recovered{Waiting: 2}) {
		t.Fatalf("%+v %v", found, err)
	}
	for _, o := range []*intent.Op{leased, sent} {
		heir := other.Load(r.get(o.ID()))
		r.ok(heir.Lease())
		before := r.get(o.ID()).Attempt
		if err := o.Dispatch(try); err == nil {
			t.Error("a frozen owner dispatched what another one has in hand")
		}
		r.ok(heir.Dispatch(try))
		if err := o.Settle(won(r.store.Now().Add(time.Hour)), false, nil); err == nil {
			t.Error("a frozen owner settled what another one is sending")
		}
		r.ok(o.Evidence(intent.Ending{End: ledger.AttemptSuccess, Reason: "late"}, &ledger.Body{Data: []byte("late")}))
		r.ok(heir.Settle(won(r.store.Now().Add(time.Hour)), false, nil))
		if rec := r.is(o.ID(), ledger.Settled, ledger.OutcomeSuccess); rec.Attempt != before+1 || rec.Crashes != 1 {
			t.Errorf("%+v", rec.Status)
		}
	}
}

// Between the last byte of a frozen owner and the first move of its successor lies an interval, whatever their clocks are off by.
func TestSuccessorIsPatient(t *testing.T) { successorIsPatient(t, newRig) }

func successorIsPatient(t *testing.T, open func(*testing.T) *rig) {
	r := open(t)
	first, second := r.replica(), r.replica()
	o := r.begin(first, begin("k", held))
	r.store.pass(3*beat - beat/4)
	if first.Current() {
		t.Error("an owner goes by its lease up to the end")
	}
	r.store.pass(beat / 2) // over, by a little
	if found, err := second.Recover(t.Context()); err != nil || found != (intent.Recovered{}) {
		t.Errorf("taken over at once: %+v %v", found, err)
	}
	r.store.pass(beat)
	if found, err := second.Recover(t.Context()); err != nil || found != (intent.Recovered{Unknown: 1}) {
		t.Errorf("%+v %v", found, err)
	}
	r.is(o.ID(), ledger.Unknown, ledger.OutcomeUnknown)
}

// Whoever stops in an orderly way is waited for by nobody.
func TestStopEndsTheLease(t *testing.T) { stopEndsTheLease(t, newRig) }

func stopEndsTheLease(t *testing.T, open func(*testing.T) *rig) {
	r := open(t)
	first := intent.New(intent.Config{Ledger: r.store, Beat: beat, Info: func() []byte { return []byte(`{"draining":true}`) }})
	second := r.replica()
	o := r.begin(first, begin("k", waiting))
	first.Close()
	if found, err := second.Recover(t.Context()); err != nil || found != (intent.Recovered{Waiting: 1}) {
		t.Errorf("%+v %v", found, err)
	}
	r.is(o.ID(), ledger.Created, ledger.OutcomePending)
	owners, err := r.store.Owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range owners {
		if own.ID == first.Owner() && (own.Until.After(r.store.Now()) || string(own.Info) != `{"draining":true}`) {
			t.Errorf("%+v, %s", own, own.Info)
		}
	}
	if _, err := first.Begin(begin("other")); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("an owner took something on behind its end: %v", err)
	}
}

// However many replicas recover what a dead one left, each of its operations is recovered once, and its crash counted once.
func TestEachIsTakenOverOnce(t *testing.T) { eachIsTakenOverOnce(t, newRig) }

func eachIsTakenOverOnce(t *testing.T, open func(*testing.T) *rig) {
	r := open(t)
	dead := r.replica()
	const jobs = 60
	var ids []string
	for i := range jobs {
		o := r.begun(dead, fmt.Sprint("idem:test:main:key:", i))
		r.ok(o.Lease())
		if i%2 == 0 {
			r.ok(o.Dispatch(try))
		}
		ids = append(ids, o.ID())
	}
	r.store.pass(20 * beat)
	var all sync.WaitGroup
	var waiting, told atomic.Int64
	for range 3 {
		g := r.replica()
		g.OnFreed(func(*ledger.Record) { told.Add(1) })
		all.Go(func() {
			found, err := g.Recover(context.Background())
			if err != nil {
				t.Error(err)
			}
			waiting.Add(int64(found.Waiting))
		})
	}
	all.Wait()
	if waiting.Load() != jobs || told.Load() != jobs {
		t.Errorf("%d taken over, %d told of, of %d", waiting.Load(), told.Load(), jobs)
	}
	for _, id := range ids {
		if rec := r.get(id); rec.Crashes != 1 || rec.LeaseOwner != "" || rec.BilledMaybe != rec.Attempt {
			t.Errorf("%+v", rec.Status)
		}
	}
}

// stepped is a ledger each of whose writes waits for its turn.
type stepped struct {
	ledger.Ledger
	turn chan struct{}
}

func (l *stepped) Enqueue(w *ledger.Write) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		<-l.turn
		<-l.Ledger.Enqueue(w)
		close(done)
		l.turn <- struct{}{}
	}()
	return done
}

// A job whose submitter was refused, and of which a request to another replica was told meanwhile, is not taken back: whoever was
// told of it relies on it (semantics 9). Where it is taken back first, nobody is told of it.
func TestPromisedJobIsNotTakenBack(t *testing.T) { promisedJobIsNotTakenBack(t, newRig) }

func promisedJobIsNotTakenBack(t *testing.T, open func(*testing.T) *rig) {
	r := open(t)
	for _, promised := range []bool{true, false} {
		slow := &stepped{Ledger: r.store, turn: make(chan struct{})}
		submits := intent.New(intent.Config{Ledger: slow, Beat: beat, CommitWait: time.Millisecond})
		r.ok(submits.Alive(t.Context()))
		tells := r.replica()
		key := fmt.Sprint("idem:test:main:key:", promised)
		if _, err := submits.Begin(begin(key, job)); !errors.Is(err, intent.ErrCommitWait) {
			t.Fatal(err)
		}
		step := func() { slow.turn <- struct{}{}; <-slow.turn }
		step() // it lands
		rec, err := r.store.Holder(t.Context(), key)
		r.ok(err)
		o := tells.Load(rec)
		if promised {
			r.ok(o.Vouch())
		}
		step() // it is taken back, if it can be
		submits.Close()
		if promised {
			r.is(rec.ID, ledger.Created, ledger.OutcomePending)
			r.ok(tells.Load(r.get(rec.ID)).Lease())
			continue
		}
		r.is(rec.ID, ledger.Settled, ledger.OutcomeDiscarded)
		if err := o.Vouch(); !errors.Is(err, ledger.ErrStale) {
			t.Errorf("what was taken back is relied on: %v", err)
		}
	}
}

// However many replicas have the schedule of an unknown outcome's checks, each check is made once, and a person is asked once.
func TestChecksAreMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := sqlite.Open(t.Context(), sqlite.Config{Path: "/checks.db", Env: "test", Disk: faultdisk.New(t.TempDir()), Readers: 1})
		if err != nil {
			t.Fatal(err)
		}
		looks := &far{began: time.Now(), says: func(time.Duration, int) (intent.Finding, error) {
			time.Sleep(2 * time.Second)
			return finding(intent.CannotTell), nil
		}}
		p := plan
		p.Reconciler = looks
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		var logs []*intent.Log
		for range 3 {
			g := intent.New(intent.Config{Ledger: store})
			logs = append(logs, g)
			all.Go(func() { _ = g.Run(ctx) })
			all.Go(func() {
				_ = g.Reconcile(ctx, intent.Patrol{Plan: func(*ledger.Record) (intent.Plan, bool) { return p, true }})
			})
		}
		synctest.Wait()
		o, err := logs[0].Begin(begin("k", held))
		if err == nil {
			err = o.Lose(lost, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		stop()
		all.Wait()
		events, err := store.History(context.Background(), o.ID())
		if err != nil {
			t.Fatal(err)
		}
		checks, alerts := 0, 0
		for _, e := range events {
			switch e.Kind {
			case "check":
				checks++
			case "alert":
				alerts++
			}
		}
		if n := len(looks.seen()); n != p.Attempts || checks != p.Attempts || alerts != 1 {
			t.Errorf("%d looks, %d checks and %d alerts on record; want %d, %d and 1", n, checks, alerts, p.Attempts, p.Attempts)
		}
		if rec, err := store.Get(context.Background(), o.ID()); err != nil || rec.State != ledger.Unknown || rec.LeaseOwner != "" {
			t.Errorf("%+v, %v", rec, err)
		}
		for _, g := range logs {
			g.Close()
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
