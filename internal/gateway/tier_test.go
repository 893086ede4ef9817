package gateway_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/sim"
)

// A tier's model is what goes out, however the body names another, and as often as it does.
func TestTierModel(t *testing.T) {
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.Replace(c.yaml, "default: {retry: {max_attempts: 1}}", `default: {tiers: [{name: only, model: "cheap\"er"}]}`, 1)
	})
	for _, body := range []string{
		`{"model":"dear","messages":[{"role":"user","content":"op=tier"}]}`,
		`{"messages":[{"role":"user","content":"op=tier"}],"model":"dear","x":1,"model":"dearer"}`,
		`{"model":"a","model":"b","model":"c","messages":[{"role":"user","content":"op=tier"}]} ` + "\n",
	} {
		r.sim.Reset()
		a := r.must(request{path: "/v1/chat/completions", body: body}, 200)
		call := r.sim.Calls("")[0]
		var last struct{ Model string }
		if err := json.Unmarshal([]byte(call.Body), &last); err != nil || call.Model != `cheap"er` || last.Model != `cheap"er` {
			t.Errorf("%s went out as %s", body, call.Body)
		}
		if a.header.Get("Holdfast-Served-Model") == a.header.Get("Holdfast-Requested-Model") {
			t.Errorf("%v", a.header)
		}
	}
}

// BR-012: a budget that is too small to be answered in leaves the key to the next call.
func TestBR012SmallBudget(t *testing.T) {
	r := newRig(t)
	hang := sim.Rule{Match: sim.Match{Op: "budget", Header: map[string]string{"X-Try": "first"}}, Steps: []sim.Step{sim.Named("hang")}}
	if err := r.sim.AddRules(hang); err != nil {
		t.Fatal(err)
	}
	r.must(chat("budget").key("k").with("Holdfast-Deadline-Ms", "60", "X-Try", "first"), 504)
	wait(t, func() bool { return r.do(chat("budget").key("k")).status == 200 })
	if n := r.sim.Counts("budget").Effects; n != 1 {
		t.Errorf("%d effects", n)
	}
}
