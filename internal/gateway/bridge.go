package gateway

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/internal/provider"
)

// bridged are the facts that travel as trailers once the head has gone out before them (semantics 23).
var bridged = []string{"Holdfast-Intent", "Holdfast-Source", "Holdfast-Attempts", "Holdfast-Requested-Model", "Holdfast-Served-Model",
	"Holdfast-Error", "Holdfast-Fallback", "Holdfast-Fallback-Reason", "Holdfast-Cache", "Holdfast-Notice", "Holdfast-Trail", "Holdfast-Safe-To-Retry", "Holdfast-Stored", "Idempotency-Replayed"}

// bridgeAfter is when a silent wait is bridged: before the client's own patience is half over.
func (c *call) bridgeAfter() time.Duration {
	d := c.wf.BridgeAfter
	if a := announced(c.r.Header); a > 0 {
		d = min(d, a/2)
	}
	return d
}

// firstOf waits for the answer's head. The wait of a stream is bridged with signs of life that every client
// survives, never with the lead-in of an attempt that may be abandoned.
func (c *call) firstOf(cur *cursor, ctx context.Context) (*head, *ending, error) {
	if !c.spec.Stream {
		return cur.begin(ctx, nil)
	}
	timer := time.NewTimer(c.bridgeAfter())
	defer timer.Stop()
	for {
		h, end, err := cur.begin(ctx, timer.C)
		if err != errBridge {
			return h, end, err
		}
		if err := c.bridge(); err != nil {
			return nil, nil, err
		}
		timer.Reset(c.bridgeAfter())
	}
}

// bridge sends one sign of life, with the head that every answer to this call would have before the first one.
func (c *call) bridge() error {
	if !c.bridging {
		c.bridging = true
		h := c.w.Header()
		set(h, "Content-Type", "text/event-stream; charset=utf-8")
		if c.spec.Format == provider.JSONArray {
			set(h, "Content-Type", "application/json; charset=UTF-8")
		}
		set(h, "X-Accel-Buffering", "no")
		h["Trailer"] = bridged
		c.status = http.StatusOK
		c.w.WriteHeader(http.StatusOK)
	}
	if _, err := c.w.Write(provider.KeepAlive(&c.spec, c.spec.Format)); err != nil {
		return err
	}
	return http.NewResponseController(c.w).Flush()
}

// lateError ends a bridged stream that has no answer: its status is out, so the error is an event.
func (c *call) lateError(e *Error) {
	h := c.w.Header()
	c.code = e.Code
	set(h, "Holdfast-Error", string(e.Code))
	set(h, "Holdfast-Safe-To-Retry", e.safe(classes[e.Code], c.effect))
	if c.exec != nil {
		c.operation(h)
	}
	_, err := c.w.Write(e.envelope().InStream(&c.spec, c.spec.Format, nil))
	c.whole = err == nil
}

// fits says that an answer is what the head that went out before it promised.
func (c *call) fits(status int, contentType string) bool {
	return status < 300 && provider.FormatOf(&c.spec, contentType) == c.spec.Format
}

// lateAnswer ends a bridged stream whose answer is none: the provider's own error, or a document.
func (c *call) lateAnswer(cur *cursor, h *head) {
	var body []byte
	for {
		p, _, end, err := cur.next(c.r.Context())
		if err != nil {
			return
		}
		if end != nil || len(body) > maxEvidence {
			c.lateRefusal(h, body)
			return
		}
		body = append(body, p...)
	}
}

// lateDocument ends a bridged stream whose answer is whole, and no stream: it cannot follow the head of one, but it is kept.
func (c *call) lateDocument() {
	out := c.w.Header()
	c.operation(out)
	c.code = CodeIncomplete
	set(out, "Holdfast-Error", string(c.code))
	e := &provider.Error{Code: string(c.code), Status: http.StatusBadGateway, Message: "the answer came as one document where a stream was asked for, behind a wait " +
		"that was bridged as a stream; ask again without stream: true, or raise the workflow's bridge_after"}
	_, err := c.w.Write(e.InStream(&c.spec, c.spec.Format, nil))
	c.whole = err == nil
}

// lateRefusal is the provider's own error behind a bridge: its words in an event.
func (c *call) lateRefusal(h *head, body []byte) {
	if h.status < 300 {
		c.lateDocument()
		return
	}
	e := &provider.Error{Code: "http_" + strconv.Itoa(h.status), Status: h.status, Message: "the provider answered " + strconv.Itoa(h.status)}
	doc := gjson.ParseBytes(body)
	for _, path := range []string{"error.message", "message", "error"} {
		if m := doc.Get(path); m.Type == gjson.String && m.String() != "" {
			e.Message = m.String()
			break
		}
	}
	for _, path := range []string{"error.code", "error.type", "error.status"} {
		if m := doc.Get(path); m.Type == gjson.String && m.String() != "" {
			e.Code = m.String()
			break
		}
	}
	c.operation(c.w.Header())
	c.failedHeaders(c.w.Header(), h)
	_, err := c.w.Write(e.InStream(&c.spec, c.spec.Format, nil))
	c.whole = err == nil
}
