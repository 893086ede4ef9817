package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// stdioSink writes to a client that reads lines.
type stdioSink struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

func (o *stdioSink) put(raw []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		_, o.err = o.w.Write(append(oneLine(raw), '\n'))
	}
}

func (o *stdioSink) answer(raw []byte) { o.put(raw) }
func (o *stdioSink) drop()             {}

func (o *stdioSink) refuse(id []byte, e *sendError) {
	o.put(failure(id, codeInternal, e.Error()+": "+string(e.body[:min(len(e.body), 1024)])))
}

// lastWait is how long answers are waited for once a stdio client has said all that it will.
const lastWait = 30 * time.Second

// leaveWait is the same for one who is told to end.
const leaveWait = 1500 * time.Millisecond

// ServeStdio serves one client that speaks over in and out, until in ends or ctx does. name is a server of the configuration, or one
// that was added.
func (p *Proxy) ServeStdio(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	srv := p.server(name)
	if srv == nil {
		return fmt.Errorf("there is no MCP server %q in the configuration; add it under mcp.servers", name)
	}
	return p.serveStdio(ctx, srv, Caller{Tenant: p.tenant()}, in, out)
}

func (p *Proxy) serveStdio(ctx context.Context, srv *server, who Caller, in io.Reader, out io.Writer) error {
	s, err := p.open(srv, who, nil)
	if err != nil {
		return err
	}
	to := &stdioSink{w: out}
	s.home = to
	defer p.end(s)
	ended := make(chan error, 1)
	go func() { ended <- s.readStdio(in, to) }() // ends with in, which the process's end closes
	select {
	case err = <-ended:
	case <-ctx.Done(): // whoever ends us kills us soon after
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(context.WithoutCancel(ctx), leaveWait)
		defer stop()
	case <-p.halted:
		return nil
	}
	s.settle(ctx)
	return err
}

// readStdio takes the client's messages until there are no more.
func (s *session) readStdio(in io.Reader, to sink) error {
	l := newLines(in, s.p.limits().MaxRequestBytes)
	for {
		line, err := l.next()
		var big *oversized
		switch {
		case errors.As(err, &big):
			to.answer(failure(big.id(), codeInvalidRequest, errTooLarge.Error()))
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the client: %w", err)
		default:
			s.fromLine(line, to)
		}
	}
}

func (s *session) fromLine(line []byte, to sink) {
	each, err := batch(line, s.p.depth())
	if err != nil {
		code := codeInvalidRequest
		if errors.Is(err, errNotRPC) {
			code = codeParse
		}
		to.answer(failure(tooLong(nil, line).id(), code, err.Error()))
		return
	}
	for _, m := range each {
		s.fromClient(m, head{}, to)
	}
}

// settle waits for what is on its way, at most lastWait.
func (s *session) settle(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, lastWait)
	defer stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for s.busy() {
		select {
		case <-ctx.Done():
			return
		case <-s.p.halted:
			return
		case <-tick.C:
		}
	}
}
