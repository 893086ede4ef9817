package gateway_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

const roundWorkflows = `
env: test
providers:
  openai: {type: openai, base_url: "SIM/v1"}
  anthropic: {type: anthropic, base_url: "SIM"}
  gemini: {type: gemini, base_url: "SIM"}
workflows:
  gen: {match: {paths: ["/by-name-only"]}, TIMES}
  gen_strict: {match: {paths: ["/by-name-only"]}, durability: strict, TIMES}
  gen_wait: {match: {paths: ["/by-name-only"]}, idempotency: {on_in_flight: wait}, TIMES}
  gen_conflict: {match: {paths: ["/by-name-only"]}, idempotency: {on_in_flight: conflict}, TIMES}
  gen_cancel: {match: {paths: ["/by-name-only"]}, on_disconnect: cancel, TIMES}
  pipeline: {match: {paths: ["/by-name-only"]}, idempotency: {derive: always}, TIMES}
  "off": {match: {paths: ["/by-name-only"]}, idempotency: {derive: "off"}, TIMES}
  ext: {match: {paths: ["/by-name-only"]}, effect: external, TIMES}
  ext_relaxed: {match: {paths: ["/by-name-only"]}, effect: external, durability: relaxed, TIMES}
  ext_conflict: {match: {paths: ["/by-name-only"]}, effect: external, idempotency: {on_in_flight: conflict}, TIMES}
  default: {TIMES}
`

var roundNames = []string{"gen", "gen_strict", "gen_wait", "gen_conflict", "gen_cancel", "pipeline", "off", "ext", "ext_relaxed", "ext_conflict"}

var roundFaults = []string{"ok", "ok", "ok", "200", "429", "rate_limited", "overloaded", "400", "401", "422", "500", "503", "reset_after_body",
	"fin_after_body", "reply_lost", "reply_lost_fin", "reset_after_head", "hang_after_effect", "hang_after_head", "error_after_effect",
	"garbage", "cut:1", "cut:3", "reset:3", "clean:3", "cut_byte:40", "reset_byte:400", "error:1", "error:4", "reset_before_body"}

// round is one operation: what its clients ask, what the provider does, which of the clients leave.
type round struct {
	op, workflow string
	keyed        bool
	q            request
	leave        []time.Duration // per client; 0 stays
}

func newRound(rng *rand.Rand, i int) (round, []string) {
	d := round{op: fmt.Sprintf("r%d", i), workflow: roundNames[rng.IntN(len(roundNames))], keyed: rng.IntN(4) > 0}
	d.q = roundRequest(rng, d.op).workflow(d.workflow).with("Sim-Op", d.op)
	if d.keyed {
		d.q = d.q.key("key-" + d.op)
	}
	for range 1 + rng.IntN(4) {
		leave := time.Duration(0)
		if rng.IntN(3) == 0 {
			leave = time.Duration(1 + rng.IntN(20_000_000))
		}
		d.leave = append(d.leave, leave)
	}
	steps := make([]string, 1+rng.IntN(3))
	for j := range steps {
		steps[j] = roundFaults[rng.IntN(len(roundFaults))]
	}
	return d, steps
}

// roundRequest names the operation in the model too, by which the log's rows are found again.
func roundRequest(rng *rand.Rand, op string) request {
	stream := rng.IntN(2) == 0
	switch rng.IntN(3) {
	case 0:
		return request{path: "/v1/chat/completions",
			body: fmt.Sprintf(`{"model":"m-%s","stream":%t,"messages":[{"role":"user","content":"op=%s"}]}`, op, stream, op)}
	case 1:
		return request{path: "/v1/messages", header: map[string]string{"Anthropic-Version": "2023-06-01"},
			body: fmt.Sprintf(`{"model":"m-%s","max_tokens":9,"stream":%t,"messages":[{"role":"user","content":"op=%s"}]}`, op, stream, op)}
	}
	method := ":generateContent"
	if stream {
		method = []string{":streamGenerateContent", ":streamGenerateContent?alt=sse"}[rng.IntN(2)]
	}
	return request{path: "/v1beta/models/m-" + op + method, body: fmt.Sprintf(`{"contents":[{"parts":[{"text":"op=%s"}]}]}`, op)}
}

// play sends d's requests together, then one more.
func (r *rig) play(d round) {
	var clients sync.WaitGroup
	for _, leave := range d.leave {
		clients.Go(func() {
			q := d.q
			if leave > 0 {
				ctx, cancel := context.WithTimeout(context.Background(), leave)
				defer cancel()
				q.ctx = ctx
			}
			r.do(q)
		})
	}
	clients.Wait()
	if a := r.do(d.q); a.status == 0 && a.err == nil {
		r.t.Errorf("%s: no answer", d.op)
	}
}

// TestRounds plays seeded random rounds and then holds the log against what the provider saw (semantics 1, 2, 3).
func TestRounds(t *testing.T) {
	rounds, seed := 150, uint64(20261129)
	if os.Getenv("HOLDFAST_FULL") != "" {
		rounds = 1000
	}
	times := "timeouts: {first_token: 400ms, idle: 400ms, attempt: 400ms, total: 500ms, request: 3s, stream: 3s}"
	r := newRig(t, func(c *rigConfig) { c.yaml = strings.ReplaceAll(roundWorkflows, "TIMES", times) })
	rng := rand.New(rand.NewPCG(seed, seed))
	work := make(chan round, rounds)
	byOp := map[string]round{}
	for i := range rounds {
		d, steps := newRound(rng, i)
		r.script(d.op, steps...)
		byOp[d.op] = d
		work <- d
	}
	close(work)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for d := range work {
				r.play(d)
			}
		})
	}
	workers.Wait()
	r.atRest()
	r.law(byOp)
}

// atRest waits until the gateway has given everything back.
func (r *rig) atRest() {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); <-time.After(2 * time.Millisecond) {
		if r.gw.Holding() == (gateway.Holding{}) {
			return
		}
	}
	r.t.Errorf("at rest the gateway still holds %+v", r.gw.Holding())
}

// tally is what the log says of one operation's intents.
type tally struct{ attempts, sent, failed, unknown, intents int }

func (r *rig) law(byOp map[string]round) {
	seen := map[string]*tally{}
	for before := ""; ; {
		page, err := r.store.List(context.Background(), ledger.Filter{Limit: 500, Before: before})
		if err != nil {
			r.t.Fatal(err)
		}
		for _, rec := range page {
			before = rec.ID
			op := strings.TrimPrefix(rec.RequestedModel, "m-")
			if seen[op] == nil {
				seen[op] = &tally{}
			}
			r.count(seen[op], rec)
		}
		if len(page) < 500 {
			break
		}
	}
	for op, d := range byOp {
		r.holds(d, seen[op], int(r.sim.Counts(op).Calls), int(r.sim.Counts(op).Effects))
	}
}

func (r *rig) count(c *tally, rec *ledger.Record) {
	c.intents++
	if rec.State != ledger.Settled && rec.State != ledger.Unknown {
		r.t.Errorf("%s rests in %s", rec.RequestedModel, rec.State)
	}
	history, err := r.store.History(context.Background(), rec.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range history {
		switch {
		case e.Kind == "attempt":
			c.attempts++
			c.sent++
		case e.Kind == "attempt_end" && e.End == ledger.AttemptNotSent:
			c.sent--
		case e.Kind == "attempt_end" && e.End == ledger.AttemptFailed:
			c.failed++
		case e.Kind == "attempt_end" && e.End == ledger.AttemptUnknown:
			if c.unknown++; !e.Billed {
				r.t.Errorf("%s: an unknown attempt is not marked possibly_billed", rec.RequestedModel)
			}
		}
	}
}

func (r *rig) holds(d round, c *tally, calls, effects int) {
	if c == nil {
		c = &tally{}
	}
	// A call that was broken off may not have been seen by the provider; every one that it saw is on record.
	if calls > c.sent || calls < c.sent-c.unknown {
		r.t.Errorf("%s %s: %d upstream calls, %+v", d.op, d.workflow, calls, *c)
	}
	same := d.keyed || d.workflow == "pipeline"
	if same && calls-1 > c.failed+c.unknown {
		r.t.Errorf("%s %s: the law: %d calls, %+v", d.op, d.workflow, calls, *c)
	}
	if d.keyed && strings.HasPrefix(d.workflow, "ext") && effects > 1 {
		r.t.Errorf("%s %s: %d effects of one key", d.op, d.workflow, effects)
	}
}
