package mcp

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestBodiesCountAsMemory has no room for a large call: it is refused before anything of it happens, and a small one still passes.
func TestBodiesCountAsMemory(t *testing.T) {
	r := newRig(t, "stdio")
	held := &budget{max: 4 << 10}
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
	r.until("no body that counts", func() bool { return held.used.Load() == 0 })
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
