package simulation

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// request is one try as its client saw it.
type request struct {
	op     *op
	client int // -1: the probe
	try    *try
	twist  string

	began, ended time.Time
	counted      bool
	number       int // of the try, from 0
	after        int // Last-Event-ID
	partOf       int // the execution that it resumes
	err          error
	status       int
	header       http.Header
	trailer      http.Header
	body         []byte
	whole        bool // the body came to its end
	left         bool // its client, or the network, broke it
}

func (r *request) String() string {
	return fmt.Sprintf("op %d client %d %s at %v–%v: status %d whole=%t left=%t intent=%s source=%s code=%s err=%v body=%q", r.op.ID, r.client, r.try.Leave,
		r.began.UnixMilli()%1e7, r.ended.UnixMilli()%1e7, r.status, r.whole, r.left, r.intent(), r.header.Get("Holdfast-Source"), r.code(), r.err, r.body)
}

func (r *request) intent() string {
	if v := r.header.Get("Holdfast-Intent"); v != "" {
		return v
	}
	return r.trailer.Get("Holdfast-Intent")
}

func (r *request) code() string {
	if v := r.header.Get("Holdfast-Error"); v != "" {
		return v
	}
	return r.trailer.Get("Holdfast-Error")
}

// client asks until it has an answer.
func (h *history) client(o *op, n int) {
	c := &o.Clients[n]
	time.Sleep(c.At)
	var last *request
	for i := range c.Tries {
		if i > 0 {
			time.Sleep(c.Tries[i].Wait)
		}
		last = h.ask(o, n, last, &c.Tries[i], i, c.Counted && i > 0)
		if last.whole && !last.left && last.status < 300 && last.code() == "" && !bytes.Contains(last.body, []byte(`"error":`)) {
			return
		}
	}
}

// ask makes one request and notes what came.
func (h *history) ask(o *op, n int, last *request, t *try, i int, counted bool) *request {
	r := &request{op: o, client: n, try: t, began: time.Now(), counted: counted, number: i, header: http.Header{}}
	if n >= 0 {
		r.twist = o.Clients[n].Twist
		if r.twist != "" && i == 0 && len(o.Clients[n].Tries) > 1 {
			r.twist = ""
		}
		if o.Clients[n].Resumes && last != nil && last.status == 200 {
			r.resume(last)
		}
	}
	h.mu.Lock()
	h.requests = append(h.requests, r)
	h.mu.Unlock()
	r.err = h.exchange(r, i)
	r.ended = time.Now()
	h.logf("client: %v", r)
	return r
}

// resume asks for what came after the last complete event.
func (r *request) resume(last *request) {
	m := marks(last.body)
	if len(m.executions) != 1 || last.after > 0 {
		return
	}
	body := clean(last.op, last.body)
	r.after, r.partOf = bytes.Count(body, last.op.gap()), m.executions[0]
}

// gap ends an event of the operation's stream.
func (o *op) gap() []byte {
	if o.Wire == "gemini" {
		return []byte("\r\n\r\n")
	}
	return []byte("\n\n")
}

func (h *history) exchange(r *request, i int) error {
	h.mu.Lock()
	p := h.near
	h.mu.Unlock()
	if p == nil {
		return fmt.Errorf("refused")
	}
	k := newLink(r.try.Delay, r.try.Room)
	head := r.headBytes(i)
	conn, err := p.net.dial(context.Background(), k)
	if err != nil {
		return err
	}
	c := conn.(*end)
	defer c.Close()
	total := len(r.exampleBytes(h.plan.Pieces))
	at := int(r.try.Part * float64(total))
	switch r.try.Leave {
	case broken, dark:
		k.breakAfter(0, at+300, r.try.Leave == dark)
		_ = c.SetReadDeadline(time.Now().Add(40 * time.Second))
	case silent:
		k.breakAfter(0, at, true)
		_ = c.SetReadDeadline(time.Now().Add(r.try.After))
	case early:
		leaves := time.AfterFunc(r.try.After, func() { r.left = true; c.abort() })
		defer leaves.Stop()
	}
	if _, err := c.Write(head); err != nil {
		r.left = true
		return err
	}
	return r.read(c, at)
}

// broken says that the network may have broken r.
func (r *request) broken() bool {
	return r.try.Leave == broken || r.try.Leave == dark || r.try.Leave == silent
}

// exampleBytes is as long as this request's answer.
func (r *request) exampleBytes(pieces int) []byte {
	return bytes.Join(answerOf(r.op.path(r.twist), r.op.ID, 10, r.op.Stream, pieces), nil)
}

func (r *request) read(c *end, at int) error {
	resp, err := http.ReadResponse(bufio.NewReaderSize(c, 4<<10), &http.Request{Method: "POST"})
	if err != nil {
		r.left = r.left || r.broken()
		return err
	}
	r.status, r.header = resp.StatusCode, resp.Header
	var b [64]byte
	for {
		n, err := resp.Body.Read(b[:])
		r.body = append(r.body, b[:n]...)
		if err == io.EOF {
			r.whole, r.trailer = true, resp.Trailer
			if r.try.Leave == hears {
				r.left = true
				c.abort()
			}
			return nil
		}
		if err != nil {
			r.left = r.left || r.broken()
			return err
		}
		if len(r.body) >= at {
			switch r.try.Leave {
			case resets:
				r.left = true
				c.abort()
				return nil
			case closes:
				r.left = true
				return nil
			case endless:
				r.left = true
				time.Sleep(70 * time.Second)
				return nil
			}
		}
		time.Sleep(r.try.Slow)
	}
}

func (o *op) path(twist string) string {
	switch {
	case o.Wire == "openai" && twist == "path":
		return "/v1/responses"
	case o.Wire == "anthropic" && twist != "path":
		return "/v1/messages"
	case o.Wire == "openai" || o.Wire == "anthropic":
		return "/v1/chat/completions"
	case o.Stream != (twist == "path"):
		return fmt.Sprintf("/v1beta/models/m%d:streamGenerateContent?alt=sse", o.ID)
	}
	return fmt.Sprintf("/v1beta/models/m%d:generateContent", o.ID)
}

func (o *op) body(twist string) string {
	number := "9007199254740993"
	if twist == "number" {
		number = "9007199254740992"
	}
	if o.Wire == "gemini" {
		return fmt.Sprintf(`{"contents":[{"role":"user","parts":[{"text":"question %d"}]}],"generationConfig":{"seed":%s}}`, o.ID, number)
	}
	stream := ""
	if o.Stream {
		stream = `,"stream":true`
	}
	return fmt.Sprintf(`{"model":"m%d","max_tokens":100,"messages":[{"role":"user","content":"question %d"}],"seed":%s%s}`, o.ID, o.ID, number, stream)
}

func (r *request) headBytes(i int) []byte {
	o, body := r.op, r.op.body(r.twist)
	var b strings.Builder
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAuthorization: Bearer secret-one\r\nContent-Length: %d\r\n", o.path(r.twist), len(body))
	if strings.HasSuffix(o.path(r.twist), "/messages") {
		b.WriteString("Anthropic-Version: 2023-06-01\r\n")
	}
	if o.Workflow != "default" {
		fmt.Fprintf(&b, "Holdfast-Workflow: %s\r\n", o.Workflow)
	}
	if o.Key {
		fmt.Fprintf(&b, "Idempotency-Key: key-%d\r\n", o.ID)
	}
	if r.counted {
		fmt.Fprintf(&b, "X-Stainless-Retry-Count: %d\r\n", i)
	}
	if r.client >= 0 && o.Clients[r.client].Rival {
		fmt.Fprintf(&b, "%s: 1\r\n", rivalHeader)
	}
	if r.after > 0 {
		fmt.Fprintf(&b, "Last-Event-ID: %d\r\n", r.after)
	}
	if r.try.Fresh {
		b.WriteString("Cache-Control: no-cache\r\n")
	}
	if d := r.try.Deadline; d > 0 {
		fmt.Fprintf(&b, "Holdfast-Deadline-Ms: %d\r\n", d.Milliseconds())
	}
	if d := r.try.Timeout; d > 0 {
		fmt.Fprintf(&b, "X-Stainless-Timeout: %d\r\n", int(d.Seconds()))
	}
	return []byte(b.String() + "\r\n" + body)
}

// marked is what an answer says of the executions that it is made of.
type marked struct {
	executions []int
	pieces     []int
	lead       bool
}

var mark = regexp.MustCompile(`\[(\d+):(\d+)\]|<(\d+)>`)

func marks(body []byte) (m marked) {
	seen := map[int]bool{}
	for _, s := range mark.FindAllSubmatch(body, -1) {
		var execution, piece int
		if len(s[3]) > 0 {
			_, _ = fmt.Sscan(string(s[3]), &execution)
			m.lead = true
		} else {
			_, _ = fmt.Sscan(string(s[1]), &execution)
			_, _ = fmt.Sscan(string(s[2]), &piece)
			m.pieces = append(m.pieces, piece)
		}
		if !seen[execution] {
			seen[execution] = true
			m.executions = append(m.executions, execution)
		}
	}
	return m
}

// clean takes the gateway's signs of life out of a body.
func clean(o *op, body []byte) []byte {
	switch o.Wire {
	case "anthropic":
		return bytes.ReplaceAll(body, []byte("event: ping\ndata: {\"type\": \"ping\"}\n\n"), nil)
	case "gemini":
		return bytes.TrimLeft(body, "\n")
	}
	return bytes.ReplaceAll(body, []byte(": keep-alive\n\n"), nil)
}
