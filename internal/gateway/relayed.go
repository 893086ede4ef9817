package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// relay has e show what the gateway that works on r shows. Its end comes over the channel; one that is closed without says that the
// other cannot be reached, or not any more. nil: it is not tried.
func (g *Gateway) relay(ctx context.Context, e *execution, r *ledger.Record) <-chan ending {
	if g.peers == nil {
		return nil
	}
	told := make(chan ending, 1)
	go func() {
		defer close(told)
		if how, ok := g.relayed(ctx, e, r); ok {
			told <- how
		}
	}()
	return told
}

// relayed reads the frames of one relay into e's recording.
func (g *Gateway) relayed(ctx context.Context, e *execution, r *ledger.Record) (how ending, ok bool) {
	whole := ctx
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	q := url.Values{"from": {"0"}}
	if r.Key != "" {
		q.Set("key", r.Key)
	}
	resp, err := g.peers.Do(ctx, r.LeaseOwner, http.MethodGet, peerPrefix+"executions/"+url.PathEscape(r.ID)+"?"+q.Encode(), nil, nil)
	if err != nil {
		return how, false
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return how, false
	}
	// Its silence ends the relay: a peer that stands still is as good as none.
	idle := time.AfterFunc(peerIdle, stop)
	defer idle.Stop()
	in := &mirroring{e: e, body: resp.Body, idle: idle, ctx: ctx}
	how, err = in.run()
	if err != nil && ctx.Err() != nil && whole.Err() == nil {
		g.peers.Silent(r.LeaseOwner)
	}
	return how, err == nil && !how.again
}

// mirroring is one relay as it comes in.
type mirroring struct {
	e    *execution
	body io.Reader
	idle *time.Timer
	ctx  context.Context
	head *head
	buf  []byte
}

func (in *mirroring) run() (ending, error) {
	for {
		kind, p, err := readFrame(in.body, in.buf)
		if in.buf = p; err != nil {
			return ending{}, err
		}
		in.idle.Reset(peerIdle)
		switch kind {
		case frameAlive:
		case frameHead:
			err = in.begin(p)
		case frameBytes:
			err = in.take(p)
		case frameEnd:
			return in.end(p)
		default:
			err = errFrame
		}
		if err != nil {
			return ending{}, err
		}
	}
}

// begin takes the head. That of a whole answer is shown with its end: it says how long the answer is.
func (in *mirroring) begin(p []byte) error {
	var h relayedHead
	if err := json.Unmarshal(p, &h); err != nil || in.head != nil {
		return errFrame
	}
	e := in.e
	in.head = &head{status: h.Status, header: h.Header, stream: h.Stream, failed: h.Failed, unknown: h.Unknown, unrecorded: h.Unrecorded, pending: h.Pending}
	e.mu.Lock()
	e.tries, e.tier, e.served, e.fallback, e.because, e.left = h.Tries, h.Tier, h.Served, h.Fallback, h.Because, h.Left
	e.mu.Unlock()
	if h.Stream {
		e.rec.open(in.head)
	}
	return nil
}

// take shows what has come. Beyond what may be kept the slowest client here has the other gateway wait.
func (in *mirroring) take(p []byte) error {
	e := in.e
	if in.head == nil {
		return errFrame
	}
	if in.head.stream && e.rec.length()+int64(len(p)) > e.g.policy.Limits.MaxResponseBytes {
		e.rec.drop()
	}
	if n := e.rec.append(p); n < len(p) {
		if !in.head.stream {
			return errFrame // there is no room for it here; the log has it
		}
		e.rec.drop()
		e.rec.append(p[n:])
	}
	if in.head.stream {
		e.rec.show(e.rec.length())
	}
	in.idle.Stop()
	defer in.idle.Reset(peerIdle)
	return e.rec.waitRoom(in.ctx)
}

func (in *mirroring) end(p []byte) (ending, error) {
	var end relayedEnd
	if err := json.Unmarshal(p, &end); err != nil {
		return ending{}, errFrame
	}
	e := in.e
	if in.head != nil {
		e.answered = &stored{at: end.At}
		e.rec.pending(end.Pending)
		e.rec.open(in.head)
	}
	return ending{fail: end.Fail, tail: end.Tail, abort: end.Abort, again: end.Again, whole: in.head != nil}, nil
}
