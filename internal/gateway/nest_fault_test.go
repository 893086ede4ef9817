package gateway_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/route"
	"github.com/holdfast-ai/holdfast/ledger"
)

// BR-041: concurrency is a gauge: the provider never sees more calls at once than there are slots, however often callers
// push and however long answers take.
func TestBR041ConcurrencyIsAGauge(t *testing.T) {
	r := nestRig(t)
	r.always("gauge", `{"work_ms":15}`)
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			for range 12 {
				if a := r.do(chat("gauge").workflow("report")); a.status != 200 && a.code() != "bulkhead_full" {
					t.Errorf("%d %s", a.status, a.body)
				}
			}
		})
	}
	all.Wait()
	if n := r.sim.Counts("gauge").MaxInFlight; n > 3 {
		t.Errorf("%d calls at once on 3 slots", n)
	}
	r.atRest()
}

// BR-060: whatever kind of connection fails is the provider's failure; the client sees neither a Go error nor a host name.
func TestBR060TransportFailuresCount(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := closed.Addr().String()
	_ = closed.Close()
	eof, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer eof.Close()
	hole, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	go func() {
		for {
			c, err := eof.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	for name, base := range map[string]string{
		"refused": "http://" + refused + "/v1", "dns": "http://provider.invalid/v1", "tls": secure.URL + "/v1",
		"eof": "http://" + eof.Addr().String() + "/v1", "blackhole": "http://" + hole.Addr().String() + "/v1",
	} {
		t.Run(name, func(t *testing.T) {
			yaml := strings.Replace(nested, `"SIM/v1"`, `"`+base+`"`, 1)
			yaml = strings.Replace(yaml, "default: {retry: {", "default: {timeouts: {first_token: 100ms, attempt: 100ms, total: 5s, request: 6s}, retry: {max_attempts: 1, ", 1)
			r := newRig(t, func(c *rigConfig) { c.yaml = yaml })
			a := r.do(chat("down"))
			if a.status != 502 && a.status != 504 {
				t.Errorf("%d %s", a.status, a.body)
			}
			for _, secret := range []string{"127.0.0.1", "provider.invalid", "dial", "lookup", "x509"} {
				if strings.Contains(string(a.body), secret) {
					t.Errorf("the client sees %q: %s", secret, a.body)
				}
			}
			if l := r.routes.List(); len(l) != 1 || l[0].Breaker.Failures != 1 {
				t.Errorf("%+v", l)
			}
		})
	}
}

// A fault that an operator injects into a route reaches the calls on it, as the provider's own would.
func TestInjectedFaults(t *testing.T) {
	r := nestRig(t)
	until := time.Now().Add(time.Hour)
	inject := func(f route.Fault) {
		t.Helper()
		f.Until, f.Probability = until, 1
		if _, err := r.routes.Inject("openai/*", f); err != nil {
			t.Fatal(err)
		}
	}
	heal := func() {
		t.Helper()
		if _, err := r.routes.Heal("openai/*"); err != nil {
			t.Fatal(err)
		}
	}
	inject(route.Fault{Status: 503})
	a := r.must(chat("status"), 503)
	if a.header.Get("Holdfast-Attempts") != "3" || !strings.Contains(string(a.body), "injected") {
		t.Errorf("%v %s", a.header, a.body)
	}
	r.calls("status", 0)
	heal()
	inject(route.Fault{Cut: 20})
	r.must(chat("cut"), 502)
	r.calls("cut", 3)
	heal()
	inject(route.Fault{Latency: 50 * time.Millisecond})
	r.must(chat("late"), 200)
	if rec := r.routes.List(); len(rec) != 1 || rec[0].Fault == nil || rec[0].Fault.Hits == 0 {
		t.Errorf("%+v", rec)
	}
	heal()
	r.must(chat("healed"), 200)
	r.atRest()
}

// After a trip by hand nothing is sent until it is reset; what is on its way goes on.
func TestTripAndReset(t *testing.T) {
	r := nestRig(t)
	r.script("long", `{"hold":"long"}`)
	var all sync.WaitGroup
	all.Go(func() { r.must(chat("long"), 200) })
	if err := r.sim.WaitHeld(t.Context(), "long", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := r.routes.Trip("openai/gpt-5/*", "incident 7"); err != nil {
		t.Fatal(err)
	}
	a := r.must(chat("tripped").key("t"), 503)
	if a.code() != "circuit_open" || !strings.Contains(string(a.body), "incident 7") {
		t.Errorf("%v %s", a.header, a.body)
	}
	r.sim.Release("long")
	all.Wait()
	r.must(chat("tripped").key("t"), 503)
	if _, err := r.routes.Reset(t.Context(), "openai/*"); err != nil {
		t.Fatal(err)
	}
	r.must(chat("tripped").key("t"), 200)
	for _, info := range r.routes.List() {
		if info.Breaker.State != breaker.Closed {
			t.Errorf("%+v", info)
		}
	}
	if rows, err := r.store.List(t.Context(), ledger.Filter{}); err != nil || len(rows) != 2 {
		t.Errorf("%d rows %v: a refusal writes none", len(rows), fmt.Sprint(err))
	}
}

// A read whose next try is not let through gets the provider's own words, and counts as the failure that it is.
func TestReadThatMayNotRetry(t *testing.T) {
	r := nestRig(t)
	count := func(op string) request {
		return request{path: "/v1/messages/count_tokens", body: `{"model":"claude-haiku-4-5","messages":[{"role":"user","content":"op=` + op + `"}]}`}.
			with("Anthropic-Version", "2023-06-01").workflow("fragile")
	}
	r.always("fails", "503")
	for range 4 {
		r.must(count("fails"), 503)
	}
	r.always("waits", `{"status":503,"headers":{"Retry-After":"1"}}`)
	answer := make(chan *answered, 1)
	go func() { answer <- r.do(count("waits")) }()
	wait(t, func() bool { return r.sim.Counts("waits").Calls == 1 })
	if _, err := r.routes.Pause("anthropic/*", "maintenance"); err != nil {
		t.Fatal(err)
	}
	if a := <-answer; a.err != nil || a.status != 503 || a.code() != "" || len(a.body) == 0 {
		t.Errorf("%d %v %q %v", a.status, a.header, a.body, a.err)
	}
	r.calls("waits", 1)
	if _, err := r.routes.Resume("anthropic/*"); err != nil {
		t.Fatal(err)
	}
	if a := r.do(count("fifth")); a.code() != "circuit_open" {
		t.Errorf("%d %v", a.status, a.header)
	}
	r.atRest()
}

// A client that leaves while its first attempt is put on record, behind a wait, says nothing of the provider: neither
// does it end a row of failures.
func TestLeavingInTheLineIsNoSuccess(t *testing.T) {
	r, f := newFaultyRig(t)
	fail := func(n int) {
		op := fmt.Sprint("fails", n)
		r.script(op, "500")
		r.must(chat(op), 500)
	}
	for n := range 9 { // breaker.failure_threshold is 10
		fail(n)
	}
	r.script("limited", `{"status":429,"headers":{"Retry-After":"1"}}`)
	r.must(chat("limited"), 429)
	q := chat("leaves")
	ctx, leave := context.WithCancel(t.Context())
	q.ctx = ctx
	gone := make(chan struct{})
	go func() { r.do(q); close(gone) }()
	wait(t, func() bool {
		rows, err := r.store.List(t.Context(), ledger.Filter{States: []ledger.State{ledger.Created}})
		return err == nil && len(rows) == 1
	})
	hold, held := make(chan struct{}), make(chan struct{}, 64)
	f.set(func(f *faulty) { f.hold, f.held = hold, held })
	<-held // the attempt, on its way to the disk
	leave()
	<-gone
	wait(t, func() bool { return gateway.Clients(r.gw) == 0 })
	f.set(func(f *faulty) { f.hold = nil })
	close(hold)
	r.atRest()
	r.calls("leaves", 0)
	fail(10)
	if a := r.do(chat("after")); a.code() != "circuit_open" {
		t.Errorf("%d %v", a.status, a.header)
	}
}

// The status and the headers of an error decide, whatever becomes of its words: they may be cut, or never come.
func TestErrorWithoutItsWords(t *testing.T) {
	for name, step := range map[string]string{
		"cut":   `{"raw":"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nRetry-After: 3600\r\nContent-Length: 500\r\n\r\n{\"error\":{\"mess"}`,
		"stall": `{"status":429,"headers":{"Retry-After":"3600"},"cut":{"at":"head","how":"stall"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := nestRig(t)
			r.script("words", step)
			a := r.must(chat("words").workflow("act").key("w"), 429)
			if a.header.Get("Retry-After") != "3600" || !strings.Contains(string(a.body), `"error"`) {
				t.Errorf("%v %s", a.header, a.body)
			}
			if rec := r.settled(a.header.Get("Holdfast-Intent")); rec.Outcome != ledger.OutcomeFailed || rec.BilledMaybe != 0 {
				t.Errorf("%+v", rec.Status)
			}
			r.calls("words", 1)
			if b := r.must(chat("sibling"), 429); b.code() != "rate_limited" {
				t.Errorf("%v", b.header)
			}
		})
	}
}

// A wait that stands in the provider's words alone reaches the client as a header.
func TestWaitInWordsBecomesAHeader(t *testing.T) {
	r := nestRig(t)
	body := `{"error":{"message":"Rate limit reached. Please try again in 1m0s.","type":"tokens","code":"rate_limit_exceeded"}}`
	r.script("words", `{"status":429,"body":`+strconv.Quote(body)+`}`)
	if a := r.must(chat("words"), 429); a.header.Get("Retry-After") != "60" || !strings.Contains(string(a.body), "1m0s") {
		t.Errorf("%v %s", a.header, a.body)
	}
}

// Behind a brief cool-down a slow answer holds up nobody: what is not refused at once was accepted.
func TestSlowAnswersAfterACooldown(t *testing.T) {
	t.Parallel()
	r := nestRig(t)
	r.script("slow-0", `{"status":429,"headers":{"Retry-After":"1"}}`)
	var all sync.WaitGroup
	for i := range 6 {
		op := fmt.Sprint("slow-", i)
		r.script(op, `{"hold":"slow"}`)
		all.Go(func() { r.must(chat(op), 200) })
	}
	if err := r.sim.WaitHeld(t.Context(), "slow", 6); err != nil { // all at once, though none has been answered
		t.Fatal(err)
	}
	r.sim.Release("slow")
	all.Wait()
	r.atRest()
}

// What an attempt came to is on record before the wait behind it, and an operator's word ends the wait.
func TestOrdersEndAWait(t *testing.T) {
	r := nestRig(t)
	r.script("waits", `{"status":503,"headers":{"Retry-After":"6"}}`)
	done := make(chan *answered, 1)
	go func() { done <- r.do(chat("waits").key("w")) }()
	wait(t, func() bool {
		waiting, _ := r.store.List(t.Context(), ledger.Filter{States: []ledger.State{ledger.Created}})
		return len(waiting) == 1 && waiting[0].Attempt == 1
	})
	if _, err := r.routes.Trip("openai/*", "incident 8"); err != nil {
		t.Fatal(err)
	}
	if a := <-done; a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %v", a.status, a.header)
	}
	a := r.must(chat("next"), 503)
	if a.code() != "circuit_open" || a.header.Get("X-Should-Retry") != "false" || a.header.Get("Retry-After") != "" || !strings.Contains(string(a.body), "operator") {
		t.Errorf("%v %s", a.header, a.body)
	}
	r.calls("waits", 1)
}
