package ledgertest

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

func notFound(t *testing.T, f *fixture) {
	_, get := f.Get(f.ctx, "no such id")
	_, holder := f.Holder(f.ctx, "no such key")
	_, hist := f.History(f.ctx, "no such id")
	_, body := f.Body(f.ctx, "no such id", ledger.BodyAnswer)
	for name, err := range map[string]error{"Get": get, "Holder": holder, "History": hist, "Body": body} {
		if !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
	if recs, err := f.Derived(f.ctx, "none", 10); err != nil || len(recs) != 0 {
		t.Errorf("Derived = %v, %v", recs, err)
	}
}

func bodies(t *testing.T, f *fixture) {
	noise := make([]byte, 100_000)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	w := f.dispatched("b")
	w.Bodies = []ledger.Body{{Kind: ledger.BodyRequest, ContentType: "text/plain", Data: []byte{}}}
	f.commit(w)
	s := f.settled(w, time.Hour)
	s.Bodies = []ledger.Body{
		{Kind: ledger.BodyAnswer, ContentType: "application/json", Data: bytes.Repeat([]byte("holdfast "), 500_000)},
		{Kind: ledger.BodyPartial, Data: noise},
		{Kind: ledger.BodyEvidence, ContentType: "x", Data: []byte("small\x00\xff")},
	}
	f.commit(s)
	for _, want := range slices.Concat(w.Bodies, s.Bodies) {
		got, err := f.Body(f.ctx, s.ID, want.Kind)
		if err != nil {
			t.Fatalf("Body(%d): %v", want.Kind, err)
		}
		if got.Kind != want.Kind || got.ContentType != want.ContentType || !bytes.Equal(got.Data, want.Data) {
			t.Errorf("body %d came back as kind %d, type %q, %d bytes", want.Kind, got.Kind, got.ContentType, len(got.Data))
		}
	}
	if _, err := f.Body(f.ctx, s.ID, ledger.BodyLate); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("a body that was not kept: %v", err)
	}
}

func derived(t *testing.T, f *fixture) {
	var want []string
	for i := range 5 {
		w := f.dispatched("")
		w.Insert.Key, w.DerivedKey, w.DerivedUntil = "d", "d", f.Now().Add(time.Hour)
		if i == 1 {
			w.DerivedUntil = f.Now().Add(-time.Second)
		}
		f.commit(w)
		if i != 1 {
			want = append([]string{w.Insert.ID}, want...)
		}
		if i == 2 {
			f.commit(f.settled(w, time.Hour))
		}
	}
	recs, err := f.Derived(f.ctx, "d", 10)
	if err != nil {
		t.Fatal(err)
	}
	f.same("Derived", want, ids(recs))
	recs, err = f.Derived(f.ctx, "d", 2)
	if err != nil {
		t.Fatal(err)
	}
	f.same("Derived, two", want[:2], ids(recs))
	f.commit(f.dispatched("d")) // a derived key is no claim
	f.commit(&ledger.Write{ID: want[1], Append: true, Unindex: "other"})
	f.commit(&ledger.Write{ID: want[0], Append: true, Unindex: "d", Relaxed: true})
	recs, err = f.Derived(f.ctx, "d", 10)
	if err != nil {
		t.Fatal(err)
	}
	f.same("Derived after Unindex", want[1:], ids(recs))
}

// shelved holds that a lane is only where an intent stands that somebody works on: nobody's version, nothing of what is settled,
// out of hand or in another's.
func shelved(t *testing.T, f *fixture) {
	w := f.dispatched("s")
	w.Status.LeaseOwner = "me"
	f.commit(w)
	shelve := func(owner, lane string) {
		f.commit(&ledger.Write{ID: w.Insert.ID, Append: true, Shelve: true, Relaxed: true, Status: ledger.Status{Lane: lane, LeaseOwner: owner}})
	}
	to := func(lane string) { shelve("me", lane) }
	stands := func(lane string, version int64) {
		t.Helper()
		if r, err := f.Get(f.ctx, w.Insert.ID); err != nil || r.Lane != lane || r.Version != version {
			t.Errorf("%+v, %v; want lane %q and version %d", r, err, lane, version)
		}
	}
	to("aside")
	stands("aside", 1)
	if found, err := f.List(f.ctx, ledger.Filter{Lane: "aside", Limit: 10}); err != nil || len(found) != 1 {
		t.Errorf("%d in the lane, %v", len(found), err)
	}
	to("")
	stands("", 1)
	to("again")
	n := f.commit(f.next(w, ledger.Dispatched))
	stands(n.Status.Lane, 2)
	for _, owner := range []string{"", "another"} {
		shelve(owner, "theirs")
		stands(n.Status.Lane, 2)
	}
	lost := f.next(n, ledger.Unknown)
	lost.Status.Lane, lost.Status.LeaseOwner = "asks", ""
	f.commit(lost)
	for _, lane := range []string{"aside", ""} {
		to(lane)
		shelve("", lane)
		stands("asks", 3)
	}
	lost.Status.Lane = ""
	f.commit(f.settled(lost, time.Hour))
	to("late")
	stands("", 4)
	nobody := &ledger.Write{ID: f.id(), Append: true, Shelve: true}
	if err := ledger.Commit(f.ctx, f, nobody); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("nobody's lane: %v", err)
	}
}

func history(t *testing.T, f *fixture) {
	w := f.commit(f.dispatched("h"))
	want := slices.Clone(w.Events)
	n := w
	for i := range 12 { // more than nine, so that an order by text shows
		n = f.next(n, ledger.Dispatched)
		n.Events = []ledger.Event{{
			At: f.Now(), Kind: "attempt_end", From: ledger.Dispatched, To: ledger.Dispatched, Actor: "worker \"ü\"\n",
			Reason: fmt.Sprintf("try %d", i), Rule: "semantics 2", Attempt: i, Route: "r", Tier: "t",
			End: ledger.AttemptUnknown, Status: 503, Billed: true, Error: "timeout", Evidence: json.RawMessage(`{"a":[1,"x"]}`),
		}}
		want = append(want, n.Events...)
		f.commit(n)
	}
	quiet := f.next(n, ledger.Dispatched)
	quiet.Events = nil
	f.commit(quiet)
	s := f.commit(f.settled(quiet, time.Hour))
	want = append(want, s.Events...)
	got, err := f.History(f.ctx, s.ID)
	if err != nil {
		t.Fatal(err)
	}
	f.same("History", want, got)
}

func paging(t *testing.T, f *fixture) {
	var want []string
	for i := range 25 {
		w := f.dispatched("")
		f.commit(w)
		if i%3 == 0 {
			f.commit(f.settled(w, time.Hour))
		}
		want = append([]string{w.Insert.ID}, want...)
	}
	var got []string
	before := ""
	for {
		recs, err := f.List(f.ctx, ledger.Filter{Before: before, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ids(recs)...)
		if len(recs) < 7 {
			break
		}
		before = recs[len(recs)-1].ID
		f.commit(f.dispatched("")) // a newcomer does not shift the pages
	}
	f.same("pages", want, got)
	for i := range 80 {
		w := f.dispatched("")
		if <-f.Enqueue(w); w.Err != nil {
			t.Fatalf("%d: %v", i, w.Err)
		}
	}
	if recs, err := f.List(f.ctx, ledger.Filter{}); err != nil || len(recs) != 100 {
		t.Errorf("default page has %d, %v; want 100", len(recs), err)
	}
}

func filters(t *testing.T, f *fixture) {
	put := func(change func(*ledger.Write)) string {
		w := f.dispatched("")
		change(w)
		return f.commit(w).Insert.ID
	}
	start := f.Now()
	old := put(func(w *ledger.Write) { w.Insert.CreatedAt = start.Add(-time.Hour) })
	tenant := put(func(w *ledger.Write) { w.Insert.Tenant = "acme" })
	flow := put(func(w *ledger.Write) { w.Insert.Workflow = "report" })
	keyed := put(func(w *ledger.Write) { w.Insert.Key, w.ClaimKey = "the key", "the key" })
	unknown := put(func(w *ledger.Write) { w.Status.State, w.Status.Outcome = ledger.Unknown, ledger.OutcomeUnknown })
	created := put(func(w *ledger.Write) { w.Status.State, w.Status.Attempt = ledger.Created, 0 })
	done := f.dispatched("")
	f.commit(done)
	settled := f.commit(f.settled(done, time.Hour)).ID
	all := []string{settled, created, unknown, keyed, flow, tenant, old}
	for name, c := range map[string]struct {
		filter ledger.Filter
		want   []string
	}{
		"all":            {ledger.Filter{}, all},
		"unsettled":      {ledger.Filter{Unsettled: true}, all[1:]},
		"unknown":        {ledger.Filter{States: []ledger.State{ledger.Unknown}}, []string{unknown}},
		"two states":     {ledger.Filter{States: []ledger.State{ledger.Unknown, ledger.Settled}}, []string{settled, unknown}},
		"open states":    {ledger.Filter{States: []ledger.State{ledger.Created, ledger.Unknown}}, []string{created, unknown}},
		"unknown, after": {ledger.Filter{States: []ledger.State{ledger.Unknown}, Before: unknown}, []string{}},
		"settled only":   {ledger.Filter{States: []ledger.State{ledger.Settled}}, []string{settled}},
		"contradiction":  {ledger.Filter{States: []ledger.State{ledger.Settled}, Unsettled: true}, []string{}},
		"outcome":        {ledger.Filter{Outcomes: []ledger.Outcome{ledger.OutcomeSuccess}}, []string{settled}},
		"outcomes":       {ledger.Filter{Outcomes: []ledger.Outcome{ledger.OutcomeSuccess, ledger.OutcomeUnknown}}, []string{settled, unknown}},
		"workflow":       {ledger.Filter{Workflow: "report"}, []string{flow}},
		"tenant":         {ledger.Filter{Tenant: "acme"}, []string{tenant}},
		"key":            {ledger.Filter{Key: "the key"}, []string{keyed}},
		"older":          {ledger.Filter{OlderThan: start.Add(-time.Minute)}, []string{old}},
		"newer":          {ledger.Filter{NewerThan: start.Add(-time.Minute)}, all[:6]},
		"both":           {ledger.Filter{Tenant: "acme", Workflow: "report"}, []string{}},
		"limit":          {ledger.Filter{Limit: 2}, all[:2]},
	} {
		recs, err := f.List(f.ctx, c.filter)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f.same(name, c.want, ids(recs))
	}
}

func openAndDue(t *testing.T, f *fixture) {
	now := f.Now()
	var open []string
	byExpiry := map[time.Duration]string{}
	for i, exp := range []time.Duration{0, time.Hour, -time.Minute, -time.Hour, -time.Second} {
		w := f.created("")
		if exp != 0 {
			w.Status.ExpiresAt = now.Add(exp)
		}
		f.commit(w)
		if i == 4 {
			f.commit(f.settled(w, time.Hour))
			continue
		}
		open = append(open, w.Insert.ID)
		byExpiry[exp] = w.Insert.ID
	}
	recs, err := f.Open(f.ctx, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	f.same("Open", open, ids(recs))
	recs, err = f.Open(f.ctx, open[1], 1)
	if err != nil {
		t.Fatal(err)
	}
	f.same("Open, one after the second", open[2:3], ids(recs))
	f.due(now, 100, byExpiry[-time.Hour], byExpiry[-time.Minute])
	f.due(now, 1, byExpiry[-time.Hour])
}

func (f *fixture) due(now time.Time, limit int, want ...string) {
	f.Helper()
	recs, err := f.Due(f.ctx, now, limit)
	if err != nil {
		f.Fatal(err)
	}
	f.same("Due", want, ids(recs))
}

// dueIsNotHidden: what is worked on or held for evidence is not due, and however much of it there is, it hides
// nothing that waited less long.
func dueIsNotHidden(t *testing.T, f *fixture) {
	now := f.Now()
	insert := func(age time.Duration, state ledger.State, owner string) *ledger.Write {
		w := f.created("")
		w.Status.State, w.Status.LeaseOwner, w.Status.ExpiresAt = state, owner, now.Add(-age)
		return f.commit(w)
	}
	for range 20 {
		insert(time.Hour, ledger.Created, "gw-1")
		insert(time.Hour, ledger.Dispatched, "gw-1")
		insert(time.Hour, ledger.Unknown, "")
		insert(time.Hour, ledger.Confirmed, "")
	}
	second, first := insert(time.Minute, ledger.Created, ""), insert(2*time.Minute, ledger.Dispatched, "")
	f.due(now, 5, first.Insert.ID, second.Insert.ID)

	taken := f.next(first, ledger.Dispatched)
	taken.Status.LeaseOwner = "gw-2"
	f.commit(taken)
	f.due(now, 5, second.Insert.ID)
	free := f.next(taken, ledger.Dispatched)
	free.Status.LeaseOwner = ""
	f.commit(free)
	f.due(now, 5, first.Insert.ID, second.Insert.ID)
}

func counts(t *testing.T, f *fixture) {
	for i, s := range []ledger.State{ledger.Created, ledger.Dispatched, ledger.Dispatched, ledger.Unknown, ledger.Confirmed} {
		w := f.created("")
		w.Status.State = s
		f.commit(w)
		if i == 1 {
			f.commit(f.settled(w, time.Hour))
		}
	}
	got, err := f.Counts(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	f.same("Counts", map[ledger.State]int64{ledger.Created: 1, ledger.Dispatched: 1, ledger.Unknown: 1, ledger.Confirmed: 1}, got)
}

func derivedKeys(t *testing.T, f *fixture) {
	filter, ok := f.Ledger.(ledger.KeyFilter)
	if !ok {
		return // an ability that a driver may do without
	}
	there := f.together("here", "there")
	for key, d := range map[string]time.Duration{"here": time.Hour, there: time.Hour, "over": -time.Second} {
		w := f.dispatched("")
		w.Insert.Key, w.DerivedKey, w.DerivedUntil = key, key, f.Now().Add(d)
		f.commit(w)
	}
	has, err := filter.DerivedKeys(f.ctx, 2)
	if err != nil || has == nil {
		t.Fatalf("DerivedKeys: %v, a filter: %t", err, has != nil)
	}
	for key, want := range map[string]bool{"here": true, there: true, "over": false, "none": false} {
		if has(key) != want {
			t.Errorf("%s is held: %t", key, !want)
		}
	}
	if has, err := filter.DerivedKeys(f.ctx, 1); has != nil || err != nil {
		t.Errorf("a filter of more keys than its limit: %t, %v", has != nil, err)
	}
}
