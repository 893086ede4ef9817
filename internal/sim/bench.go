package sim

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
)

// Bench makes a Server answer as fast as it can: prepared bytes, no script, no call log, no effects, only a count of
// requests. It reads HTTP/1.1 by itself, since net/http would cost more than the gateway that is measured.
type Bench struct {
	Size    int           // bytes of text in an answer; 0 is a short sentence
	Chunks  int           // pieces of content in a stream, default 5
	Writes  int           // writes per stream, default 1: all events at once
	Latency time.Duration // before each answer
	Pause   time.Duration // between two writes of a stream
}

// benchServer serves prepared answers.
type benchServer struct {
	cfg     Bench
	ctx     context.Context
	answers map[benchKey]benchAnswer // read only
	count   atomic.Int64
	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	busy    sync.WaitGroup
}

// benchKey is what tells answers apart; models, prompts and tools do not.
type benchKey struct {
	endpoint             string
	stream, array, usage bool
}

// benchAnswer is an answer with its head, cut into writes.
type benchAnswer [][]byte

func newBench(ctx context.Context, cfg Bench, now time.Time) *benchServer {
	b := &benchServer{cfg: cfg, ctx: ctx, answers: map[benchKey]benchAnswer{}, conns: map[net.Conn]struct{}{}}
	const chat = `{"model":"sim","messages":[{"role":"user","content":"bench"}],"max_tokens":64,"input":"bench","contents":[{"parts":[{"text":"bench"}]}]`
	for _, form := range [...]struct{ path, more string }{
		{"/v1/chat/completions", "}"},
		{"/v1/chat/completions", `,"stream":true}`},
		{"/v1/chat/completions", `,"stream":true,"stream_options":{"include_usage":true}}`},
		{"/v1/responses", "}"},
		{"/v1/responses", `,"stream":true}`},
		{"/v1/messages", "}"},
		{"/v1/messages", `,"stream":true}`},
		{"/v1/messages/count_tokens", "}"},
		{"/v1/embeddings", "}"},
		{"/v1beta/models/sim:generateContent", "}"},
		{"/v1beta/models/sim:streamGenerateContent", "}"},
		{"/v1beta/models/sim:streamGenerateContent?alt=sse", "}"},
		{"/tools/bench", "}"},
	} {
		b.prepare(form.path, []byte(chat+form.more), now)
	}
	return b
}

// prepare renders one answer with the code that the scripted server uses, so that both speak the same wire.
func (b *benchServer) prepare(target string, body []byte, now time.Time) {
	r, err := http.NewRequest(http.MethodPost, target, nil)
	if err != nil {
		panic("sim: " + err.Error()) // targets are this package's own
	}
	s := &Server{cfg: Config{Now: func() time.Time { return now }}, effects: newEffectLog(0, time.Now), stored: newStore()}
	x := &exchange{s: s, q: routeRequest(r)}
	x.q.call = 1
	x.q.parse(body)
	x.st = Step{Size: b.cfg.Size, Chunks: b.cfg.Chunks}
	b.answers[keyOf(x.q.endpoint, x.q.array, body)] = b.render(s.answer(x, 1))
}

func keyOf(endpoint string, array bool, body []byte) benchKey {
	k := benchKey{endpoint: endpoint, array: array}
	switch endpoint {
	case "streamGenerateContent":
		k.stream = true
	case "chat.completions", "responses", "messages":
		k.stream = gjson.GetBytes(body, "stream").Bool()
		k.usage = k.stream && endpoint == "chat.completions" && gjson.GetBytes(body, "stream_options.include_usage").Bool()
	}
	return k
}

// render makes the bytes on the wire; a stream is chunked by event and cut into the configured number of writes.
func (b *benchServer) render(rep *reply) benchAnswer {
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 200 OK\r\n")
	_ = rep.header.Write(&head) // a buffer takes everything
	if !rep.chunked {
		body := bytes.Join(rep.pieces, nil)
		fmt.Fprintf(&head, "Content-Length: %d\r\n\r\n%s", len(body), body)
		return benchAnswer{head.Bytes()}
	}
	head.WriteString("Transfer-Encoding: chunked\r\n\r\n")
	writes := min(max(1, b.cfg.Writes), len(rep.pieces))
	out := make(benchAnswer, writes)
	out[0] = head.Bytes()
	for i, p := range rep.pieces {
		w := i * writes / len(rep.pieces)
		out[w] = fmt.Appendf(out[w], "%x\r\n%s\r\n", len(p), p)
	}
	out[writes-1] = append(out[writes-1], "0\r\n\r\n"...)
	return out
}

// serve accepts until the listener closes.
func (b *benchServer) serve(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		if !b.track(conn) {
			return
		}
		go func() {
			defer b.untrack(conn)
			_ = b.talk(conn) // a caller that leaves ends the conversation
		}()
	}
}

func (b *benchServer) track(conn net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		_ = conn.Close()
		return false
	}
	b.conns[conn] = struct{}{}
	b.busy.Add(1)
	return true
}

func (b *benchServer) untrack(conn net.Conn) {
	_ = conn.Close()
	b.mu.Lock()
	delete(b.conns, conn)
	b.mu.Unlock()
	b.busy.Done()
}

func (b *benchServer) close() {
	b.mu.Lock()
	for conn := range b.conns {
		_ = conn.Close()
	}
	b.mu.Unlock()
	b.busy.Wait()
}

// talk answers the requests of one connection.
func (b *benchServer) talk(conn net.Conn) error {
	in := bufio.NewReaderSize(conn, 32<<10)
	var body []byte
	for {
		head, err := readHead(in)
		if err != nil {
			return err
		}
		if body, err = head.readBody(in, body[:0]); err != nil {
			return err
		}
		if err := b.answer(conn, head, body); err != nil {
			return err
		}
		if head.close {
			return nil
		}
	}
}

func (b *benchServer) answer(conn net.Conn, head benchHead, body []byte) error {
	if head.method == http.MethodGet {
		counts := appendJSON(nil, doc{"total", doc{"calls", b.count.Load()}})
		_, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(counts), counts)
		return err
	}
	b.count.Add(1)
	if !b.pause(b.cfg.Latency) {
		return net.ErrClosed
	}
	for i, p := range b.answers[keyOf(head.endpoint, head.array, body)] {
		if i > 0 && !b.pause(b.cfg.Pause) {
			return net.ErrClosed
		}
		if _, err := conn.Write(p); err != nil {
			return err
		}
	}
	return nil
}

func (b *benchServer) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-b.ctx.Done():
		return false
	}
}

// benchHead is what the fast path needs of a request's head.
type benchHead struct {
	method, endpoint string
	array            bool
	length           int
	chunked, close   bool
}

// errBenchHead is a head that the fast path does not understand.
var errBenchHead = errors.New("sim: bench: not an HTTP/1.1 request that could be read")

// readHead reads the request line and the three headers that matter without allocating for the others.
func readHead(in *bufio.Reader) (benchHead, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return benchHead{}, err
	}
	var h benchHead
	method, rest, ok := bytes.Cut(line, []byte(" "))
	target, _, ok2 := bytes.Cut(rest, []byte(" "))
	if !ok || !ok2 {
		return h, errBenchHead
	}
	h.method = http.MethodPost
	if string(method) == http.MethodGet {
		h.method = http.MethodGet
	}
	h.route(target)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return h, err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			return h, nil
		}
		if err := h.header(line); err != nil {
			return h, err
		}
	}
}

// route knows the usual paths by heart and asks the router for others.
func (h *benchHead) route(target []byte) {
	switch string(target) {
	case "/v1/chat/completions":
		h.endpoint = "chat.completions"
	case "/v1/responses":
		h.endpoint = "responses"
	case "/v1/messages":
		h.endpoint = "messages"
	default:
		r, err := http.NewRequest(h.method, string(target), nil)
		if err != nil {
			return
		}
		q := routeRequest(r)
		h.endpoint, h.array = q.endpoint, q.array
	}
}

func (h *benchHead) header(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	switch len(name) {
	case len("Content-Length"):
		if bytes.EqualFold(name, []byte("Content-Length")) {
			n, err := strconv.Atoi(string(bytes.TrimSpace(value)))
			if err != nil || n < 0 || n > maxBody {
				return errBenchHead
			}
			h.length = n
		}
	case len("Transfer-Encoding"):
		h.chunked = h.chunked || bytes.EqualFold(name, []byte("Transfer-Encoding"))
	case len("Connection"):
		h.close = h.close || bytes.EqualFold(name, []byte("Connection")) && strings.EqualFold(string(bytes.TrimSpace(value)), "close")
	}
	return nil
}

func (h *benchHead) readBody(in *bufio.Reader, buf []byte) ([]byte, error) {
	if h.chunked {
		return readChunks(in, buf)
	}
	if cap(buf) < h.length {
		buf = make([]byte, h.length)
	}
	buf = buf[:h.length]
	_, err := io.ReadFull(in, buf)
	return buf, err
}

func readChunks(in *bufio.Reader, buf []byte) ([]byte, error) {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return buf, err
		}
		size, _, _ := strings.Cut(strings.TrimSpace(string(line)), ";")
		n, err := strconv.ParseUint(size, 16, 31)
		if err != nil || len(buf)+int(n) > maxBody {
			return buf, errBenchHead
		}
		at := len(buf)
		buf = append(buf, make([]byte, n)...)
		if _, err := io.ReadFull(in, buf[at:]); err != nil {
			return buf, err
		}
		if _, err := in.ReadSlice('\n'); err != nil || n == 0 { // the last one: no trailers are read
			return buf, err
		}
	}
}
