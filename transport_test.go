package holdfast

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/sim"
	"github.com/holdfast-ai/holdfast/ledger"
)

// sdk is a client whose base URL is the provider's own, with the engine's transport in it.
type sdk struct {
	*shop
	sim  *sim.Server
	base string
	http *http.Client
}

func openSDK(t *testing.T) *sdk {
	t.Helper()
	far := sim.New(sim.Config{})
	if err := far.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		if err := far.Close(); err != nil {
			t.Error(err)
		}
	})
	s := open(t, fmt.Sprintf(`providers:
  openai: {type: openai, base_url: "%[1]s/v1"}
  claude: {type: anthropic, base_url: "%[1]s"}`, far.URL()))
	return &sdk{shop: s, sim: far, base: far.URL() + "/v1", http: &http.Client{Transport: s.Transport(nil)}}
}

func (c *sdk) ask(ctx context.Context, op, key string, stream bool) (*http.Response, error) {
	body := fmt.Sprintf(`{"model":"gpt-5","stream":%t,"messages":[{"role":"user","content":"hello op=%s"}]}`, stream, op)
	req, err := http.NewRequestWithContext(ctx, "POST", c.base+"/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer sk-client")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	return c.http.Do(req)
}

func (c *sdk) whole(op, key string, stream bool) (*http.Response, []byte) {
	c.t.Helper()
	resp, err := c.ask(c.t.Context(), op, key, stream)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp, b
}

func (c *sdk) script(op, step string) {
	c.t.Helper()
	var st sim.Step
	if err := json.Unmarshal([]byte(step), &st); err != nil {
		c.t.Fatal(err)
	}
	if err := c.sim.AddRules(sim.Rule{Match: sim.Match{Op: op}, Steps: []sim.Step{st}}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *sdk) calls(op string, want int) {
	c.t.Helper()
	if got := int(c.sim.Counts(op).Calls); got != want {
		c.t.Errorf("op %s: %d calls, want %d", op, got, want)
	}
}

func TestTransportReplays(t *testing.T) {
	c := openSDK(t)
	for _, stream := range []bool{false, true} {
		op := fmt.Sprintf("replay%t", stream)
		first, a := c.whole(op, op, stream)
		second, b := c.whole(op, op, stream)
		if first.StatusCode != 200 || !bytes.Equal(a, b) || second.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: %d %s\nthen %d %s", op, first.StatusCode, a, second.StatusCode, b)
		}
		if id := first.Header.Get("Holdfast-Intent"); id == "" || second.Header.Get("Holdfast-Intent") != id {
			t.Errorf("%s: intents %q, %q", op, id, second.Header.Get("Holdfast-Intent"))
		}
		if !stream && first.ContentLength != int64(len(a)) {
			t.Errorf("%s: Content-Length %d of %d", op, first.ContentLength, len(a))
		}
		if _, declared := first.Trailer["Holdfast-Stored"]; declared {
			t.Errorf("%s: a trailer that was not sent: %v", op, first.Trailer)
		}
		c.calls(op, 1)
	}
}

// TestTransportStreams: each event can be read while the provider still holds the next one back.
func TestTransportStreams(t *testing.T) {
	c := openSDK(t)
	c.script("slow", `{"hold":"slow","hold_at":"event","hold_n":3}`)
	defer c.sim.Release("slow")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, err := c.ask(ctx, "slow", "", true)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	events := 0
	for events < 2 && lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: ") {
			events++
		}
	}
	if events != 2 || resp.ContentLength != -1 {
		t.Fatalf("%d events while the stream stands still, %v", events, lines.Err())
	}
	cancel()
	if _, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("after the cancel: %v", err)
	}
}

// TestTransportClientHangsUpAtDone: what was taken has arrived, though its client, as openai-go does, leaves the end unread.
func TestTransportClientHangsUpAtDone(t *testing.T) {
	c := openSDK(t)
	const asks = 20
	for range asks {
		req, err := http.NewRequestWithContext(t.Context(), "POST", c.base+"/chat/completions",
			strings.NewReader(`{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"hello op=hangs-up"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Holdfast-Workflow", "asked")
		resp, err := c.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() && lines.Text() != "data: [DONE]" {
		}
		if _ = lines.Scan(); lines.Err() != nil || resp.Header.Get("Idempotency-Replayed") != "" { // the blank line
			t.Errorf("%v, %v", lines.Err(), resp.Header)
		}
		_ = resp.Body.Close()
	}
	c.calls("hangs-up", asks)
}

// TestTransportClientLeaves: cancelled before the head, in the middle, or closed early: the provider's answer is
// finished and kept, and the same key gets it.
func TestTransportClientLeaves(t *testing.T) {
	c := openSDK(t)
	for name, leave := range map[string]func(context.CancelFunc, *http.Response){
		"close":  func(_ context.CancelFunc, r *http.Response) { _ = r.Body.Close() },
		"cancel": func(cancel context.CancelFunc, _ *http.Response) { cancel() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := c.ask(ctx, name, name, true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		leave(cancel, resp)
		if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: the body still reads", name)
		}
		if again, b := c.whole(name, name, true); again.StatusCode != 200 || !bytes.Contains(b, []byte("[DONE]")) {
			t.Errorf("%s: the same key got %d %s", name, again.StatusCode, b)
		}
		_ = resp.Body.Close()
		cancel()
		c.calls(name, 1)
	}
	c.script("held", `{"hold":"held"}`)
	defer c.sim.Release("held")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		if err := c.sim.WaitHeld(t.Context(), "held", 1); err != nil {
			t.Error(err)
		}
	}()
	if _, err := c.ask(ctx, "held", "held", false); !errors.Is(err, context.Canceled) {
		t.Errorf("before the head: %v", err)
	}
}

// TestTransportCut: a stream that broke off ends in an error that SDKs raise, or in one of reading.
func TestTransportCut(t *testing.T) {
	c := openSDK(t)
	c.script("cut", `{"cut":{"at":"event","n":3,"how":"reset"}}`)
	_, b := c.whole("cut", "cut", true)
	if !bytes.Contains(b, []byte("upstream_incomplete")) {
		t.Errorf("a cut stream: %s", b)
	}
}

func TestTransportErrors(t *testing.T) {
	c := openSDK(t)
	resp, _ := c.whole("bad", "two words", false)
	var e *Error
	err := FromHeader(resp.Header)
	if resp.StatusCode != 400 || !errors.Is(err, ErrInvalidKey) || !errors.As(err, &e) || e.SafeToRetry != Unsafe {
		t.Errorf("%d %v", resp.StatusCode, err)
	}
	c.whole("one", "k", false)
	if resp, _ := c.whole("other", "k", false); !errors.Is(FromHeader(resp.Header), ErrKeyReused) {
		t.Errorf("%d %v", resp.StatusCode, FromHeader(resp.Header))
	}
	if resp, _ := c.whole("fine", "", false); FromHeader(resp.Header) != nil {
		t.Error("an answer is no error")
	}
	h := http.Header{"Holdfast-Error": {"shed"}, "Holdfast-Safe-To-Retry": {"perhaps"}, "Retry-After-Ms": {"99999999999999999"}}
	if !errors.As(FromHeader(h), &e) || e.SafeToRetry != AfterReconcile || e.RetryAfter != 0 {
		t.Errorf("hostile headers: %+v", e)
	}
	var idle Engine
	idle.policy.Store(c.Engine.config())
	if _, err := (&http.Client{Transport: idle.Transport(nil)}).Get(c.base + "/models"); !errors.Is(err, ErrDraining) {
		t.Errorf("an engine that was not started: %v", err)
	}
}

// TestTransportOtherHosts: what is no provider's goes its own way, untouched and unlogged.
func TestTransportOtherHosts(t *testing.T) {
	c := openSDK(t)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Authorization")+" "+r.URL.Path)
	}))
	defer other.Close()
	req, _ := http.NewRequestWithContext(t.Context(), "POST", other.URL+"/v1/chat/completions", strings.NewReader("{}"))
	req.Header.Set("Authorization", "mine")
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if string(b) != "mine /v1/chat/completions" {
		t.Errorf("%s", b)
	}
	rows, err := c.ledger.List(t.Context(), ledger.Filter{})
	if err != nil || len(rows) != 0 {
		t.Errorf("%d intents %v", len(rows), err)
	}
	c.http.CloseIdleConnections()
}

func TestTransportWays(t *testing.T) {
	e, err := New(Config{File: "", Embedded: true, Getenv: func(string) (string, bool) { return "", false },
		Upstreams: []string{"anthropic=https://proxy.example/a/claude"}})
	if err != nil {
		t.Fatal(err)
	}
	tr := e.Transport(nil).(*transport)
	for url, want := range map[string]string{
		"https://api.openai.com/v1/chat/completions":                                         "/openai/v1/chat/completions",
		"https://API.openai.com:443/v1/responses?x=1":                                        "/openai/v1/responses",
		"http://api.openai.com/v1/responses":                                                 "",
		"https://api.openai.com/v1beta":                                                      "",
		"https://api.openai.com/dashboard":                                                   "",
		"https://proxy.example/a/claude/v1/messages":                                         "/anthropic/v1/messages",
		"https://proxy.example/a/claudette/v1/messages":                                      "",
		"https://generativelanguage.googleapis.com/v1beta/models/a%2Fb:generateContent":      "/gemini/v1beta/models/a%2Fb:generateContent",
		"https://generativelanguage.googleapis.com.example.org/v1beta/models/x:embedContent": "",
	} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := tr.way(r); got != want {
			t.Errorf("%s goes to %q, want %q", url, got, want)
		}
	}
	r, _ := http.NewRequestWithContext(t.Context(), "GET", "https://api.openai.com/v1/realtime", nil)
	r.Header.Set("Upgrade", "websocket")
	if got := tr.way(r); got != "" {
		t.Errorf("a WebSocket goes to %q", got)
	}
}
