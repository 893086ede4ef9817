package farside

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Kind is a way to use the gateway.
type Kind struct {
	Name     string
	Workflow string
	Keyed    bool
	Stream   bool
	External bool
	Strict   bool
	Weight   int
}

var kinds = []Kind{
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

// Op is one intention of a client, over all its requests and all gateways.
type Op struct {
	Kind
	Name     string
	Key      string
	Body     []byte
	Twins    bool // each request is sent twice at once
	Stubborn bool // asks once more although it was told not to

	Tries int // how often its client asks at most

	mu    sync.Mutex
	Acks  []*Answer
	Asked []Ask  // every request of it
	Ended string // why its client is content, "" while it is not
}

// Ask is one request as its client saw it.
type Ask struct {
	Called, Returned time.Time
	Answer           *Answer // nil: no whole answer came
}

// NewOp draws an operation. Its name is also its model, by which the log tells it apart.
func NewOp(rnd *rand.Rand, name string) *Op {
	total := 0
	for _, k := range kinds {
		total += k.Weight
	}
	o := &Op{Name: name}
	at := rnd.IntN(total)
	for _, k := range kinds {
		if at -= k.Weight; at < 0 {
			o.Kind = k
			break
		}
	}
	if o.Keyed {
		o.Key, o.Twins = "key-"+name, rnd.IntN(4) == 0
	}
	o.Stubborn = rnd.IntN(3) == 0
	text := fmt.Sprintf("do it sim:%s op=%s", o.script(rnd), name)
	o.Body, _ = json.Marshal(map[string]any{"model": name, "stream": o.Stream,
		"messages": []map[string]string{{"role": "user", "content": text}}})
	return o
}

// script is what the far side does with the first calls of an operation; further ones succeed.
func (o *Op) script(rnd *rand.Rand) string {
	type step map[string]any
	steps := make([]step, 1+rnd.IntN(2))
	faults := plainFaults
	if o.Stream {
		faults = streamFaults
	}
	for i := range steps {
		s := step{"fault": "ok", "work_ms": rnd.IntN(8), "delay_ms": rnd.IntN(8)}
		if rnd.IntN(2) == 0 {
			s["fault"] = faults[rnd.IntN(len(faults))]
		}
		if o.Stream {
			s["chunks"], s["event_ms"] = 6, rnd.IntN(3)
		}
		steps[i] = s
	}
	b, _ := json.Marshal(map[string]any{"steps": steps})
	return string(b)
}

// Whole says that a 2xx is an answer to its end: a stream may have ended in an error of its own.
func (o *Op) Whole(a *Answer) bool {
	return a.Status == http.StatusOK && (!o.Stream || bytes.Contains(a.Body, []byte("data: [DONE]")))
}

// maxTries bounds how often a client asks within one life of the gateway, where Op.Tries does not.
const maxTries = 40

// maxPause is how long a client waits at most before it asks again.
const maxPause = 250 * time.Millisecond

// Pursue is the client: it asks until it knows how the operation ended, or the gateway is gone.
func (o *Op) Pursue(r *Side, base string, gone <-chan struct{}) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	<-pause.C
	tries := maxTries
	if o.Tries > 0 {
		tries = o.Tries
	}
	for try := range tries {
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
		pause.Reset(min(time.Duration(try)*time.Millisecond, maxPause))
		select {
		case <-pause.C:
		case <-gone:
			return
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	r.T.Errorf("op %s (%s): no end after %d requests; last %v", o.Name, o.Kind.Name, tries, o.Acks[max(0, len(o.Acks)-3):])
	o.Ended = "gave up"
}

// ask sends the request, or two of them at once, and returns the last whole answer.
func (o *Op) ask(r *Side, base string) *Answer {
	n := 1
	if o.Twins {
		n = 2
	}
	got := make(chan *Answer, n)
	for range n {
		go func() {
			header := map[string]string{"Holdfast-Workflow": o.Workflow}
			if o.Keyed {
				header["Idempotency-Key"] = o.Key
			}
			called := time.Now()
			a, err := r.Send(base, "/v1/chat/completions", o.Body, header)
			o.mu.Lock()
			o.Asked = append(o.Asked, Ask{called, time.Now(), a})
			if err == nil {
				o.Acks = append(o.Acks, a)
			}
			o.mu.Unlock()
			got <- a
		}()
	}
	var last *Answer
	for range n {
		if a := <-got; a != nil && (last == nil || o.Whole(a)) {
			last = a
		}
	}
	return last
}

// content decides as a client does: by the answer, then by x-should-retry.
func (o *Op) content(r *Side, a *Answer) bool {
	switch {
	case a == nil:
		return false
	case o.Whole(a):
		o.Ended = "answered"
	case a.Status == http.StatusOK: // a stream that ended in an error
		return false
	case a.Code() == "outcome_unknown":
		o.Ended = "unknown"
	case a.Code() == "idempotency_key_reused":
		r.T.Errorf("op %s: its own key is refused: %v", o.Name, a)
		o.Ended = "refused"
	case a.Header.Get("X-Should-Retry") == "true":
		return false
	case o.Stubborn:
		o.Stubborn = false
		return false
	default:
		o.Ended = "failed"
	}
	return true
}
