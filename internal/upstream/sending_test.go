package upstream

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
)

// What Sending refuses never leaves, over each kind of connection, a fresh one and one that was used before; and the next call is
// none the worse for it.
func TestSendingHoldsBack(t *testing.T) {
	refusal := errors.New("not now")
	var heard atomic.Int64
	hear := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { heard.Add(1) })
	plain := listen(t, func(p *peer) {
		for {
			if _, ok := p.request(); !ok {
				return
			}
			heard.Add(1)
			p.say(sizedAnswer)
		}
	})
	overTLS, one := secure(t, false, hear)
	overTwo, two := secure(t, true, hear)
	for name, c := range map[string]struct {
		client  Client
		request *Request
	}{
		"plain":  {newClient(t, Config{}), post(plain, "{}")},
		"large":  {newClient(t, Config{}), post(plain, string(make([]byte, aside+1)))},
		"TLS":    {overTLS, &Request{Method: "POST", Target: one, Body: []byte("{}")}},
		"HTTP/2": {overTwo, &Request{Method: "POST", Target: two, Body: []byte("{}")}},
	} {
		for i, held := range []bool{true, false, true, true, false} {
			heard.Store(0)
			c.request.Sending = func() error {
				if held {
					return refusal
				}
				return nil
			}
			_, _, err := call(t.Context(), c.client, c.request)
			if !held {
				if err != nil || heard.Load() != 1 {
					t.Errorf("%s, call %d: %v, heard %d times", name, i, err, heard.Load())
				}
				continue
			}
			var fault *Error
			if !errors.As(err, &fault) || fault.Sent != None || !errors.Is(err, refusal) || heard.Load() != 0 {
				t.Errorf("%s, call %d: %v, heard %d times", name, i, err, heard.Load())
			}
		}
	}
}
