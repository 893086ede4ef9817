package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
)

// A call whose own time is over is answered by meaning as any other one: the embedder's time is its own.
func TestLastResortBehindADeadline(t *testing.T) {
	r := cacheRig(t)
	for _, workflow := range []string{"near", "last"} { // the built-in embedder, and one that is asked
		q := question(workflow, "Which sizes are there?").vary(`"temperature":0,`, ``)
		r.cachedFor(q)
		r.fails("chat.completions", `{"hold":"gate"}`)
		r.canned(r.must(q.with("Holdfast-Deadline-Ms", "500").with("Holdfast-Retry", "no"), 200), "cache:semantic", "deadline_exceeded")
		r.sim.Release("gate")
		r.sim.Reset()
	}
}

// idleReader is a client that takes the head of its answer, and nothing more until it is told.
type idleReader struct {
	*httptest.ResponseRecorder
	begun, reads chan struct{}
	once         sync.Once
}

func (s *idleReader) Write(b []byte) (int, error) {
	s.once.Do(func() { close(s.begun) })
	<-s.reads
	return s.ResponseRecorder.Write(b)
}

func (s *idleReader) Unwrap() http.ResponseWriter { return s.ResponseRecorder }

// Who reads its earlier answer slowly holds no place meanwhile, and nobody who asks with the same key.
func TestCacheFirstWaitsForNoReader(t *testing.T) {
	r := cacheRig(t)
	r.cachedFor(question("first", "is it there?"))
	q := question("first", "is it there?").key("k")
	slow := &idleReader{ResponseRecorder: httptest.NewRecorder(), begun: make(chan struct{}), reads: make(chan struct{})}
	req := httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+q.path, strings.NewReader(q.body))
	for name, value := range q.header {
		req.Header.Set(name, value)
	}
	var all sync.WaitGroup
	all.Go(func() { r.gw.ServeHTTP(slow, req) })
	<-slow.begun
	if working, _, executions := r.gw.Held(); working != 0 || executions != 0 {
		t.Errorf("%d places and %d executions are held", working, executions)
	} else {
		r.source(r.must(q, 200), "cache:semantic")
	}
	close(slow.reads)
	all.Wait()
	if slow.Code != 200 || slow.Header().Get("Holdfast-Source") != "cache:semantic" || slow.Body.Len() == 0 {
		t.Errorf("%d %v %s", slow.Code, slow.Header(), slow.Body)
	}
}

// listless is a ledger that does not say what it lists of answers to others.
type listless struct {
	faulty
	fails error
}

func (l *listless) Cached(ctx context.Context, f ledger.CachedFilter) ([]ledger.Cached, error) {
	l.mu.Lock()
	fails := l.fails
	l.mu.Unlock()
	if fails != nil && f.Intent != "" {
		return nil, fails
	}
	return l.Ledger.Cached(ctx, f)
}

// An answer that the store does not tell of is not gone: its place stays, and the miss says whose fault it is.
func TestCacheBehindAStoreThatIsAway(t *testing.T) {
	store, o := &listless{}, &cacheTold{}
	r := newRig(t, func(c *rigConfig) {
		withCache(c)
		c.observer = o
		c.wrap = func(l ledger.Ledger) ledger.Ledger { store.Ledger = l; return store }
	})
	q := question("first", "is it there?")
	r.cachedFor(q)
	set := func(err error) { store.set(func(*faulty) { store.fails = err }) }
	set(errDisk)
	asked := r.must(q, 200)
	r.source(asked, "openai")
	if o.of("miss semantic store_away") != 1 || o.of("miss semantic answer_gone") != 0 {
		t.Errorf("%v", o.said)
	}
	set(nil)
	r.findable(asked)
	r.source(r.must(q, 200), "cache:semantic")
}

// Where an answer is not to be had, no way to it stays on record, or a start would find it again.
func TestCacheOfAnAnswerThatIsGone(t *testing.T) {
	r := cacheRig(t)
	q := question("keyless", "Why buy the lamp?")
	id := r.must(q, 200).header.Get("Holdfast-Intent")
	wait(t, func() bool { return len(r.indexed(ledger.CachedFilter{Intent: id})) == 2 })
	if err := r.store.Uncache(context.Background(), []ledger.CachedRef{{Intent: id, Kind: ledger.CachedTemplate}}); err != nil {
		t.Fatal(err)
	}
	r.source(r.must(q, 200), "openai")
	wait(t, func() bool { return len(r.indexed(ledger.CachedFilter{Intent: id})) == 0 })
}
