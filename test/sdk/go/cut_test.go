package sdk

import (
	"fmt"
	"strings"
	"testing"
)

// TestCutBody: a plain answer that ends early raises, however it ends.
func TestCutBody(t *testing.T) {
	scripts := map[string]string{
		"fin":             `{"cut":{"at":"byte","n":60,"how":"fin"}}`,
		"reset":           `{"cut":{"at":"byte","n":60,"how":"reset"}}`,
		"torn":            `{"cut":{"at":"byte","n":60,"how":"torn"}}`,
		"clean":           `{"cut":{"at":"byte","n":60,"how":"clean"}}`,
		"last byte":       `{"text":"x","cut":{"at":"byte","n":60,"how":"clean"},"size":4000}`,
		"head only":       `"reset_after_head"`,
		"empty":           `{"body":""}`,
		"reply lost":      `"reply_lost"`,
		"reset unhandled": `"reset_after_body"`,
	}
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, c client) { cutBody(t, c, script, name == "empty") })
		})
	}
}

func cutBody(t *testing.T, c client, script string, empty bool) {
	if empty && theRig.direct() {
		t.Skip("an empty 200 is an empty success to some clients; the gateway must tell it")
	}
	op := theRig.op()
	got, tape, err := c.ask(t.Context(), false, call{op: op, prompt: "cut me", script: script})
	if err == nil {
		t.Fatalf("no error, answer %+v", got)
	}
	n := theRig.counts(t, op)
	if theRig.direct() {
		return // the clients' own retries of a lost connection differ
	}
	if f := c.fault(err); !f.typed || f.status < 500 {
		t.Errorf("%+v from %v, want the client's own error, 5xx", f, err)
	}
	if tape.attempts() != 1 || n.Calls != 1 {
		t.Errorf("%d attempts of the client, %d calls upstream, want 1 each", tape.attempts(), n.Calls)
	}
}

// manner is a way to break a stream after n events.
type manner struct {
	name   string
	script func(n int) string
	// Only a gateway tells: the HTTP body ends properly, or the error is in a form that some clients overlook.
	gateway bool
	// There is time between the last event and the break.
	late bool
}

var manners = []manner{
	{name: "fin", script: cutAt("fin")},
	{name: "reset", script: cutAt("reset")},
	{name: "torn", script: cutAt("torn")},
	{name: "clean", script: cutAt("clean"), gateway: true},
	{name: "late reset", late: true, script: func(n int) string {
		return fmt.Sprintf(`"cut":{"at":"event","n":%d,"how":"stall","stall_ms":100}`, n)
	}},
	{name: "error", late: true, gateway: true, script: func(n int) string {
		return fmt.Sprintf(`"error_event":%d,"event_ms":20`, n)
	}},
}

func cutAt(how string) func(int) string {
	return func(n int) string { return fmt.Sprintf(`"cut":{"at":"event","n":%d,"how":%q}`, n, how) }
}

// TestCutStream: a stream that ends early raises at each place and in each manner; also where the HTTP body ends
// properly, which no client notices by itself (sdk-facts.md).
func TestCutStream(t *testing.T) {
	for _, m := range manners {
		t.Run(m.name, func(t *testing.T) {
			if m.gateway {
				needGateway(t)
			}
			each(t, func(t *testing.T, c client) {
				t.Run("at the head", func(t *testing.T) { cutStream(t, c, m, 0, false) })
				t.Run("before content", func(t *testing.T) { cutStream(t, c, m, c.lead, false) })
				t.Run("after content", func(t *testing.T) { cutStream(t, c, m, c.lead+1, false) })
				t.Run("in a tool call", func(t *testing.T) { cutStream(t, c, m, c.inTool, true) })
			})
		})
	}
}

func cutStream(t *testing.T, c client, m manner, events int, tool bool) {
	in := call{op: theRig.op(), prompt: "cut me", tool: tool, script: "{" + m.script(events) + "}"}
	if tool {
		in.script = toolScript("," + m.script(events))
	}
	got, tape, err := c.ask(t.Context(), true, in)
	if err == nil {
		t.Fatalf("no error, answer %+v; wire: %s", got, tail(tape.last().bytes()))
	}
	content := got.text != "" || got.call != nil
	// A break that arrives together with the first content may be answered by an error instead of a stream:
	// nothing was visible yet (semantics 22). Where there is time between the two the content must be out.
	together := !theRig.direct() && !m.late && !content && c.fault(err).status >= 500
	if !together && content != (events > c.lead) {
		t.Errorf("content %+v after %d events, of which %d come before it", got, events, c.lead)
	}
	if theRig.direct() {
		return
	}
	if n := theRig.counts(t, in.op); n.Calls != 1 || tape.attempts() != 1 {
		t.Errorf("%d attempts of the client, %d calls upstream, want 1 each", tape.attempts(), n.Calls)
	}
	if m.name == "error" {
		return // the provider's own code, in the provider's words
	}
	const code = "upstream_incomplete"
	if f := c.fault(err); f.code != code && !strings.Contains(err.Error(), code) {
		t.Errorf("%+v from %v, want %s", f, err, code)
	}
}

// TestStall: a stream that falls silent raises when the workflow's idle time is over.
func TestStall(t *testing.T) {
	needGateway(t)
	each(t, func(t *testing.T, c client) {
		in := call{op: theRig.op(), prompt: "stall", script: fmt.Sprintf(`"stall:%d"`, c.lead+1), header: map[string]string{"Holdfast-Workflow": "impatient"}}
		got, _, err := c.ask(t.Context(), true, in)
		if err == nil || got.text == "" {
			t.Errorf("answer %+v, error %v, want text and an error", got, err)
		}
	})
}
