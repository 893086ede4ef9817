package mcp

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/budget"
)

// TestBodiesCountAsMemory has no room for a large call: it is refused before anything of it happens, and a small one still passes.
func TestBodiesCountAsMemory(t *testing.T) {
	r := newRig(t, "stdio")
	held := budget.New(4 << 10)
	r.proxy.memory = held
	c, b := r.stdio(), r.http("")
	big := `{"n":1,"text":"` + strings.Repeat("x", 8<<10) + `"}`
	r.says(c.call("write", big), "_meta.code", "shed", "_meta.safe_to_retry", "yes")
	if status, h, got := b.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params("write", big) + `}`); status != http.StatusServiceUnavailable || h.Get("Retry-After") == "" {
		t.Errorf("over HTTP: %d %s", status, got)
	}
	// A body that announces no length is bounded while it comes in.
	ask := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params("write", big) + `}`
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.web.URL+"/mcp/far", io.MultiReader(strings.NewReader(ask)))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set(sessionHeader, b.session)
	resp, err := r.web.Client().Do(q)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Holdfast-Error") != "shed" {
		t.Errorf("a body without a length: %d %v", resp.StatusCode, resp.Header)
	}
	r.happened(0)
	r.says(c.call("write", `{"n":1}`), "result.content.0.text", "done 1")
	r.says(b.call("2", "read", `{}`), "id", 2)
	r.happened(1)
	r.until("no body that counts", func() bool { return held.Used() == 0 })
}

// TestAnswersCountAsMemory has no room for what a server says: a write's outcome is unknown then, a read has no answer, and
// what is small still passes.
func TestAnswersCountAsMemory(t *testing.T) {
	for _, far := range []string{"stdio", "http"} {
		t.Run(far, func(t *testing.T) {
			r := newRig(t, far)
			tight := budget.New(256 << 10)
			r.proxy.memory = tight
			c, b := r.stdio(), r.http("")
			got := c.call("write", `{"n":1,"fault":"large"}`)
			r.says(got, "_meta.code", "outcome_unknown", "_meta.unknown", true)
			r.mentions(got, "limits.body_memory")
			r.mentions(c.call("read", `{"fault":"large"}`), "error", "limits.body_memory")
			r.says(c.call("write", `{"n":2}`), "result.content.0.text", "done 2")
			r.says(b.call("2", "write", `{"n":3}`), "result.content.0.text", "done 3")
			r.until("no body that counts", func() bool { return tight.Used() == 0 })

			wide := budget.New(8 << 20)
			r.proxy.memory = wide
			d := r.stdio()
			r.says(d.call("write", `{"n":4,"fault":"large"}`), "_meta.code", nil, "result.content.0.text", strings.Repeat("x", 512<<10))
			r.says(d.call("write", `{"n":4,"fault":"large"}`), "_meta.replayed", true)
			r.until("no body that counts", func() bool { return wide.Used() == 0 })
			r.happened(4)
		})
	}
}

// TestKeptEventsCountAsMemory has a client's streams kept for as long as there is room for them.
func TestKeptEventsCountAsMemory(t *testing.T) {
	mem := budget.New(1000)
	w := newWeb(mem)
	st := w.open(5)
	event := []byte(strings.Repeat("x", 400))
	for n := range 4 {
		st.answer(event)
		st.sent(int64(n)) // all but the last
	}
	if g := st.look(st.enter(), 0); mem.Used() > 1000 || len(g.events) != 2 || g.first != 3 {
		t.Errorf("%d bytes, %d events from %d", mem.Used(), len(g.events), g.first)
	}
	other := w.open(1)
	other.put(event) // nobody has had it: it is kept all the same
	if mem.Used() != 1200 {
		t.Errorf("%d bytes", mem.Used())
	}
	w.forget(st)
	if mem.Used() != 400 {
		t.Errorf("%d bytes after one was forgotten", mem.Used())
	}
	w.close()
	other.put(event)
	if mem.Used() != 0 {
		t.Errorf("%d bytes after all", mem.Used())
	}
}

// TestAttemptsAreCounted holds what telemetry is told against what happened.
func TestAttemptsAreCounted(t *testing.T) {
	r := newRig(t, "stdio")
	c := r.stdio()
	c.call("write", `{"n":1}`)
	c.call("write", `{"n":1}`)                       // a replay is no attempt
	c.call("fails", `{"n":2,"fault":"plain_error"}`) // said that it did nothing
	c.call("write", `{"n":3,"fault":"die_after"}`)   // nobody knows
	r.counts.mu.Lock()
	defer r.counts.mu.Unlock()
	ends := map[string]int{}
	for what, n := range r.counts.attempts {
		end, _, _ := strings.Cut(what, " ")
		ends[end] += n
	}
	if len(ends) != 3 || ends["success"] != 1 || ends["unknown"] != 1 {
		t.Errorf("attempts: %v", r.counts.attempts)
	}
}
