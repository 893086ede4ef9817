package sdk

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// crossing is a client's API that another one answers.
type crossing struct {
	client, far string
	second      bool // behind a tier that fails
	stream      bool
}

// eachCrossing runs f for each direction of translation, by each way that leads to it, plain and streamed.
func eachCrossing(t *testing.T, f func(*testing.T, crossing)) {
	t.Helper()
	if theRig.translate == "" {
		t.Skip("HOLDFAST_TRANSLATE_URL is not set")
	}
	for _, x := range []crossing{{client: "openai", far: "anthropic"}, {client: "openai", far: "gemini"}, {client: "anthropic", far: "openai"}, {client: "anthropic", far: "gemini"}} {
		for way := range 4 {
			x.second, x.stream = way&1 != 0, way&2 != 0
			t.Run(fmt.Sprintf("%s from %s/second=%v/stream=%v", x.client, x.far, x.second, x.stream), func(t *testing.T) {
				t.Parallel()
				f(t, x)
			})
		}
	}
}

// asks is a question whose far side answers it by these steps, one for each call of it. Nothing but the text gets there.
func (x crossing) asks(op string, steps ...string) question {
	var all []string
	for _, s := range steps {
		if x.second {
			all = append(all, `"503"`) // of the first tier
		}
		all = append(all, s)
	}
	return question{prompt: `Tell me, sim:{"steps":[` + strings.Join(all, ",") + `]} op=` + op, stream: x.stream,
		header: map[string]string{"Holdfast-Workflow": wayOf(x.client, x.far, x.second)}}
}

func (x crossing) talk(t *testing.T, q question) (talked, *tape, error) {
	t.Helper()
	tape := &tape{}
	got, err := speakers[x.client](withTape(t.Context(), tape), theRig.translate, q)
	return got, tape, err
}

// must is talk that succeeds, and was answered by the far side.
func (x crossing) must(t *testing.T, q question) talked {
	t.Helper()
	got, tape, err := x.talk(t, q)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range tape.exchanges {
		if e.header.Get("Holdfast-Source") != "far" {
			t.Errorf("answered by %q: %v", e.header.Get("Holdfast-Source"), e.header)
		}
	}
	return got
}

// stopped and limited are the clients' words for how an answer ends.
var (
	stopped = map[string]string{"openai": "stop", "anthropic": "end_turn"}
	limited = map[string]string{"openai": "length", "anthropic": "max_tokens"}
)

func TestTranslatedText(t *testing.T) {
	eachCrossing(t, func(t *testing.T, x crossing) {
		op := theRig.op()
		got := x.must(t, x.asks(op, `{"text":"four € \"<b>\" %N"}`))
		if !strings.HasPrefix(got.text, `four € "<b>" `) || got.finish != stopped[x.client] || got.in <= 0 || got.out <= 0 {
			t.Errorf("%+v", got)
		}
		if n := theRig.counts(t, op).Effects; n != 1 {
			t.Errorf("%d effects", n)
		}
		finish := map[string]string{"openai": "length", "anthropic": "max_tokens", "gemini": "MAX_TOKENS"}[x.far]
		if got := x.must(t, x.asks(theRig.op(), `{"finish":"`+finish+`"}`)); got.finish != limited[x.client] {
			t.Errorf("cut off by a limit: %+v", got)
		}
	})
}

// A tool is called three times, each time with the result of the call before.
func TestTranslatedTools(t *testing.T) {
	eachCrossing(t, func(t *testing.T, x crossing) {
		op, step := theRig.op(), `{"tool":"`+toolName+`","tool_args":`+toolArgs+`}`
		q := x.asks(op, step, step, step, `"ok"`)
		q.tools = true
		got := x.must(t, q)
		if len(got.calls) != 3 || got.finish != stopped[x.client] || got.text == "" {
			t.Fatalf("%+v", got)
		}
		for _, c := range got.calls {
			name, args, _ := strings.Cut(c, " ")
			if name != toolName || !sameJSON(t, args, toolArgs) {
				t.Errorf("%s", c)
			}
		}
		calls := theRig.calls(t, op)
		last, result := calls[len(calls)-1], strings.Trim(strconv.Quote(toolResult), `"`)
		if n := strings.Count(last.Body, result); n != 3 {
			t.Errorf("the last request has %d results: %s", n, last.Body)
		}
	})
}

func TestTranslatedSchema(t *testing.T) {
	eachCrossing(t, func(t *testing.T, x crossing) {
		q := x.asks(theRig.op(), `"ok"`)
		q.schema = true
		var person struct {
			Name *string
			Age  *int
		}
		got := x.must(t, q)
		if err := json.Unmarshal([]byte(got.text), &person); err != nil || person.Name == nil || person.Age == nil {
			t.Errorf("%v in %+v", err, got)
		}
	})
}

func TestTranslatedImages(t *testing.T) {
	eachCrossing(t, func(t *testing.T, x crossing) {
		op := theRig.op()
		q := x.asks(op, `"ok"`)
		q.images = true
		x.must(t, q)
		calls := theRig.calls(t, op)
		if last := calls[len(calls)-1]; !strings.Contains(last.Body, pictureData) || !strings.Contains(last.Body, "Be brief.") {
			t.Errorf("sent as %s", last.Body)
		}
	})
}

// The far side's errors are errors of the client's own type, with the status that its API has for them.
func TestTranslatedFailures(t *testing.T) {
	overloaded := map[string]int{"openai": 503, "anthropic": 529}
	eachCrossing(t, func(t *testing.T, x crossing) {
		if x.second { // what comes of several tiers is told as one error of the gateway's
			return
		}
		for step, status := range map[string]int{`{"status":400,"message":"wrong"}`: 400, `{"status":503,"message":"later"}`: overloaded[x.client], `{"status":500,"message":"oh"}`: 500} {
			x.fails(t, x.asks(theRig.op(), step), status)
		}
	})
}

func (x crossing) fails(t *testing.T, q question, status int) *tape {
	t.Helper()
	got, tape, err := x.talk(t, q)
	fault := map[string]func(error) failure{"openai": openaiFault, "anthropic": anthropicFault}[x.client]
	if f := fault(err); err == nil || !f.typed || f.status != status {
		t.Errorf("%v, %+v: %+v, want %d", err, f, got, status)
	}
	return tape
}

// A far side that is busy says when to come back, and its own route cools down: the next call is refused before it is sent.
func TestTranslatedBusy(t *testing.T) {
	if theRig.translate == "" {
		t.Skip("HOLDFAST_TRANSLATE_URL is not set")
	}
	for far, client := range map[string]string{"anthropic": "openai", "openai": "anthropic", "gemini": "openai"} {
		x := crossing{client: client, far: far}
		q := x.asks(theRig.op(), `{"status":429,"headers":{"Retry-After":"3600"},"message":"busy"}`)
		q.header["Holdfast-Workflow"] = "busy_" + far
		tape := x.fails(t, q, 429)
		wait, err := strconv.Atoi(tape.last().header.Get("Retry-After"))
		if err != nil || wait < 3500 || wait > 3600 {
			t.Errorf("%s: Retry-After %v, %v", far, wait, err)
		}
		op := theRig.op()
		q = x.asks(op, `"ok"`)
		q.header["Holdfast-Workflow"] = "busy_" + far
		if tape := x.fails(t, q, 429); tape.last().header.Get("Holdfast-Error") != "rate_limited" {
			t.Errorf("%s: %v", far, tape.last().header)
		}
		if n := theRig.counts(t, op).Calls; n != 0 {
			t.Errorf("%s: %d calls in its cool-down", far, n)
		}
	}
}

// A stream that breaks before its first content is an error in its place, or the next tier's matter; behind it the client has what
// came, and raises.
func TestTranslatedBroken(t *testing.T) {
	eachCrossing(t, func(t *testing.T, x crossing) {
		if !x.stream {
			if _, _, err := x.talk(t, x.asks(theRig.op(), `"cut:1"`)); err == nil {
				t.Error("half a document was an answer")
			}
			return
		}
		for _, how := range []string{"cut", "reset", "clean", "error"} {
			if got, _, err := x.talk(t, x.asks(theRig.op(), `"`+how+`:0"`)); err == nil || got.text != "" {
				t.Errorf("%s before its content: %+v, %v", how, got, err)
			}
			op := theRig.op()
			got, _, err := x.talk(t, x.asks(op, `"`+how+`:4"`, `"ok"`))
			if err == nil || got.text == "" || got.finish != "" {
				t.Errorf("%s behind its content: %+v, %v", how, got, err)
			}
			if n := theRig.counts(t, op).Effects; n != 1 {
				t.Errorf("%s: %d effects", how, n)
			}
		}
	})
}

// An answer that did not arrive is asked for again, and comes once more as it was.
func TestTranslatedReplay(t *testing.T) {
	eachCrossing(t, func(t *testing.T, x crossing) {
		op := theRig.op()
		q := x.asks(op, `"ok"`, `"ok"`)
		q.header["Idempotency-Key"] = op
		first := x.must(t, q)
		again, tape, err := x.talk(t, q)
		if err != nil || again.text != first.text || tape.last().header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%+v, %v; first %+v; %v", again, err, first, tape.last().header)
		}
		if n := theRig.counts(t, op).Effects; n != 1 {
			t.Errorf("%d effects", n)
		}
	})
}
