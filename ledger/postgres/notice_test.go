package postgres

import (
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
)

// hears collects what a ledger is told.
func hears(t *testing.T, l *Ledger) <-chan ledger.Notice {
	t.Helper()
	heard := make(chan ledger.Notice, 1000)
	stop := l.Notices(func(n ledger.Notice) { heard <- n })
	t.Cleanup(stop)
	if n := <-heard; n.Kind != ledger.NoticeAll {
		t.Fatalf("the first notice is %+v; what came before nobody heard", n)
	}
	return heard
}

// TestNotices: what somebody may wait for in another process is told there, and there alone.
func TestNotices(t *testing.T) {
	url := emptyStore(t)
	l, other := open(t, Config{URL: url}), open(t, Config{URL: url})
	defer l.Close()
	defer other.Close()
	mine, heard := hears(t, l), hears(t, other)

	w := newIntent(l, "key")
	if err := commit(l, w); err != nil { // in somebody's hands: nobody waits for it
		t.Fatal(err)
	}
	if err := commit(l, settling(l, w, []byte("{}"))); err != nil {
		t.Fatal(err)
	}
	if n := <-heard; n != (ledger.Notice{Kind: ledger.NoticeMoved, ID: w.Insert.ID}) {
		t.Errorf("of a settling: %+v", n)
	}
	job := newIntent(l, "job")
	job.Insert.JobID, job.Status.State, job.Status.LeaseOwner = "job-1", ledger.Created, ""
	if err := commit(l, job); err != nil {
		t.Fatal(err)
	}
	if n := <-heard; n.Kind != ledger.NoticeReady {
		t.Errorf("of a job that waits: %+v", n)
	}
	if _, err := l.read.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()`); err != nil {
		t.Fatal(err)
	}
	if n := <-heard; n.Kind != ledger.NoticeAll {
		t.Errorf("of a connection that was lost: %+v", n)
	}
	if n := <-mine; n.Kind != ledger.NoticeAll {
		t.Errorf("its own notice came back: %+v", n)
	}
}

// TestNoticesOfACrowd: many are told in few words, and more than can be told as "look".
func TestNoticesOfACrowd(t *testing.T) {
	n := newNotices(&Ledger{schema: "holdfast"})
	crowd := func(many int) (words int, all bool) {
		items := make([]*item, many)
		for i := range items {
			items[i] = &item{w: &ledger.Write{Settle: true, Status: ledger.Status{State: ledger.Settled}}, id: uuid{0: byte(i), 1: byte(i >> 8)}}
		}
		n.tell(items)
		ids := map[string]bool{}
		hearer := newNotices(&Ledger{schema: "holdfast"})
		hearer.origin = "another0"
		hearer.heard[0] = func(n ledger.Notice) {
			all = all || n.Kind == ledger.NoticeAll
			ids[n.ID] = true
		}
		for _, p := range n.payloads() {
			if words++; len(p) > 7999 {
				t.Errorf("a payload of %d bytes", len(p))
			}
			hearer.receive(p)
		}
		if !all && len(ids) != many {
			t.Errorf("%d of %d were told", len(ids), many)
		}
		return words, all
	}
	if words, all := crowd(1000); words != 3 || all {
		t.Errorf("a thousand: %d payloads, all %t", words, all)
	}
	if words, all := crowd(100_000); words != 1 || !all {
		t.Errorf("a hundred thousand: %d payloads, all %t", words, all)
	}
}
