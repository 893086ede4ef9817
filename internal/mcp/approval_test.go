package mcp

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

const askingYAML = `
env: test
mcp:
  servers:
    far:
      command: [%q]
      env: {FAKE_EFFECTS: %q}
      tools:
        keyed: {effect: external, key: "{n}", approval: dispatch}
        asked: {effect: external, approval: dispatch}
        free: {effect: external}
`

// askingRig has a child process behind it.
func askingRig(t *testing.T) *rig {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := bareRig(t)
	r.configure(fmt.Sprintf(askingYAML, exe, r.effects))
	return r
}

// spoken has the owner of a call speak.
func (r *rig) spoken(id string, approve bool) {
	r.Helper()
	rec, err := r.ledger.Get(r.Context(), id)
	if err != nil {
		r.Fatal(err)
	}
	op := r.log.Load(rec)
	if approve {
		err = op.Revive(intent.Revival{By: "ada", Reason: "fine", Rule: "review approve", NotExecuted: true, ExpiresAt: r.ledger.Now().Add(24 * time.Hour)})
	} else {
		err = op.Refuse("ada", "too dear", intent.LaneReview, r.ledger.Now().Add(24*time.Hour))
	}
	if err != nil {
		r.Fatal(err)
	}
}

// parked calls a tool whose owner has to speak first, and returns the intent.
func (r *rig) parked(c *line, tool, args string) string {
	r.Helper()
	got := c.call(tool, args)
	r.says(got, "_meta.code", "owner_review_required", "_meta.safe_to_retry", "yes", "result.isError", true)
	r.mentions(got, "WAITING FOR APPROVAL", "Nothing was executed", "review list")
	if strings.Contains(got, "review approve") {
		r.Errorf("the command that approves is in a model's hands: %s", got)
	}
	id := gjson.Get(got, "result._meta.holdfast/intent").String()
	if rec, err := r.ledger.Get(r.Context(), id); err != nil || rec.State != ledger.Created || rec.Lane != intent.LaneReview || rec.Attempt != 0 || rec.LeaseOwner != "" {
		r.Errorf("%+v, %v", rec, err)
	}
	return id
}

// Nothing is sent before a tool's owner has approved the call; then the client's next identical call has it sent, once, and
// later ones get its answer. Other writes, other sessions, a restart in between change nothing of that.
func TestToolApproval(t *testing.T) {
	for _, tool := range []string{"keyed", "asked"} {
		t.Run(tool, func(t *testing.T) {
			r := askingRig(t)
			c := r.stdio()
			args := `{"n":"A"}`
			id := r.parked(c, tool, args)
			if again := r.parked(c, tool, args); again != id {
				t.Errorf("asked again it is %s, not %s", again, id)
			}
			c.call("free", `{"n":"x"}`) // another write
			if again := r.parked(r.stdio(), tool, args); again != id {
				t.Errorf("in another session it is %s, not %s", again, id)
			}
			r.happened(1)
			r.clock.pass(time.Hour)
			r.end()
			r.start()
			c = r.stdio()
			if again := r.parked(c, tool, args); again != id {
				t.Errorf("after a restart it is %s, not %s", again, id)
			}
			r.spoken(id, true)
			r.happened(1) // nobody has asked for it since
			r.end()
			r.start()
			c = r.stdio()
			r.says(c.call(tool, args), "result.content.0.text", "done A", "_meta.intent", id, "_meta.replayed", nil)
			r.happened(2)
			r.says(c.call(tool, args), "_meta.replayed", true, "_meta.intent", id)
			r.happened(2)
		})
	}
}

// Whoever asks again for what the owner has rejected is told so, by whom and why; on purpose the owner is asked once more.
func TestToolRejected(t *testing.T) {
	for _, tool := range []string{"keyed", "asked"} {
		t.Run(tool, func(t *testing.T) {
			r := askingRig(t)
			c := r.stdio()
			id := r.parked(c, tool, `{"n":"A"}`)
			r.spoken(id, false)
			for range 2 {
				got := c.call(tool, `{"n":"A"}`)
				r.says(got, "_meta.code", "rejected", "_meta.safe_to_retry", "no", "_meta.intent", id, "result.isError", true)
				r.mentions(got, "REJECTED", "ada", "too dear", "Nothing was executed")
				r.end()
				r.start()
				c = r.stdio()
			}
			if again := r.parked(c, tool, `{"n":"A","repeat_reason":"the price fell"}`); again == id {
				t.Error("on purpose it is the same intent")
			}
			r.happened(0)
		})
	}
}

// Clients that ask at once for what has been approved have it sent once.
func TestApprovedIsSentOnce(t *testing.T) {
	r := askingRig(t)
	c := r.stdio()
	id := r.parked(c, "keyed", `{"n":"A"}`)
	r.spoken(id, true)
	var all []<-chan string
	clients := []*line{c, r.stdio(), r.stdio()}
	for i := range 12 {
		all = append(all, clients[i%3].begin("tools/call", params("keyed", `{"n":"A"}`)))
	}
	for _, ch := range all {
		r.says(r.wait(ch), "result.content.0.text", "done A", "_meta.intent", id)
	}
	r.happened(1)
}

// An approved call whose server asks the client for something first goes on with what the client adds, also in another session:
// its owner is not asked twice.
func TestApprovedCallGoesOn(t *testing.T) {
	r := askingRig(t)
	c := r.stdio()
	const args = `{"n":1,"fault":"input"}`
	id := r.parked(c, "asked", args)
	r.spoken(id, true)
	c = r.stdio()
	r.says(c.call("asked", args), "result.resultType", "input_required", "_meta.intent", id)
	r.happened(0)
	r.says(c.ask("tools/call", `{"name":"asked","arguments":`+args+`,"inputResponses":{},"requestState":"s"}`),
		"result.content.0.text", "done 1", "_meta.intent", id, "_meta.replayed", nil)
	r.happened(1)
}

// What was approved and is never asked for again is not sent, and ends with its time.
func TestApprovedAndForgotten(t *testing.T) {
	r := askingRig(t)
	id := r.parked(r.stdio(), "keyed", `{"n":"A"}`)
	r.spoken(id, true)
	r.clock.pass(25 * time.Hour)
	if n, err := r.log.Expire(t.Context()); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if rec, err := r.ledger.Get(t.Context(), id); err != nil || rec.Outcome != ledger.OutcomeDiscarded {
		t.Errorf("%+v, %v", rec, err)
	}
	if again := r.parked(r.stdio(), "keyed", `{"n":"A"}`); again == id {
		t.Error("it is the same intent")
	}
	r.happened(0)
}
