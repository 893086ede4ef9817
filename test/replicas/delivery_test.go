package replicas

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-ai/holdfast/test/farside"
)

// loss is a moment at which a client loses its connection.
type loss struct {
	name   string
	stream bool
	step   string // what the far side does; GATE is the operation's own
	lose   func(r *rig, base, op string, body []byte, header map[string]string)
}

var losses = []loss{
	{"before the head", false, `{"hold":"GATE","hold_at":"head"}`, loseHeld},
	{"before a stream's head", true, `{"chunks":8,"hold":"GATE","hold_at":"head"}`, loseHeld},
	{"in the middle of a stream", true, `{"chunks":8,"hold":"GATE","hold_at":"event","hold_n":4}`, loseStream},
	{"right behind the last byte", false, `"ok"`, loseWhole},
	{"right behind a stream's last byte", true, `{"chunks":8}`, loseWhole},
}

// A client whose answer is lost, at any moment, asks again and comes to another replica: one upstream call, and it has the whole answer.
func TestDelivery(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.start()
	for _, l := range losses {
		for _, keyed := range []bool{false, true} {
			for i := range size {
				r.deliver(l, keyed, fmt.Sprintf("pair-%d", i), r.replicas[i].p.URL, r.replicas[(i+1)%size].p.URL)
			}
			var all sync.WaitGroup
			for i := range 8 { // wherever the balancer brings them
				all.Go(func() { r.deliver(l, keyed, fmt.Sprintf("any-%d", i), r.balancer.URL, r.balancer.URL) })
			}
			all.Wait()
		}
	}
	r.stop()
	r.verify()
}

// deliver loses one answer at one replica and asks for it at another.
func (r *rig) deliver(l loss, keyed bool, name, first, second string) {
	op := fmt.Sprintf("%s-%s-%v", strings.ReplaceAll(l.name, " ", "-"), name, keyed)
	op = strings.ReplaceAll(op, "'", "")
	r.Script(op, strings.ReplaceAll(l.step, "GATE", op))
	header := map[string]string{}
	if keyed {
		header["Idempotency-Key"] = "key-" + op
	}
	body := chat(op, l.stream)
	l.lose(r, first, op, body, header)
	header["X-Stainless-Retry-Count"] = "1"
	again := make(chan *farside.Answer, 1)
	go func() {
		a, err := r.Send(second, "/v1/chat/completions", body, header)
		if err != nil {
			r.t.Errorf("%s: asked again: %v", op, err)
		}
		again <- a
	}()
	var a *farside.Answer
	if !strings.Contains(l.step, "GATE") {
		a = <-again
	}
	for a == nil && strings.Contains(l.step, "GATE") { // also for whoever is held there against all rules
		r.Release(op)
		select {
		case a = <-again:
			if a == nil {
				return
			}
		default:
			r.pause()
		}
	}
	if a == nil {
		return
	}
	if a.Status != http.StatusOK || l.stream && !bytes.Contains(a.Body, []byte("data: [DONE]")) {
		r.t.Errorf("%s (%s): asked again at another replica: %v", op, l.name, a)
	}
	if n := r.CallsOf(op); n != 1 {
		r.t.Errorf("%s (%s): %d upstream calls, want 1; the second answer: %v", op, l.name, n, a)
	}
}

// loseHeld leaves when the far side has the call.
func loseHeld(r *rig, base, op string, body []byte, header map[string]string) {
	ctx, leave := context.WithCancel(r.t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		resp, err := r.open(ctx, base, body, header)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body) // until it leaves
			_ = resp.Body.Close()
		}
	}()
	r.Await("op=" + op + "&calls=1&gate=" + op + "&held=1")
	leave()
	<-gone
}

// loseStream leaves behind the first event.
func loseStream(r *rig, base, op string, body []byte, header map[string]string) {
	ctx, leave := context.WithCancel(r.t.Context())
	defer leave()
	resp, err := r.open(ctx, base, body, header)
	if err != nil {
		r.t.Errorf("%s: %v", op, err)
		return
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	for in.Scan() {
		if strings.HasPrefix(in.Text(), "data:") && strings.Contains(in.Text(), `"content":"`) {
			return
		}
	}
	r.t.Errorf("%s: the stream ended before its middle: %v", op, in.Err())
}

// loseWhole reads everything and then resets the connection, as if nothing had come.
func loseWhole(r *rig, base, op string, body []byte, header map[string]string) {
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		r.t.Errorf("%s: %v", op, err)
		return
	}
	defer c.Close()
	req, err := http.NewRequest(http.MethodPost, base+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		r.t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	if err := req.Write(c); err != nil {
		r.t.Errorf("%s: %v", op, err)
		return
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if err != nil {
		r.t.Errorf("%s: %v", op, err)
	}
	_ = c.(*net.TCPConn).SetLinger(0) // its end is an RST
}

func (r *rig) open(ctx context.Context, base string, body []byte, header map[string]string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	return direct.RoundTrip(req)
}
