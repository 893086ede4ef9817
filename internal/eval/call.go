package eval

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/internal/provider"
)

// errLeft says that a call was given up before its end: it is no result.
var errLeft = errors.New("given up")

// call sends a request to a tier and reads its answer to the end. Errors: errLeft.
func (r *rig) call(ctx context.Context, p *Plan, t *Tier, q *Request) (Result, error) {
	out := Result{Line: q.Line, ID: q.ID, Tier: t.Name}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+q.Path, bytes.NewReader(q.Body))
	if err != nil {
		return out, err
	}
	req.Header = headerOf(q.Path)
	for name, values := range p.Header {
		req.Header[name] = values
	}
	req.Header.Set("Holdfast-Workflow", t.workflow)
	began := time.Now()
	resp, err := r.client.Do(req)
	if ctx.Err() != nil {
		return out, errLeft
	}
	if err != nil {
		out.Error, out.Message, out.LatencyMS = "cut", err.Error(), time.Since(began).Milliseconds()
		return out, nil
	}
	defer func() { _ = resp.Body.Close() }()
	out.Status = resp.StatusCode
	a := newAnswer(&q.call, resp, p.config.Limits.MaxResponseBytes)
	broke := a.read(resp.Body, began)
	if ctx.Err() != nil {
		return out, errLeft
	}
	out.LatencyMS = time.Since(began).Milliseconds()
	a.into(&out, resp, broke)
	p.judge(t, q, &out)
	return out, nil
}

// judge adds what does not stand in the answer: whether it fits its schema, and what it cost.
func (p *Plan) judge(t *Tier, q *Request, out *Result) {
	if out.OK {
		out.Chars = utf8.RuneCountInString(out.Answer)
	}
	switch {
	case !out.OK, out.ToolCall && out.Answer == "":
	case q.schema != nil:
		err := q.schema.check(out.Answer)
		valid := err == nil
		if out.SchemaValid = &valid; !valid {
			out.SchemaFault = err.Error()
		}
	case q.schemaFault != "":
		out.SchemaFault = "not judged: " + q.schemaFault
	}
	if out.InputTokens == nil || out.OutputTokens == nil {
		return
	}
	price, known := p.price(cmp.Or(out.ServedModel, p.model(t, q)))
	if !known {
		price, known = p.price(p.model(t, q))
	}
	if known {
		out.CostUSD = dollars(price.Of(*out.InputTokens, *out.OutputTokens))
	}
}

// answer is an answer that is being read.
type answer struct {
	call   *provider.Call
	format provider.Format
	most   int64
	body   bytes.Buffer
	first  *int64
}

func newAnswer(call *provider.Call, resp *http.Response, most int64) *answer {
	return &answer{call: call, format: provider.FormatOf(call, resp.Header.Get("Content-Type")), most: most}
}

func (a *answer) streamed() bool { return a.format == provider.SSE || a.format == provider.JSONArray }

var errTooLong = errors.New("the answer is longer than limits.max_response_bytes")

// read takes the body to its end, and notes when the first content came.
func (a *answer) read(body io.Reader, began time.Time) error {
	var s provider.Stream
	if a.streamed() {
		s = provider.NewStream(a.call, a.format, provider.Limits{})
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := body.Read(buf)
		a.body.Write(buf[:n])
		if s != nil && a.first == nil && n > 0 {
			if s.Feed(buf[:n]) != nil {
				s = nil // what it is, the end says
			} else if s.Progress().Boundary >= 0 {
				ms := time.Since(began).Milliseconds()
				a.first = &ms
			}
		}
		switch {
		case int64(a.body.Len()) > a.most:
			return errTooLong
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// into puts what an answer says into a result. broke is why its body ended early.
func (a *answer) into(out *Result, resp *http.Response, broke error) {
	out.Attempts, _ = strconv.Atoi(resp.Header.Get("Holdfast-Attempts")) // absent: none was made
	out.intent, out.FirstMS = resp.Header.Get("Holdfast-Intent"), a.first
	if out.Status/100 == 2 && a.streamed() {
		a.stream(out)
	} else {
		a.plain(out, resp.Header.Get("Content-Type"))
	}
	out.ServedModel = cmp.Or(resp.Header.Get("Holdfast-Served-Model"), out.ServedModel)
	if broke != nil {
		out.OK = false
		out.Error, out.Message = cmp.Or(out.Error, "cut"), cmp.Or(out.Message, broke.Error())
	}
	if !out.OK {
		out.Error = cmp.Or(resp.Header.Get("Holdfast-Error"), out.Error, "http_"+strconv.Itoa(out.Status))
	}
}

func (a *answer) plain(out *Result, contentType string) {
	body := a.body.Bytes()
	p := provider.PlainAnswer(a.call, out.Status, contentType, body)
	out.OK, out.Stop, out.ServedModel, out.ToolCall = p.Complete, p.Finish, p.ServedModel, p.ToolStarted
	if p.Complete {
		out.Answer = provider.Text(a.call, body)
		out.InputTokens, out.OutputTokens = count(p.Usage.Input), count(p.Usage.Output)
		return
	}
	out.Stop, out.Error, out.Message = "", p.ErrorType, message(body)
}

// count is nil for a number that is not known.
func count(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

func (a *answer) stream(out *Result) {
	e, err := provider.Explain(provider.Recording{API: a.call.Endpoint, Format: a.format.String()}, bytes.NewReader(a.body.Bytes()))
	if err != nil {
		out.Error, out.Message = "malformed", err.Error()
		return
	}
	out.OK, out.Answer, out.ToolCall = e.Ends == provider.Complete, e.Text, e.Tool
	if e.Finish != nil {
		out.Stop = *e.Finish
	}
	if e.Usage != nil {
		out.InputTokens, out.OutputTokens = e.Usage.Input, e.Usage.Output
	}
	if out.OK {
		return
	}
	out.Error, out.Message = a.failure(e.Ends)
}

// failure is why a stream is no answer.
func (a *answer) failure(ends provider.End) (code, words string) {
	if ends != provider.Errored {
		return string(ends), "the stream ended before the answer did"
	}
	s := provider.NewStream(a.call, a.format, provider.Limits{})
	_ = s.Feed(a.body.Bytes()) // Explain has read it
	s.Close()
	return s.Progress().ErrorType, message(s.Progress().ErrorData)
}

// maxMessage bounds what is kept of an error's words.
const maxMessage = 2000

// message are the words of an error in any API's envelope.
func message(body []byte) string {
	doc := gjson.ParseBytes(body)
	if doc.IsArray() {
		doc = doc.Get("0")
	}
	text := ""
	for _, at := range []string{"error.message", "message", "response.error.message", "error"} {
		if v := doc.Get(at); v.Type == gjson.String {
			text = v.Str
			break
		}
	}
	if text == "" && len(body) > 0 {
		text = fmt.Sprintf("%q", body[:min(len(body), 200)])
	}
	return text[:min(len(text), maxMessage)]
}
