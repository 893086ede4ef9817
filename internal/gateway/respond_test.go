package gateway_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/ledger"
)

const respondConfig = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "provider-credential"}
workflows:
  agents: {match: {paths: ["/v1/responses"]}, on_unknown: hold, retry: {max_attempts: 1}, reconcile: {openai_response: true, every: 50ms, quiet: 200ms}}
`

// A response whose stream was cut is found by the id that its first event brought.
func TestReconcileByResponseID(t *testing.T) {
	r := newToolRig(t, func(c *rigConfig) { c.yaml = respondConfig })
	r.stepped("agent", "reset:3")
	q := request{path: "/v1/responses", body: `{"model":"gpt-5","stream":true,"background":true,"input":"op=agent act"}`}.key("a-1")
	a := r.do(q)
	id := a.header.Get("Holdfast-Intent")
	if id == "" || r.record(id).Provider != "openai" {
		t.Fatalf("%d %s %v", a.status, a.body, a.err)
	}
	rec := r.settled(id)
	if rec.Outcome != ledger.OutcomeSuccess || rec.Answer == nil || rec.Answer.Source != "reconciler" {
		t.Errorf("%s %+v", rec.Outcome, rec.Answer)
	}
	if again := r.must(q, 200); !strings.Contains(string(again.body), `"object":"response"`) || again.header.Get("Holdfast-Reconciled") != "true" {
		t.Errorf("%v %s", again.header, again.body)
	}
	if n := r.sim.Counts("agent"); n.Effects != 1 {
		t.Errorf("%+v", n)
	}
}

const storedConfig = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "provider-credential"}
workflows:
  chat: {match: {paths: ["/v1/chat/completions"]}, on_unknown: hold, retry: {max_attempts: 1}, reconcile: {openai_response: true, metadata: true, every: 50ms, quiet: 100ms, attempts: 3}}
`

// A stored completion whose answer was lost is found by the metadata that was written into what was sent, and no other is: not one
// that was asked for with the same words before, nor one that is not stored.
func TestReconcileByMetadata(t *testing.T) {
	r := newToolRig(t, func(c *rigConfig) { c.yaml = storedConfig })
	ask := func(op, more, key string) request {
		return request{path: "/v1/chat/completions", body: `{"model":"gpt-5",` + more + `"messages":[{"role":"user","content":"op=` + op + `"}]}`}.key(key)
	}
	const stored = `"store":true,"metadata":{"trace":"t1"},`
	for _, stream := range []string{"", `"stream":true,`} {
		op := "stored" + fmt.Sprint(len(stream))
		r.must(ask(op, stored+stream, "before-"+op), 200)
		before := r.sim.Counts(op).Effects
		r.stepped(op, "reply_lost")
		q := ask(op, stored+stream, "lost-"+op)
		id := r.do(q).header.Get("Holdfast-Intent")
		rec := r.settled(id)
		if rec.Outcome != ledger.OutcomeSuccess || rec.Answer == nil || rec.Answer.Source != "reconciler" {
			t.Fatalf("%s %+v", rec.Outcome, rec.Answer)
		}
		again := r.must(q, 200)
		if mark := gjson.GetBytes(again.body, "metadata.holdfast").Str; mark == "" || strings.Contains(mark, "chat") || gjson.GetBytes(again.body, "metadata.trace").Str != "t1" {
			t.Errorf("found %s", again.body)
		}
		if n := r.sim.Counts(op).Effects - before; n != 1 {
			t.Errorf("%d effects", n)
		}
	}
	r.stepped("plain", "reply_lost")
	q := ask("plain", "", "plain")
	id := r.do(q).header.Get("Holdfast-Intent")
	wait(t, func() bool { // a person is asked: nothing was written, so that nothing can be found
		events, err := r.store.History(t.Context(), id)
		return err == nil && slices.ContainsFunc(events, func(e ledger.Event) bool { return e.Kind == "alert" })
	})
	sum := sha256.Sum256([]byte(q.body))
	for _, e := range r.sim.Effects("plain") {
		if e.BodyHash != hex.EncodeToString(sum[:]) {
			t.Errorf("what is not stored was changed on its way: %+v", e)
		}
	}
}
