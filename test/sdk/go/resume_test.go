package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// events is how many complete events of a stream body holds, -1 when it ends inside one.
func events(c client, body []byte) int {
	if c.name == "gemini-array" {
		var parts []json.RawMessage
		if len(body) > 0 && json.Unmarshal(append(bytes.Clone(body), ']'), &parts) != nil {
			return -1
		}
		return len(parts)
	}
	body = bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n"))
	if len(body) > 0 && !bytes.HasSuffix(body, []byte("\n\n")) {
		return -1
	}
	return bytes.Count(body, []byte("\n\n"))
}

func (in call) with(name, value string) call {
	in.header = maps.Clone(in.header)
	if in.header == nil {
		in.header = map[string]string{}
	}
	in.header[name] = value
	return in
}

// resumed holds that rest is what follows the n-th event of whole.
func resumed(t *testing.T, c client, whole, rest []byte, n int) {
	t.Helper()
	if before, ok := bytes.CutSuffix(whole, rest); !ok || events(c, before) != n {
		t.Errorf("after event %d came\n%q\nof\n%q", n, rest, whole)
	}
}

func streams(base string) []client { return append(clients(base), arrayClient(base)) }

// TestResume: the bytes behind the n-th event are those of the recording, for each n.
func TestResume(t *testing.T) {
	needGateway(t)
	eachOf(t, streams(theRig.url), func(t *testing.T, c client) {
		in := call{op: theRig.op(), prompt: "go on"}.with("Idempotency-Key", theRig.op())
		_, tape, err := c.ask(t.Context(), true, in)
		if err != nil {
			t.Fatal(err)
		}
		whole := tape.last().bytes()
		if bytes.Contains(whole, []byte("id: 1\n")) {
			t.Errorf("numbers that nobody asked for: %q", whole)
		}
		all := events(c, whole)
		if c.name == "gemini-array" {
			all = events(c, bytes.TrimSuffix(bytes.TrimSpace(whole), []byte("]")))
		}
		if all < 4 {
			t.Fatalf("%d events in %q", all, whole)
		}
		for n := range all + 1 {
			// A client need not understand half a stream: the bytes count.
			_, tape, _ := c.ask(t.Context(), true, in.with("Last-Event-ID", strconv.Itoa(n)))
			if tape.last().status != http.StatusOK {
				t.Errorf("after %d: status %d", n, tape.last().status)
			}
			resumed(t, c, whole, tape.last().bytes(), n)
		}
		streamLost(t, c, in.with("Last-Event-ID", strconv.Itoa(all+1)))
		if n := theRig.counts(t, in.op); n.Calls != 1 {
			t.Errorf("%d calls upstream, want 1", n.Calls)
		}
	})
}

var numbers = regexp.MustCompile(`(?m)^id: (\d+)\n`)

// TestResumeAfterLoss: without a key, what was received before the loss and what follows after it are the answer, and
// event numbers go on; Gemini's clients, which do not survive numbers, get none.
func TestResumeAfterLoss(t *testing.T) {
	eachOf(t, needCutter(t), func(t *testing.T, c client) {
		in := call{op: theRig.op(), prompt: "from here", script: fmt.Sprintf(`{"text":%q,"event_ms":5}`, lostText)}.
			with("Holdfast-Stream-Ids", "1").with("Holdfast-Workflow", "patient")
		place{at: "mark", mark: content}.header(c, true, &in)
		_, tape, err := c.ask(t.Context(), true, in)
		if err == nil || tape.attempts() != 1 {
			t.Fatalf("not cut: %v", err)
		}
		got := tape.last().bytes()
		if c.name == "gemini-array" { // cut inside its first element
			got = nil
		}
		n := events(c, got)
		<-backOff()
		_, tape, _ = c.ask(t.Context(), true, in.with("Last-Event-ID", strconv.Itoa(n)))
		rest := tape.last().bytes()
		// A retry, which says so, gets the whole recording.
		answer, tape, err := c.ask(t.Context(), true, in.with("X-Stainless-Retry-Count", "2"))
		if err != nil || !whole(answer) {
			t.Fatalf("%+v %v", answer, err)
		}
		if want := tape.last().bytes(); n < 0 || string(got)+string(rest) != string(want) {
			t.Errorf("%d events\n%q\nand\n%q\nare not\n%q", n, got, rest, want)
		}
		for i, m := range numbers.FindAllStringSubmatch(string(got)+string(rest), -1) {
			if m[1] != strconv.Itoa(i+1) {
				t.Errorf("event %d has the number %s", i+1, m[1])
			}
		}
		if gemini := c.wire == "streamGenerateContent"; gemini == numbers.Match(rest) {
			t.Errorf("numbers where there should be none, or none: %q", rest)
		}
		if n := theRig.counts(t, in.op); n.Calls != 1 {
			t.Errorf("%d calls upstream, want 1", n.Calls)
		}
	})
}

// streamLost holds that a client is told that there is nothing to resume from.
func streamLost(t *testing.T, c client, in call) {
	t.Helper()
	before := theRig.counts(t, in.op).Calls
	_, tape, err := c.ask(t.Context(), true, in)
	body := string(tape.last().bytes())
	if err == nil || tape.attempts() != 1 || tape.last().status != http.StatusConflict || !strings.Contains(body, "stream_lost") {
		t.Fatalf("%v, %d attempts, status %d %s, want 409 stream_lost", err, tape.attempts(), tape.last().status, body)
	}
	if c.fault != nil && c.fault(err).code != "stream_lost" {
		t.Errorf("the client says %+v", c.fault(err))
	}
	if n := theRig.counts(t, in.op); n.Calls != before {
		t.Errorf("%d calls upstream, want %d", n.Calls, before)
	}
}

// TestStreamLost: where there is no recording of the same execution nothing else is given in its place.
func TestStreamLost(t *testing.T) {
	needGateway(t)
	t.Run("unknown key", func(t *testing.T) {
		eachOf(t, streams(theRig.url), func(t *testing.T, c client) {
			in := call{op: theRig.op(), prompt: "never asked"}.with("Last-Event-ID", "1")
			streamLost(t, c, in)
			streamLost(t, c, in.with("Idempotency-Key", in.op))
		})
	})
	t.Run("received", func(t *testing.T) { // a new answer would not continue it
		eachOf(t, streams(theRig.url), func(t *testing.T, c client) {
			in := call{op: theRig.op(), prompt: "had it all"}.with("Holdfast-Workflow", "brief")
			if _, _, err := c.ask(t.Context(), true, in); err != nil {
				t.Fatal(err)
			}
			for range 3 { // until its delivery is assumed
				<-backOff()
			}
			streamLost(t, c, in.with("Last-Event-ID", "1"))
		})
	})
	t.Run("too large", func(t *testing.T) {
		g := startGateway(t, t.TempDir(), "limits: {max_response_bytes: 256KiB}\n")
		eachOf(t, streams(g.url), func(t *testing.T, c client) {
			in := call{op: theRig.op(), prompt: "at length", script: `{"size":600000,"chunks":40}`}.with("Idempotency-Key", theRig.op())
			got, tape, err := c.ask(t.Context(), true, in)
			if err != nil || len(got.text) != 600000 {
				t.Fatalf("%d bytes of text, %v, %v", len(got.text), err, tape.last().header)
			}
			streamLost(t, c, in.with("Last-Event-ID", "2"))
		})
	})
	t.Run("restart", restarted)
}

// restarted: a gateway that is killed in the middle of a stream has lost it, and says so.
func restarted(t *testing.T) {
	dir := t.TempDir()
	g := startGateway(t, dir, "")
	list := streams(g.url)
	calls := make([]call, len(list))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for i, c := range list {
		in := call{op: theRig.op(), prompt: "interrupted"}
		in.script = fmt.Sprintf(`{"hold":%q,"hold_at":"event","hold_n":%d}`, in.op, c.lead+2)
		calls[i] = in.with("Idempotency-Key", in.op)
		go c.ask(ctx, true, calls[i])
		theRig.waitHeld(t, in.op)
	}
	g.kill()
	g = startGateway(t, dir, "")
	for i, c := range streams(g.url) {
		streamLost(t, c, calls[i].with("Last-Event-ID", "1"))
		theRig.release(t, calls[i].op)
	}
}

// TestResumeWithCurl does the same as TestResume with nobody's client.
func TestResumeWithCurl(t *testing.T) {
	needGateway(t)
	asks := map[string]struct{ path, body string }{
		"openai-chat":        {"/v1/chat/completions", `{"model":"gpt-5-mini","stream":true,"messages":[{"role":"user","content":%q}]}`},
		"openai-responses":   {"/v1/responses", `{"model":"gpt-5-mini","stream":true,"input":%q}`},
		"anthropic-messages": {"/v1/messages", `{"model":"claude-haiku-4-5","max_tokens":99,"stream":true,"messages":[{"role":"user","content":%q}]}`},
		"genai":              {"/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", `{"contents":[{"parts":[{"text":%q}]}]}`},
		"gemini-array":       {"/v1beta/models/gemini-2.5-flash:streamGenerateContent", `{"contents":[{"parts":[{"text":%q}]}]}`},
	}
	eachOf(t, streams(theRig.url), func(t *testing.T, c client) {
		op := theRig.op()
		curl := func(headers ...string) []byte {
			args := []string{"-sS", "-N", "--fail", "--max-time", "30", theRig.url + asks[c.name].path, "-d", fmt.Sprintf(asks[c.name].body, op)}
			headers = append(headers, "Content-Type: application/json", "Authorization: Bearer k", "Sim-Op: "+op, "Idempotency-Key: "+op)
			if c.wire == "messages" {
				headers = append(headers, "anthropic-version: 2023-06-01")
			}
			for _, h := range headers {
				args = append(args, "-H", h)
			}
			out, err := exec.CommandContext(t.Context(), "curl", args...).Output()
			if err != nil {
				t.Fatalf("curl: %v: %s", err, out)
			}
			return out
		}
		whole := curl()
		numbered := curl("Holdfast-Stream-Ids: 1")
		if c.wire == "streamGenerateContent" && !bytes.Equal(numbered, whole) || !bytes.Equal(numbers.ReplaceAll(numbered, nil), whole) {
			t.Errorf("numbered\n%q\nof\n%q", numbered, whole)
		}
		for _, n := range []int{1, 3} {
			resumed(t, c, whole, curl(fmt.Sprintf("Last-Event-ID: %d", n)), n)
			resumed(t, c, numbered, curl("Holdfast-Stream-Ids: 1", fmt.Sprintf("Last-Event-ID: %d", n)), n)
		}
		if n := theRig.counts(t, op); n.Calls != 1 {
			t.Errorf("%d calls upstream, want 1", n.Calls)
		}
	})
}
