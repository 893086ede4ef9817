package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
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
	o.put(failure(id, codeInternal, refusalWords(e)))
}

// errorMost bounds what of an HTTP refusal's body a stdio client gets, in bytes.
const errorMost = 1024

// refusalWords are an HTTP refusal for a client that sees no HTTP: what its body says, not the body.
func refusalWords(e *sendError) string {
	said := string(e.body[:min(len(e.body), errorMost)])
	if gjson.ValidBytes(e.body) {
		said = ""
		for _, path := range [...]string{"error.message", "error_description", "message", "detail", "error"} {
			if v := gjson.GetBytes(e.body, path); v.Type == gjson.String {
				said = v.Str[:min(len(v.Str), errorMost)]
				break
			}
		}
	}
	said = strings.TrimSpace(strings.ToValidUTF8(said, ""))
	switch {
	case said == "":
		return e.Error()
	case e.header.Get("Holdfast-Error") != "": // of the engine that this proxy works through
		return strings.TrimPrefix(said, "holdfast: ")
	}
	return e.Error() + ": " + said
}

// CanRun says why a server's command cannot be started: that is told when a client begins, where a person looks.
func CanRun(program string) error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("the MCP server's command cannot be run: %w; install it, or name its whole path", err)
	}
	return nil
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
		return errors.New(p.noServer(name))
	}
	if len(srv.command.Args) > 0 {
		if err := CanRun(srv.command.Args[0]); err != nil {
			return err
		}
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
