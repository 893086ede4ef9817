package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// bulkConnections is few, so that what is measured is the work per byte.
const bulkConnections = 4

// bulk measures streams of 1 MB: 4,000 events in 32 writes.
func (r *run) bulk(ctx context.Context) (err error) {
	if !r.wants(Bulk) {
		return nil
	}
	g, err := r.newRig(Bulk, "--bench", "--size", "250000", "--chunks", "4000", "--bench-writes", "32")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	s := &scenario{name: Bulk, conns: bulkConnections, request: newRequest("POST", chatPath, chatBody(unnumbered, `,"stream":true`), credential)}
	r.progress("%s", Bulk)
	m := mode{load: func(ctx context.Context, l *line) (sample, error) { return l.closed(ctx, len(l.conns), r.slice) }}
	full, err := r.alternate(ctx, g, s, m)
	if err != nil {
		return fmt.Errorf("%s: %w", Bulk, err)
	}
	r.report.titles[Bulk] = "streams of 1 MB in 4,000 events, durable, recorded"
	r.report.throughput(r, s, full)
	f := cpuFigure(Bulk, "CPU per stream", full)
	r.report.add(f.atMost(f.Holdfast/f.Reference, bulkCPU, "≤ 2.00"))
	r.report.add(memoryFigure(Bulk, "memory", full, math.NaN(), ""))
	return nil
}

// stalled lets a stream begin and then say nothing.
const stalled = `{"default": {"fault": "stall:3"}}`

// dialers is how many streams are opened at the same time.
const dialers = 64

// idle measures the memory that open streams take while nothing comes.
func (r *run) idle(ctx context.Context) error {
	if !r.wants(Idle) {
		return nil
	}
	n, note := r.cfg.IdleStreams, ""
	// Each stream takes two files in the process in the middle.
	if most := int(min(openFiles(uint64(2*n+1000)), math.MaxInt32)); 2*n+1000 > most {
		n = max(1, (most-1000)/2)
		note = fmt.Sprintf("only %d: the limit on open files is %d, see ulimit -n", n, most)
	}
	script := filepath.Join(r.dir, "stall.json")
	if err := os.WriteFile(script, []byte(stalled), 0o600); err != nil {
		return err
	}
	g, err := r.newRig(Idle, "--script", script)
	if err != nil {
		return err
	}
	defer g.kill() // its calls never end by themselves
	held := result{}
	for _, c := range g.contenders()[1:] {
		r.progress("%s: %d streams through %s", Idle, n, c.name)
		rss, err := r.hold(ctx, c, n)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", Idle, c.name, err)
		}
		held[c.name] = &series{rss: rss, unmeasured: rss == 0}
	}
	r.report.titles[Idle] = fmt.Sprintf("%d open streams that wait for their next event", n)
	bound, text := math.NaN(), ""
	if n >= idleAt {
		bound, text = idleMB, "≤ 600 MB"
	}
	f := memoryFigure(Idle, "memory", held, bound, text)
	f.Note = note
	r.report.add(f)
	return nil
}

// hold opens n streams to c and returns the memory that it then holds.
func (r *run) hold(ctx context.Context, c contender, n int) (int64, error) {
	q := newRequest("POST", chatPath, chatBody(unnumbered, `,"stream":true`), credential)
	seats := make([]*conn, n)
	defer func() {
		for _, s := range seats {
			if s != nil {
				_ = s.Close()
			}
		}
	}()
	err := parallel(min(dialers, n), func(first int) error {
		q := q.clone()
		for i := first; i < n; i += dialers {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			q.number(uint64(i))
			s, err := openStream(c.addr, q)
			if err != nil {
				return fmt.Errorf("stream %d: %w", i, err)
			}
			seats[i] = s
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	rss, err := rssOf(c.pid)
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, nil
	}
	return rss, err
}

// openStream returns when the first bytes of the answer are there. What follows waits in the socket: a buffer for
// each would be the load generator's memory only.
func openStream(addr string, q *request) (*conn, error) {
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(patience)) // a dead connection shows with the next write
	got, _, err := c.begin(q)
	if err == nil && got.status != http.StatusOK {
		err = fmt.Errorf("%w: status %d", errReply, got.status)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.buf = nil
	return c, nil
}
