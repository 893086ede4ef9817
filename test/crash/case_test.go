package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/holdfast-ai/holdfast/test/farside"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// call is a request of these tests: its operation is its model too.
type call struct {
	op, key, workflow, text string
}

func (c call) body() []byte {
	text := c.text
	if text == "" {
		text = "do it"
	}
	b, _ := json.Marshal(map[string]any{"model": c.op, "messages": []map[string]string{{"role": "user", "content": "op=" + c.op + " " + text}}})
	return b
}

func (r *rig) try(c call) (*farside.Answer, error) {
	header := map[string]string{"Holdfast-Workflow": c.workflow}
	if c.key != "" {
		header["Idempotency-Key"] = c.key
	}
	return r.Send(r.gateway.URL, "/v1/chat/completions", c.body(), header)
}

func (r *rig) do(c call) *farside.Answer {
	r.t.Helper()
	a, err := r.try(c)
	if err != nil {
		r.t.Fatalf("%s: %v", c.op, err)
	}
	return a
}

// must fails the test unless the answer has this status and code.
func (r *rig) must(c call, status int, code string) *farside.Answer {
	r.t.Helper()
	a := r.do(c)
	if a.Status != status || a.Code() != code {
		r.t.Fatalf("%s: want %d %q, got %v", c.op, status, code, a)
	}
	return a
}

// hasHad compares what the far side did for an operation with what it should have done.
func (r *rig) hasHad(op string, calls int64, effects int) {
	r.t.Helper()
	if got := r.Calls()[op].Calls; got != calls {
		r.t.Errorf("%s: %d calls, want %d", op, got, calls)
	}
	if got := r.Effects()[op]; got != effects {
		r.t.Errorf("%s: %d effects, want %d", op, got, effects)
	}
}

// operation is what an operator sees of one.
func (r *rig) operation(id string) admin.Intent {
	r.t.Helper()
	var v admin.Intent
	r.GetJSON(r.gateway.Admin+"/holdfast/v1/intents/"+id, &v)
	return v
}

// BR-001: a time-out is no evidence of failure. Three calls, one effect, one intent; what came late is no state.
func TestBR001LateAnswer(t *testing.T) {
	r := newRig(t)
	r.start("")
	r.Script("ticket", `{"hold":"late","hold_at":"effect"}`)
	c := call{op: "ticket", key: "tk-77", workflow: "quick"}
	first := r.must(c, http.StatusGatewayTimeout, "deadline_exceeded")
	if first.Intent() == "" || first.Header.Get("Holdfast-Safe-To-Retry") != "after-reconcile" || first.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("the first answer must say that the outcome is not known: %v", first.Header)
	}
	second := r.must(c, http.StatusConflict, "outcome_unknown")
	if second.Intent() != first.Intent() || second.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("another intent, or an invitation to retry: %v", second.Header)
	}
	r.Release("late")
	r.Await("op=ticket&ended=1")
	if third := r.must(c, http.StatusConflict, "outcome_unknown"); third.Intent() != first.Intent() {
		t.Errorf("another intent: %v", third)
	}
	if v := r.operation(first.Intent()); v.State != "unknown" || v.Attempt != 1 {
		t.Errorf("state %s, attempt %d", v.State, v.Attempt)
	}
	r.hasHad("ticket", 1, 1)
	r.stop()
}

// BR-010: a crash between the claim and the first byte blocks no key. Claim and attempt are one commit here
// (semantics 32): before it nothing is on record, behind it the log cannot know that nothing left, so that a
// generation runs and an external call says so.
func TestBR010CrashBeforeTheFirstByte(t *testing.T) {
	for _, c := range []struct {
		name, point string
		workflow    string
		status      int
		code        string
		calls       int64
	}{
		{"external before the commit", "commit.before", "external", 200, "", 1},
		{"external at the disk", "store.commit.before", "external", 200, "", 1},
		{"generation before the first byte", "send.before", "relaxed", 200, "", 1},
		{"external before the first byte", "send.before", "external", 409, "outcome_unknown", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.startThen(c.point, func() {
				if a, err := r.try(call{op: "invoice", key: "o-1", workflow: c.workflow}); err == nil {
					t.Errorf("answered: %v", a)
				}
			})
			r.hasHad("invoice", 0, 0)
			r.start("")
			r.must(call{op: "invoice", key: "o-1", workflow: c.workflow}, c.status, c.code)
			r.hasHad("invoice", c.calls, int(c.calls))
			r.stop()
		})
	}
}

// startThen starts a gateway that dies at a point, and has its clients ask until it does. The crash is armed once it
// serves: start-up passes some of the points, how often is chance.
func (r *rig) startThen(point string, ask func()) {
	r.t.Helper()
	armed := filepath.Join(r.t.TempDir(), "armed")
	command := r.command(point)
	command.Env = append(command.Env, "HOLDFAST_CRASH_ARMED="+armed)
	if err := r.serve(command); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(armed, nil, 0o600); err != nil {
		r.t.Fatal(err)
	}
	ask()
	r.mustDie("the gateway did not reach " + point)
	r.gateway = nil
}

// BR-010, as the case has it: what is durable is a claim alone. The intent waits for a request with its key,
// which runs it once.
func TestBR010ClaimWithoutDispatch(t *testing.T) {
	r := newRig(t)
	c := call{op: "invoice", key: "o-1", workflow: "external"}
	r.start("")
	r.must(c, 200, "")
	r.stop()
	r.claimAlone("invoice")
	r.start("")
	var waiting []admin.Intent
	r.GetJSON(r.gateway.Admin+"/holdfast/v1/intents", &waiting)
	if len(waiting) != 1 || waiting[0].State != "intent_created" || waiting[0].LeaseOwner != "" {
		t.Fatalf("recovered: %+v", waiting)
	}
	if a := r.must(c, 200, ""); a.Intent() != waiting[0].ID || a.Replayed() {
		t.Errorf("it was not the waiting intent that ran: %v", a)
	}
	r.hasHad("invoice", 2, 2) // the first of them made the claim that was copied
	r.stop()
}

// claimAlone makes a new store in which a dead process has claimed what op's intent claims, and no more.
func (r *rig) claimAlone(op string) {
	r.t.Helper()
	ctx := context.Background()
	old := r.read().ByOp[op][0]
	if err := removeStore(r.store()); err != nil {
		r.t.Fatal(err)
	}
	l, err := sqlite.Open(ctx, sqlite.Config{Path: r.store(), Env: "crash"})
	if err != nil {
		r.t.Fatal(err)
	}
	log := intent.New(intent.Config{Ledger: l})
	_, err = log.Begin(intent.Begin{Head: old.Intent, Claim: true, Visibility: ledger.VisBefore, ExpiresAt: l.Now().Add(time.Hour)})
	if err != nil {
		r.t.Fatal(err)
	}
	log.Close()
	if err := l.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// removeStore removes a database and what lies beside it.
func removeStore(path string) error {
	files, err := filepath.Glob(path + "*")
	for _, f := range files {
		err = errors.Join(err, os.Remove(f))
	}
	return err
}

// BR-086: after a crash the agent sends its whole batch again. What was done is replayed, what may have been done
// is not done again, what was not begun is done; and an operator can see which is which.
func TestBR086AgentRepeatsItsBatch(t *testing.T) {
	r := newRig(t)
	r.start("")
	email := call{op: "email-bob", workflow: "pipeline", text: "send the mail"}
	db := call{op: "db-row-7", workflow: "pipeline", text: "write row 7"}
	slack := call{op: "slack-ops", workflow: "pipeline", text: "post to ops"}
	first := r.must(email, 200, "")
	r.Script("db-row-7", `{"hold":"row","hold_at":"effect"}`)
	broke := make(chan error, 1)
	go func() {
		_, err := r.try(db)
		broke <- err
	}()
	r.Await("op=db-row-7&effects=1&gate=row&held=1")
	r.kill()
	if err := <-broke; err == nil {
		t.Error("an answer from a dead gateway")
	}
	r.Release("row")
	r.start("")

	email.text += "  " // the model words the white space differently
	if a := r.must(email, 200, ""); !a.Replayed() || !bytes.Equal(a.Body, first.Body) {
		t.Errorf("not the first answer: %v", a)
	}
	unknown := r.must(db, http.StatusConflict, "outcome_unknown")
	r.must(slack, 200, "")

	var all []admin.Intent
	r.GetJSON(r.gateway.Admin+"/holdfast/v1/intents?all=1", &all)
	states := map[string]string{}
	for _, v := range all {
		states[v.RequestedModel] = v.State + "/" + v.Outcome
	}
	want := map[string]string{"email-bob": "settled/success", "db-row-7": "unknown/unknown", "slack-ops": "settled/success"}
	if fmt.Sprint(states) != fmt.Sprint(want) {
		t.Errorf("an operator sees %v, want %v", states, want)
	}
	r.resolve(unknown.Intent())
	if a := r.do(db); a.Status == 200 && !a.Replayed() || a.Intent() != unknown.Intent() {
		t.Errorf("resolved, asked again: %v", a)
	}
	for _, c := range []call{email, db, slack} {
		r.hasHad(c.op, 1, 1)
	}
	r.stop()
}

// resolve is a person's word that the effect happened.
func (r *rig) resolve(id string) {
	r.t.Helper()
	word := `{"outcome":"success","by":"ann","reason":"the row is there"}`
	resp, err := r.Client.Post(r.gateway.Admin+"/holdfast/v1/intents/"+id+"/resolve", "application/json", strings.NewReader(word))
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	var v admin.Intent
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil || v.State != "settled" || v.Outcome != "success" {
		r.t.Errorf("resolve: %d %v %s/%s", resp.StatusCode, err, v.State, v.Outcome)
	}
}
