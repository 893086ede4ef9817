package replicas

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/holdfast-ai/holdfast/test/farside"
)

// chat is a request whose operation is op.
func chat(op string, stream bool) []byte {
	return fmt.Appendf(nil, `{"model":%q,"stream":%v,"messages":[{"role":"user","content":"do it op=%s"}]}`, op, stream, op)
}

// storm sends n equal requests at once through the balancer.
func (r *rig) storm(n int, body []byte, header map[string]string) []*farside.Answer {
	r.t.Helper()
	answers, errs := make([]*farside.Answer, n), make([]error, n)
	barrier := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-barrier
			answers[i], errs[i] = r.Send(r.balancer.URL, "/v1/chat/completions", body, header)
		})
	}
	close(barrier)
	all.Wait()
	for i, err := range errs {
		if err != nil {
			r.t.Fatalf("request %d of %d: %v", i, n, err)
		}
	}
	return answers
}

// BR-004: identical requests with one key meet at one barrier and go to random replicas: one call, everybody has its answer, and
// one more is told the same again.
func TestBR004Barrier(t *testing.T) {
	t.Parallel()
	const twins = 150
	r := newRig(t, "")
	r.start()
	for _, workflow := range []string{"relaxed", "external"} {
		for _, stream := range []bool{false, true} {
			op := fmt.Sprintf("race-%s-%v", workflow, stream)
			r.Script(op, `{"delay_ms":800,"chunks":12,"event_ms":20}`)
			header := map[string]string{"Idempotency-Key": "k-" + op, "Holdfast-Workflow": workflow}
			answers := r.storm(twins, chat(op, stream), header)
			first, replicas := 0, map[string]int{}
			for _, a := range answers {
				replicas[a.Header.Get(replicaHeader)]++
				if a.Status != http.StatusOK || !bytes.Equal(a.Body, answers[0].Body) {
					t.Errorf("%s: another answer than the others': %v\n%s", op, a, answers[0])
				}
				if !a.Replayed() {
					first++
				}
			}
			if len(replicas) != size {
				t.Errorf("%s: the balancer used only %v", op, replicas)
			}
			if first == 0 {
				t.Errorf("%s: all %d answers are marked as replays, nobody's is the execution's", op, twins)
			}
			again := r.storm(1, chat(op, stream), header)[0]
			if again.Status != http.StatusOK || !again.Replayed() || !bytes.Equal(again.Body, answers[0].Body) {
				t.Errorf("%s: asked once more: %v\nwant %s", op, again, answers[0])
			}
			if n := r.CallsOf(op); n != 1 {
				t.Errorf("%s: %d upstream calls for %d requests", op, n, twins+1)
			}
			if n := r.Effects()[op]; n != 1 {
				t.Errorf("%s: %d effects", op, n)
			}
			t.Logf("%s: %d not marked, by replica %v", op, first, replicas)
		}
	}
	r.stop()
	r.verify()
}

// BR-004, where nobody may wait: all but one are told that the first still runs, or have its answer.
func TestBR004Conflict(t *testing.T) {
	t.Parallel()
	const twins = 50
	r := newRig(t, "")
	r.start()
	r.Script("conflict", `{"hold":"race","hold_at":"request"}`)
	header := map[string]string{"Idempotency-Key": "k-race-1", "Holdfast-Workflow": "conflict"}
	done := make(chan *farside.Answer, 1)
	go func() {
		a, err := r.Send(r.balancer.URL, "/v1/chat/completions", chat("conflict", false), header)
		if err != nil {
			t.Errorf("the first: %v", err)
		}
		done <- a
	}()
	r.Await("op=conflict&gate=race&held=1")
	for _, a := range r.storm(twins, chat("conflict", false), header) {
		if a.Status != http.StatusConflict || a.Code() != "request_in_flight" || a.Header.Get("Retry-After") == "" {
			t.Errorf("beside the first: %v", a)
		}
	}
	r.Release("race")
	first := <-done
	if first == nil || first.Status != http.StatusOK || first.Replayed() {
		t.Fatalf("the first: %v", first)
	}
	var again *farside.Answer
	until(t, "the answer is on record", func() bool {
		again = r.storm(1, chat("conflict", false), header)[0]
		return again.Status != http.StatusConflict
	})
	if !again.Replayed() || !bytes.Equal(again.Body, first.Body) {
		t.Errorf("behind it: %v", again)
	}
	if n := r.CallsOf("conflict"); n != 1 {
		t.Errorf("%d upstream calls", n)
	}
	r.stop()
}
