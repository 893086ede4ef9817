package crash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// kind is a way to use the gateway.
type kind struct {
	name     string
	workflow string
	keyed    bool
	stream   bool
	external bool
	strict   bool
	weight   int
}

var kinds = []kind{
	{"external", "external", true, false, true, true, 8},
	{"external-stream", "external", true, true, true, true, 3},
	{"plain", "relaxed", true, false, false, false, 3},
	{"stream", "relaxed", true, true, false, false, 3},
	{"strict-plain", "strict", true, false, false, true, 2},
	{"strict-stream", "strict", true, true, false, true, 2},
	{"off-plain", "off", false, false, false, false, 2},
	{"off-stream", "off", false, true, false, false, 2},
}

// Faults of the far side, by its names (docs/sim.md); half of all calls meet none.
var (
	plainFaults = []string{"reply_lost", "reset_after_body", "error_after_effect", "overloaded", "503", "400", "cut:1",
		"reset_after_head", "reset_after_answer"}
	streamFaults = []string{"reply_lost", "overloaded", "503", "cut:2", "reset:3", "clean:2", "error:2", "reset_after_answer"}
)

// op is one intention of a client, over all its requests and all gateways.
type op struct {
	kind
	name     string
	key      string
	body     []byte
	twins    bool // each request is sent twice at once
	stubborn bool // asks once more although it was told not to

	mu    sync.Mutex
	acks  []*answer
	ended string // why its client is content, "" while it is not
}

// newOp draws an operation. Its name is also its model, by which the log tells it apart.
func newOp(rnd *rand.Rand, name string) *op {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	o := &op{name: name}
	at := rnd.IntN(total)
	for _, k := range kinds {
		if at -= k.weight; at < 0 {
			o.kind = k
			break
		}
	}
	if o.keyed {
		o.key, o.twins = "key-"+name, rnd.IntN(4) == 0
	}
	o.stubborn = rnd.IntN(3) == 0
	text := fmt.Sprintf("do it sim:%s op=%s", o.script(rnd), name)
	o.body, _ = json.Marshal(map[string]any{"model": name, "stream": o.stream,
		"messages": []map[string]string{{"role": "user", "content": text}}})
	return o
}

// script is what the far side does with the first calls of an operation; further ones succeed.
func (o *op) script(rnd *rand.Rand) string {
	type step map[string]any
	steps := make([]step, 1+rnd.IntN(2))
	faults := plainFaults
	if o.stream {
		faults = streamFaults
	}
	for i := range steps {
		s := step{"fault": "ok", "work_ms": rnd.IntN(8), "delay_ms": rnd.IntN(8)}
		if rnd.IntN(2) == 0 {
			s["fault"] = faults[rnd.IntN(len(faults))]
		}
		if o.stream {
			s["chunks"], s["event_ms"] = 6, rnd.IntN(3)
		}
		steps[i] = s
	}
	b, _ := json.Marshal(map[string]any{"steps": steps})
	return string(b)
}

// whole says that a 2xx is an answer to its end: a stream may have ended in an error of its own.
func (o *op) whole(a *answer) bool {
	return a.status == http.StatusOK && (!o.stream || bytes.Contains(a.body, []byte("data: [DONE]")))
}

// maxTries bounds how often a client asks within one life of the gateway.
const maxTries = 40

// pursue is the client: it asks until it knows how the operation ended, or the gateway is gone.
func (o *op) pursue(r *rig, base string, gone <-chan struct{}) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	<-pause.C
	for try := 0; try < maxTries; try++ {
		a := o.ask(r, base)
		select {
		case <-gone:
			if a == nil {
				return
			}
		default:
		}
		if o.content(r, a) {
			return
		}
		pause.Reset(time.Duration(try) * time.Millisecond)
		select {
		case <-pause.C:
		case <-gone:
			return
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	r.t.Errorf("op %s (%s): no end after %d requests; last %v", o.name, o.kind.name, maxTries, o.acks[max(0, len(o.acks)-3):])
	o.ended = "gave up"
}

// ask sends the request, or two of them at once, and returns the last whole answer.
func (o *op) ask(r *rig, base string) *answer {
	n := 1
	if o.twins {
		n = 2
	}
	got := make(chan *answer, n)
	for range n {
		go func() {
			header := map[string]string{"Holdfast-Workflow": o.workflow}
			if o.keyed {
				header["Idempotency-Key"] = o.key
			}
			a, err := r.send(base, "/v1/chat/completions", o.body, header)
			if err == nil {
				o.mu.Lock()
				o.acks = append(o.acks, a)
				o.mu.Unlock()
			}
			got <- a
		}()
	}
	var last *answer
	for range n {
		if a := <-got; a != nil && (last == nil || o.whole(a)) {
			last = a
		}
	}
	return last
}

// content decides as a client does: by the answer, then by x-should-retry.
func (o *op) content(r *rig, a *answer) bool {
	switch {
	case a == nil:
		return false
	case o.whole(a):
		o.ended = "answered"
	case a.status == http.StatusOK: // a stream that ended in an error
		return false
	case a.code() == "outcome_unknown":
		o.ended = "unknown"
	case a.code() == "idempotency_key_reused":
		r.t.Errorf("op %s: its own key is refused: %v", o.name, a)
		o.ended = "refused"
	case a.header.Get("X-Should-Retry") == "true":
		return false
	case o.stubborn:
		o.stubborn = false
		return false
	default:
		o.ended = "failed"
	}
	return true
}
