package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// numbers hands out the numbers that make requests different, or the keys that are asked for again.
type numbers struct {
	next atomic.Uint64
	end  uint64 // no more after this one; 0: without end
	fix  bool   // always the same
}

func (n *numbers) take() (uint64, bool) {
	if n.fix {
		return 1, true
	}
	v := n.next.Add(1)
	return v, n.end == 0 || v <= n.end
}

// line is a set of open connections to one contender that all send the same kind of request.
type line struct {
	q       *request
	numbers *numbers
	replays bool // every answer must be a replay
	conns   []*conn
}

// patience bounds the wait for an answer, so that a contender that hangs ends the run.
const patience = 30 * time.Second

func openLine(addr string, n int, q *request, numbers *numbers) (*line, error) {
	l := &line{q: q, numbers: numbers}
	for range n {
		c, err := dial(addr)
		if err != nil {
			l.close()
			return nil, err
		}
		l.conns = append(l.conns, c)
	}
	return l, nil
}

func (l *line) close() {
	for _, c := range l.conns {
		_ = c.Close()
	}
}

// sample is what one slice of load showed.
type sample struct {
	requests int64
	elapsed  time.Duration
	latency  *hdrhistogram.Histogram // ns; nil when none was asked for
	first    *hdrhistogram.Histogram // ns until the body began
}

// histogram reaches from 0.1 µs to a minute in steps of 0.1 %.
func histogram() *hdrhistogram.Histogram { return hdrhistogram.New(100, int64(time.Minute), 3) }

// guard sets the slice's deadline and cuts the connections when ctx ends.
func (l *line) guard(ctx context.Context, d time.Duration) (stop func() bool) {
	deadline := time.Now().Add(d + patience)
	for _, c := range l.conns {
		_ = c.SetDeadline(deadline) // a dead connection shows with the next write
	}
	return context.AfterFunc(ctx, l.close)
}

// closed keeps the first n connections busy for d, each with one request after the other. It records latencies
// only on a single connection: at full load the clock would be part of what is measured.
func (l *line) closed(ctx context.Context, n int, d time.Duration) (sample, error) {
	defer l.guard(ctx, d)()
	var total atomic.Int64
	s := sample{}
	if n == 1 {
		s.latency, s.first = histogram(), histogram()
	}
	begin := time.Now()
	end := begin.Add(d)
	err := each(l.conns[:n], func(c *conn) error {
		q, count := l.q.clone(), int64(0)
		defer func() { total.Add(count) }()
		for at := time.Now(); at.Before(end); {
			number, ok := l.numbers.take()
			if !ok {
				return nil
			}
			q.number(number)
			r, err := l.ask(c, q)
			if err != nil {
				return err
			}
			count++
			now := time.Now()
			if s.latency != nil {
				_ = s.latency.RecordValue(int64(now.Sub(at))) // beyond a minute patience has ended
				_ = s.first.RecordValue(int64(r.first.Sub(at)))
			}
			at = now
		}
		return nil
	})
	s.requests, s.elapsed = total.Load(), time.Since(begin)
	return s, wrap(ctx, err)
}

// ask sends one request and says what is wrong with its answer.
func (l *line) ask(c *conn, q *request) (reply, error) {
	r, err := c.do(q)
	switch {
	case err != nil:
		return r, err
	case r.status != http.StatusOK:
		return r, fmt.Errorf("%w: status %d", errReply, r.status)
	case l.replays && !r.replayed:
		return r, fmt.Errorf("%w: a second execution where a replay was due", errReply)
	}
	return r, nil
}

// paced sends rate requests per second for d, whether answers are there or not. A latency counts from the moment
// at which its request was due, so that a stall is charged to every request that it held up.
func (l *line) paced(ctx context.Context, rate int, d time.Duration) (sample, error) {
	defer l.guard(ctx, d)()
	n := max(1, int(d.Seconds()*float64(rate)))
	due := make(chan time.Time, n) // never blocks the clock
	ctx, stop := context.WithCancel(ctx)
	var ticking sync.WaitGroup
	defer ticking.Wait()
	defer stop()
	ticking.Go(func() { clock(ctx, due, n, time.Second/time.Duration(rate)) })
	var mu sync.Mutex
	s := sample{latency: histogram(), first: histogram()}
	begin := time.Now()
	err := each(l.conns, func(c *conn) error {
		q := l.q.clone()
		for at := range due {
			number, ok := l.numbers.take()
			if !ok {
				continue
			}
			q.number(number)
			r, err := l.ask(c, q)
			if err != nil {
				return err
			}
			done := time.Since(at)
			mu.Lock()
			s.requests++
			_ = s.latency.RecordValue(int64(done))
			_ = s.first.RecordValue(int64(r.first.Sub(at)))
			mu.Unlock()
		}
		return nil
	})
	s.elapsed = time.Since(begin)
	return s, wrap(ctx, err)
}

// clock hands out n moments, each when it has come.
func clock(ctx context.Context, due chan<- time.Time, n int, every time.Duration) {
	defer close(due)
	release := preciseSleep()
	defer release()
	at := time.Now()
	for range n {
		if ctx.Err() != nil {
			return
		}
		sleepUntil(at)
		due <- at
		at = at.Add(every)
	}
}

// each runs f for every connection at once and waits for all.
func each(conns []*conn, f func(*conn) error) error {
	return parallel(len(conns), func(i int) error { return f(conns[i]) })
}

// parallel runs f(0) to f(n-1) at once and waits for all. It returns one error: a dead contender fails them alike.
func parallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return cmp.Or(errs...)
}

// wrap prefers the reason for which the run ended over what the connections made of it.
func wrap(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, errReply) || err == nil {
		return err
	}
	return fmt.Errorf("no answer: %w", err)
}
