package simulation

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// What a provider can do wrong with one call.
type misdeed string

const (
	works      misdeed = "works"
	refuses    misdeed = "refuses"     // a status, before any effect
	failsAfter misdeed = "fails after" // a 500 behind the effect
	drops      misdeed = "drops"       // a reset, before any effect
	loses      misdeed = "loses"       // the effect, then a reset in the place of the answer
	hangs      misdeed = "hangs"       // the effect, then silence for a time
	cuts       misdeed = "cuts"        // the answer's first bytes, then the connection's end
	stalls     misdeed = "stalls"      // the answer's first bytes, silence for a time, the rest
	errs       misdeed = "errs"        // a stream's own error event in the place of the rest
	stops      misdeed = "stops"       // a clean end of HTTP where the answer has none
	leads      misdeed = "leads"       // the lead-in, silence, then the connection's end
)

// turn is what a provider does with one call.
type turn struct {
	Do     misdeed
	Status int
	Part   float64       // how much of the answer
	Wait   time.Duration // of the silence
	Work   time.Duration // before the effect
	Pace   time.Duration // between two events
	Reset  bool
}

// call is one request as the provider saw it.
type call struct {
	op       int
	number   int // of the execution
	at       time.Time
	ended    time.Time
	effect   bool
	complete bool // the answer was written whole
	answer   [][]byte
	stream   bool
	key      string
}

func (c *call) bytes() []byte { return bytes.Join(c.answer, nil) }

// provider answers every wire format with texts that name their execution.
type provider struct {
	h    *history
	net  *listener
	mu   sync.Mutex
	list []*call
	busy sync.WaitGroup
}

func newProvider(h *history) *provider {
	p := &provider{h: h, net: newListener()}
	p.busy.Go(p.accept)
	return p
}

func (p *provider) accept() {
	for {
		c, err := p.net.Accept()
		if err != nil {
			return
		}
		p.busy.Go(func() { p.serve(c.(*end)) })
	}
}

func (p *provider) close() {
	p.net.kill()
	p.busy.Wait()
}

func (p *provider) calls() []*call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*call(nil), p.list...)
}

func (p *provider) serve(c *end) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if !p.answer(c, r, string(body)) {
			return
		}
	}
}

var modelName = regexp.MustCompile(`"model":"m(\d+)"|/models/m(\d+):`)

// begin enters a call, with the turn that its operation's script has for it.
func (p *provider) begin(r *http.Request, body string) (*call, turn) {
	op := 0
	if m := modelName.FindStringSubmatch(r.URL.Path + body); m != nil {
		_, _ = fmt.Sscan(m[1]+m[2], &op)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, c := range p.list {
		if c.op == op {
			n++
		}
	}
	c := &call{op: op, number: len(p.list) + 1, at: time.Now(), key: r.Header.Get("Idempotency-Key"),
		stream: strings.Contains(body, `"stream":true`) || strings.Contains(r.URL.Path, ":stream")}
	c.answer = answerOf(r.URL.Path, op, c.number, c.stream, p.h.plan.Pieces)
	p.list = append(p.list, c)
	return c, p.h.plan.turn(op, n)
}

// answer plays one turn and says whether the connection goes on.
func (p *provider) answer(c *end, r *http.Request, body string) bool {
	k, t := p.begin(r, body)
	p.h.logf("provider: execution %d of op %d: %+v", k.number, k.op, t)
	defer func() { p.mu.Lock(); k.ended = time.Now(); p.mu.Unlock() }()
	time.Sleep(t.Work)
	switch t.Do {
	case refuses:
		return writePlain(c, t.Status, []byte(fmt.Sprintf(`{"error":{"message":"told to answer %d","type":"told","code":"told"}}`, t.Status))) == nil
	case drops:
		c.abort()
		return false
	}
	p.mu.Lock()
	k.effect = true
	p.mu.Unlock()
	switch t.Do {
	case failsAfter:
		return writePlain(c, 500, []byte(`{"error":{"message":"told to fail","type":"server_error","code":null}}`)) == nil
	case loses:
		c.abort()
		return false
	case hangs:
		time.Sleep(t.Wait)
	}
	whole, keep := p.play(c, k, t)
	p.mu.Lock()
	k.complete = k.complete || whole
	p.mu.Unlock()
	return keep
}

func writePlain(c *end, status int, body []byte) error {
	retry := ""
	if status == 429 || status == 503 {
		retry = "Retry-After: 1\r\n"
	}
	_, err := fmt.Fprintf(c, "HTTP/1.1 %d X\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", status, retry, len(body), body)
	return err
}

// play writes the answer up to where the turn ends it.
func (p *provider) play(c *end, k *call, t turn) (whole, keep bool) {
	total := len(k.bytes())
	limit := total
	switch t.Do {
	case cuts, stalls, stops, errs:
		limit = int(t.Part * float64(total))
	case leads:
		limit = len(k.answer[0])
	}
	if !k.stream {
		return p.playPlain(c, k, t, limit)
	}
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		return false, false
	}
	sent := 0
	for _, piece := range k.answer {
		if sent+len(piece) > limit && t.Do != stalls {
			return false, p.breakOff(c, t, piece[:limit-sent])
		}
		if t.Do == stalls && sent <= limit && sent+len(piece) > limit {
			time.Sleep(t.Wait)
		}
		if writeChunk(c, piece) != nil {
			return false, false
		}
		sent += len(piece)
		if finished(piece) {
			p.mu.Lock()
			k.complete = true
			p.mu.Unlock()
		}
		time.Sleep(t.Pace)
	}
	_, err := io.WriteString(c, "0\r\n\r\n")
	return true, err == nil
}

func (p *provider) playPlain(c *end, k *call, t turn, limit int) (whole, keep bool) {
	body := k.bytes()
	if t.Do != cuts && t.Do != stalls || limit == len(body) {
		return true, writePlain(c, 200, body) == nil
	}
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
	if _, err := io.WriteString(c, head+string(body[:limit])); err != nil {
		return false, false
	}
	if t.Do != cuts {
		time.Sleep(t.Wait)
	}
	if t.Do != stalls {
		p.end(c, t)
		return false, false
	}
	_, err := c.Write(body[limit:])
	return true, err == nil
}

// breakOff ends a stream before its end, in the manner of the turn.
func (p *provider) breakOff(c *end, t turn, part []byte) bool {
	switch t.Do {
	case errs:
		_ = writeChunk(c, []byte("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"told\",\"code\":\"told\"}}\n\n"))
		_, err := io.WriteString(c, "0\r\n\r\n")
		return err == nil
	case stops:
		_, err := io.WriteString(c, "0\r\n\r\n")
		return err == nil
	case leads:
		time.Sleep(t.Wait)
	default:
		if len(part) > 0 {
			_ = writeChunk(c, part)
		}
	}
	p.end(c, t)
	return false
}

func (p *provider) end(c *end, t turn) {
	if t.Reset {
		c.abort()
		return
	}
	_ = c.Close()
}

func writeChunk(w io.Writer, p []byte) error {
	_, err := fmt.Fprintf(w, "%x\r\n%s\r\n", len(p), p)
	return err
}
