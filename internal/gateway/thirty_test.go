package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// throttle is a provider that lets so many calls come in, tells all of them to come again in five seconds, and answers
// from then on.
type throttle struct {
	mu    sync.Mutex
	first map[string]time.Time // when an operation was told to wait
	again map[string]time.Time // when it came again
	all   chan struct{}        // closed when the last of the first has come
	wait  int
}

func (p *throttle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	op := opOf(r)
	p.mu.Lock()
	_, known := p.first[op]
	if known {
		p.again[op] = time.Now()
	} else {
		p.first[op] = time.Now()
		if len(p.first) == p.wait {
			close(p.all)
		}
	}
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if known {
		time.Sleep(100 * time.Millisecond)
		_, _ = io.WriteString(w, completion)
		return
	}
	<-p.all
	p.mu.Lock()
	p.first[op] = time.Now()
	p.mu.Unlock()
	w.Header().Set("Retry-After", "5")
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = io.WriteString(w, `{"error":{"message":"slow down","type":"rate_limit_exceeded","code":"rate_limit_exceeded"}}`)
}

// Thirty workers that are told at the same time to come again in 5 s come when those are over, none before, and not in one
// instant. A restart in between changes nothing (BR-024, design.md §4).
func TestThirtyWorkersAreToldToWait(t *testing.T) {
	for name, restarts := range map[string]bool{"one process": false, "two processes": true} {
		t.Run(name, func(t *testing.T) {
			const workers = 30
			p := &throttle{first: map[string]time.Time{}, again: map[string]time.Time{}, wait: workers}
			inBubble(t, bubbled, p, func(b *bubble) {
				p.all = make(chan struct{})
				var ids []string
				for i := range workers {
					ids = append(ids, b.submit(fmt.Sprint("job-", i), "default"))
				}
				time.Sleep(2 * time.Second)
				if restarts {
					b.close()
					b.start()
				}
				time.Sleep(time.Minute)
				for _, id := range ids {
					if rec := b.get(id); rec.Outcome != ledger.OutcomeSuccess || rec.Attempt != 2 || rec.Crashes != 0 {
						t.Errorf("%+v", rec.Status)
					}
				}
			})
			var came []time.Duration
			for op, at := range p.first {
				came = append(came, p.again[op].Sub(at))
			}
			slices.Sort(came)
			if len(came) != workers || came[0] < 5*time.Second {
				t.Errorf("%d came, the first after %s", len(came), came[0])
			}
			for i := range came[:workers/3] { // a third of them takes a good part of the half second that they are spread over
				if within := came[i+workers*2/3] - came[i]; within < 50*time.Millisecond {
					t.Errorf("%d of %d came within %s: %v", workers*2/3, workers, within, came)
				}
			}
		})
	}
}
