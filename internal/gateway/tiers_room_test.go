package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/sim"
)

// apart has tiers of each format, and prompts, so that none is sent what another is.
const apart = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: "sk-a", headers: {X-Tier: pro}}
  anthropic: {type: anthropic, base_url: "SIM", api_key: "sk-b", headers: {X-Tier: flash}}
  gemini: {type: gemini, base_url: "SIM", api_key: "sk-c", headers: {X-Tier: last}}
  local: {type: openai, base_url: "SIM/v1", api_key: "sk-d", headers: {X-Tier: local}}
limits: {body_memory: MEMORY}
workflows:
  several:
    match: {paths: ["/by-name-only"]}
    retry: {max_attempts: 1}
    fallback: {contract: {id: any}}
    tiers:
      - {name: pro, provider: openai}
      - {name: flash, provider: anthropic, model: claude-haiku-4-5}
      - {name: last, provider: gemini, model: gemini-2.5-flash}
      - {name: local, provider: local, prompt: {system: "Short."}}
  told: {match: {paths: ["/by-name-only"]}, tiers: [{name: flash, provider: anthropic, model: claude-haiku-4-5}]}
  varied:
    match: {paths: ["/by-name-only"]}
    fallback: {contract: {id: any}}
    tiers: [{name: local, provider: local, prompt: {system: "Short."}}, {name: pro, provider: openai}]
  default: {}
`

func apartRig(t *testing.T, memory string) *rig {
	return newRig(t, func(c *rigConfig) { c.yaml = strings.Replace(apart, "MEMORY", memory, 1) })
}

// long is a request of half a megabyte.
func long(op, workflow string) (request, int64) {
	q := chat(op).workflow(workflow)
	q.body = strings.Replace(q.body, `"content":"`, `"content":"`+strings.Repeat("lorem ipsum ", 40_000), 1)
	return q, int64(len(q.body))
}

// What a tier is sent in the place of the request is made when that tier's turn comes, counts against limits.body_memory for as long
// as the call may go there, and no longer.
func TestTiersAreMadeInTheirTurn(t *testing.T) {
	r := apartRig(t, "16MiB")
	r.atTier("turns", "pro", `{"hold":"pro","status":503}`)
	r.atTier("turns", "flash", `{"hold":"flash","status":529}`)
	r.atTier("turns", "last", `{"hold":"last"}`)
	q, size := long("turns", "several")
	answer := make(chan *answered)
	go func() { answer <- r.do(q) }()
	const slack = 64 << 10 // for what is read of answers
	for _, at := range []struct {
		gate   string
		bodies int64
	}{{"pro", 1}, {"flash", 2}, {"last", 2}} {
		if err := r.sim.WaitHeld(t.Context(), at.gate, 1); err != nil {
			t.Fatal(err)
		}
		if _, held, _ := r.gw.Held(); held < at.bodies*size-slack || held > at.bodies*size+slack {
			t.Errorf("at %s %d bytes are counted, of a request of %d", at.gate, held, size)
		}
		r.sim.Release(at.gate)
	}
	if a := <-answer; a.status != 200 || a.header.Get("Holdfast-Source") != "last" {
		t.Errorf("%d %v", a.status, a.header)
	}
	r.atRest()
}

// A tier for whose request there is no room is passed over; the only one is refused as a body is that finds none.
func TestTiersWithoutRoom(t *testing.T) {
	r := apartRig(t, "700KiB")
	r.atTier("room", "pro", `{"status":503}`)
	q, _ := long("room", "several")
	a := r.do(q)
	if a.status == 200 || !strings.Contains(a.header.Get("Holdfast-Trail"), "flash; skipped; rule=limits.body_memory") {
		t.Errorf("%d %v", a.status, a.header)
	}
	r.calls("room", 1)
	q, _ = long("alone", "told")
	if a := r.must(q, http.StatusServiceUnavailable); a.code() != string(gateway.CodeShed) {
		t.Errorf("%v %s", a.header, a.body)
	}
	r.calls("alone", 0)
	r.must(chat("short").workflow("told"), 200)
	r.atRest()
}

// A refusal behind which another tier answers is billed: what it used counts for the day, also behind a restart (semantics 39).
func TestRefusalIsPaid(t *testing.T) {
	for _, q := range []request{chat("no").workflow("filtered"), chat("no", `,"stream":true,"stream_options":{"include_usage":true}`).workflow("filtered")} {
		r := newRig(t, func(c *rigConfig) {
			c.yaml = strings.NewReplacer("ODD", "http://127.0.0.1:9", "{on: [content_filter]}", "{on: [content_filter]}\n    spend: {per_day: 1000}",
				"big: {", "big: {input_cost: 1000, output_cost: 1000, ", "wide: {", "wide: {input_cost: 1000, output_cost: 1000, ").Replace(tiers)
		})
		refusal := `{"text":"","chunks":0,"finish":"content_filter"}`
		if strings.Contains(q.body, `"stream"`) {
			refusal = `{"headers":{"Content-Type":"text/event-stream"},"body":"data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"content_filter\"}]}\n\ndata: {\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{\"prompt_tokens\":900,\"completion_tokens\":0,\"total_tokens\":900}}\n\ndata: [DONE]\n\n"}`
		}
		r.atTier("no", "pro", refusal)
		a := r.must(q, 200)
		rec := r.settled(a.header.Get("Holdfast-Intent"))
		answer := float64(rec.UsageIn+rec.UsageOut) / 1000
		both := r.gw.SpentToday("filtered", "")
		if a.header.Get("Holdfast-Source") != "flash" || answer <= 0 || both <= answer {
			t.Errorf("$%g are counted, the second tier's answer alone has cost $%g", both, answer)
		}
		if rec.BilledMaybe != 1 {
			t.Errorf("%d attempts may have been billed beside the answer's", rec.BilledMaybe)
		}
		r.close()
		r.start(rigConfig{})
		if again := r.gw.SpentToday("filtered", ""); again <= answer {
			t.Errorf("$%g are counted behind a restart", again)
		}
	}
}

// What a client says of its account at the provider that its path names is no other provider's business, of whatever format.
func TestAccountHeadersStay(t *testing.T) {
	r := tiersRig(t, "")
	r.atTier("account", "pro", `{"status":503}`)
	q := chat("account").workflow("pair").with("Openai-Organization", "org-1", "Openai-Project", "proj-1", "X-Goog-User-Project", "p", "X-Trace", "t")
	r.must(q, 200)
	for i, call := range r.sim.Calls("account") {
		for _, name := range []string{"Openai-Organization", "Openai-Project", "X-Goog-User-Project"} {
			if got := call.Headers[name]; (got != "") != (i == 0) {
				t.Errorf("attempt %d was sent %s: %q", i+1, name, got)
			}
		}
		if call.Headers["X-Trace"] != "t" {
			t.Errorf("attempt %d was sent %v", i+1, call.Headers)
		}
	}
	r.calls("account", 2)
}

// Where nothing bounds the answer a tier's prompt does: by the name that every server of the shape knows.
func TestPromptBoundByTheOldName(t *testing.T) {
	r := apartRig(t, "16MiB")
	yaml := strings.Replace(apart, `system: "Short."`, `max_tokens: 9`, 1)
	r.reload(strings.Replace(yaml, "MEMORY", "16MiB", 1))
	for _, tier := range []string{"pro", "flash", "last"} {
		r.atTier("bound", tier, `{"status":503}`)
	}
	r.must(chat("bound").workflow("several"), 200)
	calls := r.sim.Calls("bound")
	if body := calls[len(calls)-1].Body; !strings.Contains(body, `"max_tokens":9`) || strings.Contains(body, "max_completion_tokens") {
		t.Errorf("sent %s", body)
	}
}

// Who gets an answer again hears why its model has another name than the one that was asked for, as who got it first did.
func TestReasonIsReplayed(t *testing.T) {
	r := newRig(t)
	if err := r.sim.AddRules(sim.Rule{Match: sim.Match{Op: "dated"}, Steps: []sim.Step{{Model: "gpt-5-2026-01-01"}}, Times: -1}); err != nil {
		t.Fatal(err)
	}
	first := r.must(chat("dated").key("dated"), 200)
	reason := first.header.Get("Holdfast-Fallback-Reason")
	if reason == "" || first.header.Get("Holdfast-Served-Model") != "gpt-5-2026-01-01" {
		t.Fatalf("%v", first.header)
	}
	for range 2 {
		r.settled(first.header.Get("Holdfast-Intent"))
		if again := r.must(chat("dated").key("dated"), 200); again.header.Get("Holdfast-Fallback-Reason") != reason || again.header.Get("Idempotency-Replayed") == "" {
			t.Errorf("%v", again.header)
		}
		r.close()
		r.start(rigConfig{})
	}
}

// Where a job begins is found when it is submitted: what its tier would be sent is made for that, and let go.
func TestSubmittedJobHoldsNothing(t *testing.T) {
	r := apartRig(t, "16MiB")
	q, _ := long("submitted", "varied")
	if a := r.submitBy(q); a.err != nil {
		t.Fatal(a.err)
	}
	wait(t, func() bool { return r.sim.Counts("submitted").Calls == 1 })
	r.atRest()
}

// A refusal of a provider's policy on content is an answer: where the tier that might give another has no place, the client has it.
func TestRefusalWithoutAnotherPlace(t *testing.T) {
	stream := `{"headers":{"Content-Type":"text/event-stream"},"body":"data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"content_filter\"}]}\n\ndata: [DONE]\n\n"}`
	for step, q := range map[string]request{`{"text":"","chunks":0,"finish":"content_filter"}`: chat("shut"), stream: streamed("shut")} {
		r := tiersRig(t, "")
		r.must(chat("warm").workflow("filtered"), 200)
		r.atTier("warm-flash", "pro", `{"status":503}`)
		r.must(chat("warm-flash").workflow("pair"), 200)
		if _, err := r.routes.Pause("spare/*", "maintenance"); err != nil {
			t.Fatal(err)
		}
		r.atTier("shut", "pro", step)
		a := r.must(q.workflow("filtered"), 200)
		if a.header.Get("Holdfast-Source") != "pro" || !strings.Contains(string(a.body), "content_filter") || a.header.Get("Holdfast-Error") != "" {
			t.Errorf("%v %s", a.header, a.body)
		}
		r.calls("shut", 1)
		r.atRest()
	}
}
