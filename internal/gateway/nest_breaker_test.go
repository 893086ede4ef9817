package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/sim"
)

// BR-031: clients that leave say nothing of the provider; nothing is begun for them.
func TestBR031CancelsDoNotCount(t *testing.T) {
	r := nestRig(t)
	var all sync.WaitGroup
	for i := range 20 {
		op := fmt.Sprintf("leave-%d", i)
		r.script(op, `{"first_ms":60000}`)
		all.Go(func() {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			go func() { _ = r.sim.Wait(ctx, op, func(c sim.Counts) bool { return c.InFlight > 0 }); leave() }()
			q := streamed(op).workflow("cancel")
			q.ctx = ctx
			if resp, err := r.open(q); err == nil {
				_ = resp.Body.Close()
			}
		})
	}
	all.Wait()
	r.atRest()
	for i := range 20 {
		r.calls(fmt.Sprintf("leave-%d", i), 1)
	}
	for _, info := range r.routes.List() {
		if info.Breaker.State != breaker.Closed || info.Breaker.Failures != 0 {
			t.Errorf("%s: %+v", info.Route, info.Breaker)
		}
	}
	r.must(chat("normal").workflow("cancel"), 200)
}

// BR-033: a caller's tiny deadline is its own.
func TestBR033TinyDeadlinesDoNotCount(t *testing.T) {
	r := nestRig(t)
	r.always("tiny", `{"delay_ms":1000}`)
	for range 12 {
		if a := r.do(chat("tiny").workflow("fragile").with("Holdfast-Deadline-Ms", "50")); a.status != 504 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	r.must(chat("normal").workflow("fragile"), 200)
}

// An outage: before the breaker opens at most threshold × max_attempts calls, after it none; the routes of other models
// go on.
func TestBreakerOpens(t *testing.T) {
	r := nestRig(t)
	r.always("down", "503")
	codes := map[string]int{}
	for range 30 {
		a := r.do(chat("down").workflow("fragile"))
		codes[a.code()]++
		if a.code() == "circuit_open" && (a.status != 503 || a.header.Get("Retry-After") == "" || a.header.Get("X-Should-Retry") != "false") {
			t.Errorf("%d %v", a.status, a.header)
		}
	}
	calls := r.sim.Counts("down").Calls
	if codes["circuit_open"] != 25 || calls > 15 || calls < 5 {
		t.Errorf("%d calls, answers %v", calls, codes)
	}
	other := chat("other").workflow("fragile")
	other.body = strings.Replace(other.body, "gpt-5", "gpt-5-mini", 1)
	r.must(other, 200)
}

// BR-035: one probe when half-open, whatever waits for it.
func TestBR035OneProbe(t *testing.T) {
	r := nestRig(t)
	r.script("probe", "503", "503", "503", "503", "503", `{"hold":"probe","hold_at":"request"}`)
	for range 5 {
		r.do(chat("probe").workflow("probed"))
	}
	if a := r.do(chat("probe").workflow("probed")); a.code() != "circuit_open" {
		t.Fatalf("%d %v", a.status, a.header)
	}
	wait(t, func() bool { // the reset time passes, and the first caller behind it is the probe
		go r.do(chat("probe").workflow("probed"))
		return r.sim.Counts("probe").InFlight == 1
	})
	before := r.sim.Counts("probe").Calls
	var open atomic.Int64
	var all sync.WaitGroup
	callers, turns := 100, 20 // within the probe's lease, on a slow machine too; the breaker's own test has 10,000
	if raceDetector {
		turns = 5
	}
	for range callers {
		all.Go(func() {
			for range turns {
				w := &discard{header: http.Header{}}
				q := chat("probe")
				req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://localhost"+q.path, strings.NewReader(q.body))
				req.Header = http.Header{"Content-Type": {"application/json"}, "Holdfast-Workflow": {"probed"}}
				r.gw.ServeHTTP(w, req)
				if w.header.Get("Holdfast-Error") == "circuit_open" {
					open.Add(1)
				}
			}
		})
	}
	all.Wait()
	if calls := r.sim.Counts("probe").Calls - before; calls > 1 || open.Load() < int64(callers*turns-1) {
		t.Errorf("%d calls beside the probe, %d refused", calls, open.Load())
	}
	r.sim.Release("probe")
	wait(t, func() bool { return r.do(chat("probe").workflow("probed")).status == 200 })
	r.atRest()
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header       { return d.header }
func (*discard) Write(p []byte) (int, error) { return len(p), nil }
func (*discard) WriteHeader(int)             {}

// An operator's pause, and a fault in a route, reach the calls.
func TestHandOperations(t *testing.T) {
	r := nestRig(t)
	r.must(chat("hand"), 200)
	if _, err := r.routes.Pause("openai/*", "maintenance"); err != nil {
		t.Fatal(err)
	}
	if a := r.must(chat("hand"), 503); a.code() != "circuit_open" || !strings.Contains(string(a.body), "maintenance") {
		t.Errorf("%v %s", a.header, a.body)
	}
	if _, err := r.routes.Resume("openai/*"); err != nil {
		t.Fatal(err)
	}
	r.must(chat("hand"), 200)
	r.calls("hand", 2)
}

// A defect of ours in the one probe of a half-open breaker gives its slots back: the next caller finds out instead.
func TestPanicGivesTheProbeBack(t *testing.T) {
	r := nestRig(t)
	broken, err := gateway.New(t.Context(), gateway.Config{Policy: r.policy, Ledger: r.store, Log: r.log, Upstream: panicky{}, Routes: r.routes})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(h http.Handler, q request) string {
		w := &discard{header: http.Header{}}
		req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://localhost"+q.path, strings.NewReader(q.body))
		req.Header = http.Header{"Content-Type": {"application/json"}, "Holdfast-Workflow": {"swift"}}
		h.ServeHTTP(w, req)
		return w.header.Get("Holdfast-Error")
	}
	r.script("down", "503", "503", "503", "503", "503")
	for range 5 {
		r.do(chat("down").workflow("swift"))
	}
	wait(t, func() bool { return ask(broken, chat("panics")) == "all_tiers_failed" }) // the probe
	if code := ask(r.gw, chat("after")); code != "" {
		t.Errorf("the next caller is told %q", code)
	}
	wait(t, func() bool { return broken.Holding() == (gateway.Holding{}) }) // its record lands behind the answer
}
