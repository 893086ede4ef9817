package sdk

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// place is a class of positions in an answer at which a client loses its connection.
type place struct {
	name string
	at   string // as the cutter takes it
	mark func(m marks, streamed bool) string
	fin  bool // the gateway sees an orderly end
	// The provider waits at a gate until the client has asked again.
	held     bool
	streamed bool // streams only
	workflow string
}

// marks are texts of a wire format's answer that tell where in it one is.
type marks struct{ lead, finish, finishPlain string }

var marksOf = map[string]marks{
	"chat.completions":      {`"role":"assistant"`, `"finish_reason":"stop"`, `"finish_reason":"stop"`},
	"responses":             {`response.created`, `response.completed`, `"status":"completed"`},
	"messages":              {`message_start`, `message_delta`, `"stop_reason":"end_turn"`},
	"streamGenerateContent": {"", `"finishReason":"STOP"`, `"finishReason":"STOP"`},
}

// lostText begins with the first piece of content, and names the execution that wrote it.
const lostText = "Hold fast, this is what execution %N has to say, all of it"

func lead(m marks, _ bool) string { return m.lead }
func content(marks, bool) string  { return "Hold" }
func whole(got answer) bool {
	return strings.HasSuffix(got.text, ", all of it") && strings.HasPrefix(got.text, "Hold fast")
}
func backOff() <-chan time.Time { return time.After(500 * time.Millisecond) } // as the clients that retry do it
func (p place) String() string  { return p.name }
func finish(m marks, st bool) string {
	if st {
		return m.finish
	}
	return m.finishPlain
}

var places = []place{
	{name: "before the head", at: "now", held: true},
	{name: "head lost", at: "none"},
	{name: "in the bridge", at: "byte", held: true, streamed: true, workflow: "bridged"},
	{name: "in the lead-in", at: "mark", mark: lead},
	{name: "after the first content", at: "mark", mark: content},
	{name: "after the finish event", at: "mark", mark: finish},
	{name: "after the last byte", at: "end", fin: true, workflow: "patient"},
	{name: "reset after the last byte", at: "end", workflow: "patient"},
}

// header tells the cutter what to do with the first request of in.
func (p place) header(c client, streamed bool, in *call) {
	v := url.Values{"id": {in.op}, "at": {p.at}}
	if p.mark != nil {
		v.Set("mark", p.mark(marksOf[c.wire], streamed))
		if v.Get("mark") == "" || !streamed && p.name == "in the lead-in" { // there is none
			v.Set("at", "head")
		}
	}
	if p.fin {
		v.Set("how", "fin")
	}
	in.header = maps.Clone(in.header)
	if in.header == nil {
		in.header = map[string]string{}
	}
	in.header["Cut"] = v.Encode()
	if p.workflow != "" {
		in.header["Holdfast-Workflow"] = p.workflow
	}
}

func needCutter(t *testing.T) []client {
	t.Helper()
	if theRig.cutter == "" {
		t.Skip("without a gateway and a breaking network between")
	}
	return append(clients(theRig.cutter), arrayClient(theRig.cutter))
}

// awaitCut blocks until the cutter has cut the operation's connection and seen so many requests.
func (r *rig) awaitCut(t *testing.T, op string, requests int) {
	t.Helper()
	fetch(t, http.MethodGet, fmt.Sprintf("%s/cutter/v1/await?cut=1&requests=%d&id=%s", r.cutter, requests, url.QueryEscape(op)), nil)
}

func (r *rig) cutNow(t *testing.T, op string) {
	t.Helper()
	fetch(t, http.MethodPost, r.cutter+"/cutter/v1/cut?id="+url.QueryEscape(op), nil)
}

// TestLost: a client that loses its connection, wherever in the answer, and asks again gets the first execution's
// answer, without a key; the provider is called once.
func TestLost(t *testing.T) {
	list := needCutter(t)
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			eachOf(t, list, func(t *testing.T, c client) {
				if c.plain == nil || p.streamed { // there is no other form
					lost(t, c, p, true)
					return
				}
				both(t, func(t *testing.T, streamed bool) { lost(t, c, p, streamed) })
			})
		})
	}
}

func lost(t *testing.T, c client, p place, streamed bool) {
	in := call{op: theRig.op(), prompt: "say it once"}
	script := fmt.Sprintf(`"text":%q,"event_ms":5`, lostText)
	if p.held {
		script += fmt.Sprintf(`,"hold":%q`, in.op)
	}
	in.script = "{" + script + "}"
	p.header(c, streamed, &in)
	type result struct {
		got  answer
		tape *tape
		err  error
	}
	again := make(chan result, 1)
	go func() {
		got, tape, err := c.ask(t.Context(), streamed, in)
		if tape.attempts() == 1 { // this client does not ask again by itself, or not here
			<-backOff()
			if p.fin && c.retry {
				in.header["X-Stainless-Retry-Count"] = "1" // as its own retries say it
			}
			got, tape, err = c.ask(t.Context(), streamed, in)
		}
		again <- result{got, tape, err}
	}()
	if p.at == "now" {
		theRig.waitHeld(t, in.op)
		theRig.cutNow(t, in.op)
	}
	if p.held {
		theRig.awaitCut(t, in.op, 2)
		theRig.release(t, in.op)
	}
	r := <-again
	theRig.awaitCut(t, in.op, 2)
	if r.err != nil || !whole(r.got) {
		t.Fatalf("%+v, %v; wire %s", r.got, r.err, tail(r.tape.last().bytes()))
	}
	// An orderly end behind a whole answer is what every client does that has read it: without a word of its own
	// the same question is a new one (semantics 19).
	calls := 1
	if p.fin && !c.retry {
		calls = 2
	}
	if n := theRig.counts(t, in.op); n.Calls != calls {
		t.Errorf("%d calls upstream, want %d", n.Calls, calls)
	}
	replayed := r.tape.last().replayed() || r.tape.last().trailer.Get("Idempotency-Replayed") == "true"
	if replayed != (calls == 1) {
		t.Errorf("replayed %v: %v %v", replayed, r.tape.last().header, r.tape.last().trailer)
	}
}
