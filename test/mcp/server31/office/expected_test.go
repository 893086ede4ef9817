package office_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/test/mcp/server31/office"
)

// ways are how a call is repeated. Each returns the answers that the client has of the call and of its repeat.
var ways = map[string]func(r *rig, tool string, args map[string]any) []answer{
	"in sequence": func(r *rig, tool string, args map[string]any) []answer {
		return []answer{r.call(tool, args), r.call(tool, args)}
	},
	"late": func(r *rig, tool string, args map[string]any) []answer {
		first := r.call(tool, args)
		time.Sleep(900 * time.Millisecond)
		return []answer{first, r.call(tool, args)}
	},
	"at once": func(r *rig, tool string, args map[string]any) []answer {
		return both(r, tool, args, args)
	},
	// The client gives up after 10 ms, where it has no answer by then, and throws away the answer it has.
	"reply dropped": func(r *rig, tool string, args map[string]any) []answer {
		ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Millisecond)
		defer cancel()
		_, _ = r.try(ctx, tool, args)
		// What the first call had begun is over by then: overlap is another way.
		time.Sleep(100 * time.Millisecond)
		return []answer{r.call(tool, args)}
	},
}

func both(r *rig, tool string, first, second map[string]any) []answer {
	answers := make([]answer, 2)
	var wg sync.WaitGroup
	for i, args := range []map[string]any{first, second} {
		wg.Go(func() { answers[i], _ = r.try(r.t.Context(), tool, args) })
	}
	wg.Wait()
	return answers
}

// outcome is what a run leaves.
type outcome struct {
	before, state string
	seen          string // what the observing source shows, if there is one
	answers       []answer
}

func play(t *testing.T, tool string, e expectation, act func(*rig, string, map[string]any) []answer) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := openAll(t)
		o.before = r.resource(office.StateURI)
		o.answers = act(r, tool, e.Arguments)
		o.state = r.state()
		if e.Observe != nil {
			o.seen = r.look(e.Observe)
		}
	})
	return o
}

func once(r *rig, tool string, args map[string]any) []answer { return []answer{r.call(tool, args)} }

// difference says what tells a repeated call from one call; empty if nothing does.
func difference(one, two outcome) string {
	if two.state != one.state {
		return "state"
	}
	for _, a := range two.answers {
		if a.Failed && !one.answers[0].Failed {
			return "error"
		}
	}
	for _, a := range two.answers {
		if a != one.answers[0] {
			return "answer"
		}
	}
	return ""
}

// differences are what the verdicts speak of. A verdict of "cannot tell" allows any: nobody sees it.
var differences = map[string]string{
	"safe": "", "duplicate effect": "state", "wrong record": "state", "lost write": "state",
	"answer differs": "answer", "error on repeat": "error",
}

// TestVerdicts repeats each tool in each way, and holds what comes of it against what is expected.
func TestVerdicts(t *testing.T) {
	for tool, e := range expected(t) {
		t.Run(tool, func(t *testing.T) {
			one := play(t, tool, e, once)
			if one.before == one.state {
				t.Error("one call changes nothing")
			}
			for way, act := range ways {
				two := play(t, tool, e, act)
				got := difference(one, two)
				if slices.Contains(e.Shows, way) {
					shown(t, way, e, one, two)
				} else if !harmless(e, got) {
					t.Errorf("%s: %s differs, and expected.json does not say so\n%s\n%s", way, got, one.state, two.state)
				}
			}
		})
	}
}

// harmless reports whether a difference may be there in a way that shows no fault: none, one that nobody sees, or an
// answer's that may be held against the tool or not.
func harmless(e expectation, got string) bool {
	return got == "" || slices.Contains(e.Verdicts, "cannot tell") || got == "answer" && slices.Contains(e.Verdicts, "answer differs")
}

// shown fails unless the fault is there and the observing source shows it.
func shown(t *testing.T, way string, e expectation, one, two outcome) {
	t.Helper()
	want := differences[e.Verdicts[0]]
	if got := difference(one, two); got != want {
		t.Errorf("%s: %q differs, want %q (%s)\n%s\n%s", way, got, want, e.Verdicts[0], one.state, two.state)
	}
	if want == "state" && one.seen == two.seen {
		t.Errorf("%s: the fault is there, but %+v does not show it", way, *e.Observe)
	}
}

// TestEffectsAreObservable holds that one call shows in the observing source; where none is named, it shows nowhere.
func TestEffectsAreObservable(t *testing.T) {
	for tool, e := range expected(t) {
		t.Run(tool, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if e.Observe == nil {
					nobodyTells(open(t, office.Options{Now: fixed}), tool, e)
					return
				}
				r := open(t, office.Options{})
				before := r.look(e.Observe)
				r.call(tool, e.Arguments)
				time.Sleep(time.Second)
				if r.look(e.Observe) == before {
					t.Errorf("%+v does not show the call", *e.Observe)
				}
			})
		})
	}
}

func nobodyTells(r *rig, tool string, e expectation) {
	r.t.Helper()
	before := everything(r)
	first, second := r.call(tool, e.Arguments), r.call(tool, e.Arguments)
	time.Sleep(time.Second)
	if everything(r) != before || first != second {
		r.t.Error("somebody could tell")
	}
}

// fixed is a clock that stands, for comparing answers that say when they were made.
func fixed() time.Time { return time.Unix(1_800_000_000, 0) }

// everything is what all read tools without arguments and all resources show.
func everything(r *rig) string {
	r.t.Helper()
	var all strings.Builder
	for _, tool := range r.tools() {
		if reader(tool.Name) && len(required(r.t, tool)) == 0 {
			all.WriteString(r.work(tool.Name, nil))
		}
	}
	res, err := r.ListResources(r.t.Context(), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, one := range res.Resources {
		all.WriteString(r.resource(one.URI))
	}
	return all.String()
}
