package mcp

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// memory is the bound of a proxy that shares none.
func (r *rig) memory() *ownMemory { return r.proxy.memory.(*ownMemory) }

// Bodies on their way count against limits.body_memory: who would go beyond it is shed before anything is sent, and what was
// counted is given back on every way out.
func TestBodiesCountAgainstTheBound(t *testing.T) {
	for _, far := range []string{"stdio", "http"} {
		t.Run(far, func(t *testing.T) {
			r := newRig(t, far)
			c, b := r.stdio(), r.http("")
			large := `{"n":1,"pad":"` + strings.Repeat("x", 64<<10) + `"}`
			r.memory().most = 32 << 10
			r.says(c.call("write", large), "_meta.code", "shed", "_meta.safe_to_retry", "yes")
			if status, h, body := b.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+params("write", large)+`}`, sessionHeader, b.session); status != http.StatusServiceUnavailable || h.Get("Holdfast-Error") != "shed" {
				t.Errorf("%d %v %.200s", status, h, body)
			}
			r.happened(0)
			r.memory().most = 1 << 20
			r.says(c.call("write", large), "result.content.0.text", "done 1")
			b.call("1", "read", large)
			b.call("1", "fails", `{"n":2,"fault":"plain_error"}`)
			c.call("quick", `{"n":3,"fault":"lost_before"}`)
			r.happened(1)
			counted := r.memory()
			r.end() // what was given up may still be answered; that ends with the session
			r.start()
			if held := counted.used.Load(); held != 0 {
				t.Errorf("%d bytes are still counted", held)
			}
		})
	}
}

// Every attempt is told to the observer once, with its end.
func TestAttemptsAreCounted(t *testing.T) {
	r := newRig(t, "stdio")
	c := r.stdio()
	c.call("write", `{"n":1}`)
	c.call("write", `{"n":1}`) // a replay is none
	c.call("fails", `{"n":2,"fault":"plain_error"}`)
	c.call("quick", `{"n":3,"fault":"lost_before"}`)
	c.call("watched", `{"n":4}`)
	c.call("read", `{}`)
	r.end()
	r.start()
	r.counts.mu.Lock()
	defer r.counts.mu.Unlock()
	if want := []string{"success", "failed failed_by_policy", "unknown timeout", "success"}; !slices.Equal(r.counts.ends, want) {
		t.Errorf("attempts ended %q, want %q", r.counts.ends, want)
	}
}
