package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
)

// formatOf chooses how to read an answer by the answer, not by the request: a stream that was asked for may come
// as one document, an error page or nothing.
func (e *execution) formatOf(resp *upstream.Response) provider.Format {
	return provider.FormatOf(e.asked(), header(resp, "Content-Type"))
}

// hidden says that an answer is in a coding that nobody asked for, so that it cannot be read.
func hidden(resp *upstream.Response) bool {
	coding := header(resp, "Content-Encoding")
	return coding != "" && !strings.EqualFold(coding, "identity")
}

func header(resp *upstream.Response, name string) string {
	if v := resp.Header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// errTooLarge says that an answer passed max_response_bytes, or the memory for bodies.
var errTooLarge = errors.New("the answer is over limits.max_response_bytes")

// take reads a whole body into the recording. It returns errTooLarge with what was read so far, io.EOF never.
func (e *execution) take(body upstream.Body) error {
	limit := e.g.policy.Limits.MaxResponseBytes
	for {
		p, ok := e.rec.space()
		if !ok {
			return errTooLarge
		}
		n, err := body.Read(p)
		e.rec.wrote(n)
		if e.rec.size > limit {
			return errTooLarge
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// plain reads an answer that is one document: nothing of it leaves before all of it is here, so that a cut one
// is an honest error for every client.
func (e *execution) plain(resp *upstream.Response, format provider.Format) *outcome {
	err := e.take(resp.Body)
	switch {
	case errors.Is(err, errTooLarge):
		return e.oversized(resp)
	case err != nil:
		return e.cutPlain(err)
	case e.halfDocument(resp):
		return e.cutPlain(io.ErrUnexpectedEOF)
	default:
		return e.wholePlain(resp, format)
	}
}

// halfDocument says that an answer that only the end of its connection ends is none: JSON shows by itself where it ends.
func (e *execution) halfDocument(resp *upstream.Response) bool {
	if !resp.Unframed || header(resp, "Content-Encoding") != "" || e.formatOf(resp) != provider.JSON ||
		mutant.On("unframed-is-whole") {
		return false
	}
	_, said := asCame(resp, e.rec.bytes(e.rec.size))
	return !json.Valid(bytes.TrimPrefix(said, []byte("\xef\xbb\xbf")))
}

func (e *execution) wholePlain(resp *upstream.Response, format provider.Format) *outcome {
	body := e.rec.bytes(e.rec.size)
	contentType := header(resp, "Content-Type")
	came, said := asCame(resp, body)
	var p provider.Plain
	if e.spec.Wire != provider.Tool && e.spec.Known && header(resp, "Content-Encoding") == "" {
		p = provider.PlainAnswer(e.asked(), resp.Status, contentType, said)
	} else {
		p.Complete = true
	}
	if p.Fault == provider.IsError {
		return e.errorInside(resp, body, p.ErrorType)
	}
	if !p.Complete {
		return e.notAnAnswer(string(p.Fault), contentType)
	}
	if e.crosses() != nil {
		answer, o := e.tellPlain(resp, body)
		if o != nil {
			return o
		}
		body, said = answer, answer
	}
	if v, ok := accepted(e.wf, resp.Status, came, said); !ok {
		return e.passError(v, 502, resp, body)
	}
	if p.ServedModel != "" {
		e.serves(e.target.hidden.Text(p.ServedModel))
	}
	if e.declines(func() bool { return provider.Declined(said) }) {
		return e.declined(resp, body, p.Usage, false)
	}
	e.succeed(resp, success{body: body, usage: p.Usage, finish: p.Finish, tool: p.ToolStarted, hosted: p.HostedTool})
	return nil
}

// cutPlain ends an answer that broke off.
func (e *execution) cutPlain(err error) *outcome {
	v, fail := e.transportVerdict(err)
	if e.cause() == nil {
		v.signal = cutSignal()
		v.kind, v.reason, v.rule = string(CodeIncomplete), "the answer broke off before its end", "semantics 27"
		fail = &Error{Code: CodeIncomplete, Message: "the provider's answer broke off before its end", Err: err}
	}
	v.end = ledger.AttemptUnknown // the answer had begun: it was sent
	fail.Safe = ""
	return &outcome{verdict: v, how: ending{fail: fail}, body: e.partial()}
}

// notAnAnswer ends a 2xx that is no answer of the API: empty, an error page, half a document.
func (e *execution) notAnAnswer(fault, contentType string) *outcome {
	what := "the provider answered 200 with no answer of its API (" + fault + ")"
	if strings.Contains(contentType, "html") {
		what = "the provider answered 200 with an HTML page"
	}
	return &outcome{verdict: verdict{end: ledger.AttemptUnknown, status: 200, kind: string(CodeIncomplete), reason: what, rule: "semantics 27",
		signal: cutSignal()}, how: ending{fail: &Error{Code: CodeIncomplete, Message: what}}, body: e.partial()}
}

// maxEvidence bounds what is kept of an answer that is none.
const maxEvidence = 1 << 20

func (e *execution) partial() *ledger.Body {
	if !e.keep || e.rec.size == 0 {
		return nil
	}
	return &ledger.Body{Kind: ledger.BodyPartial, Data: e.rec.bytes(min(e.rec.size, maxEvidence))}
}

// oversized ends an answer that is larger than may be held: an external one is unknown; a generation is
// forwarded whole, and its recording dropped.
func (e *execution) oversized(resp *upstream.Response) *outcome {
	if e.effect == ledger.EffectExternal || e.crosses() != nil { // half a document has no translation
		return &outcome{verdict: verdict{end: ledger.AttemptUnknown, status: resp.Status, kind: string(CodeAnswerTooLarge),
			reason: errTooLarge.Error(), rule: "limits.max_response_bytes"},
			how: ending{fail: tooLargeToKeep()}, body: e.partial()}
	}
	e.rec.drop()
	e.rec.open(&head{status: resp.Status, header: resp.Header, stream: true, unrecorded: true})
	e.overflowed()
	e.watch.crossed()
	if err := e.forward(resp.Body); err != nil {
		v, _ := e.transportVerdict(err)
		v.end = ledger.AttemptUnknown
		return &outcome{verdict: v, how: ending{abort: true}, visible: true}
	}
	e.succeed(resp, success{usage: provider.Usage{Input: -1, Output: -1, Cached: -1, Reasoning: -1}, unrecorded: true})
	return nil
}

func tooLargeToKeep() *Error { return &Error{Code: CodeAnswerTooLarge, Message: errTooLarge.Error()} }

func (e *execution) overflowed() {
	if e.overflow != nil {
		e.overflow()
	}
}

// forward passes the rest of a body on without keeping it.
func (e *execution) forward(body upstream.Body) error {
	for {
		e.rec.show(e.rec.size)
		if err := e.rec.waitRoom(e.ctx); err != nil {
			return err
		}
		p, _ := e.rec.space()
		n, err := body.Read(p)
		e.rec.wrote(n)
		e.watch.progress()
		if err == io.EOF {
			e.rec.show(e.rec.size)
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// refusedByProvider passes the provider's own error on, with its status and body.
func (e *execution) refusedByProvider(resp *upstream.Response) *outcome {
	patience := time.AfterFunc(errorPatience, func() { _ = resp.Body.Close() })
	err := e.take(resp.Body)
	patience.Stop()
	body := e.rec.bytes(e.rec.size)
	came, said := asCame(resp, body)
	v, status := e.judge(resp.Status, came, said), resp.Status
	if err != nil && !errors.Is(err, errTooLarge) {
		// Status and headers have said it: what is missing of the words changes nothing.
		resp.Header = jsonHeader(resp.Header)
		body = (&provider.Error{Code: v.kind, Status: resp.Status,
			Message: "the provider answered " + strconv.Itoa(resp.Status) + "; the rest of its error did not come"}).Body(&e.spec)
	} else if e.crosses() != nil {
		status, body = e.tellError(resp, resp.Status, body)
	}
	return e.passError(v, status, resp, body)
}

// errorPatience bounds the wait for the words of an error whose head is here.
const errorPatience = 5 * time.Second

// errorInside passes on an error that came under a 2xx, under the status that it stands for.
func (e *execution) errorInside(resp *upstream.Response, body []byte, kind string) *outcome {
	came, said := asCame(resp, body)
	v := e.judge(resp.Status, came, said)
	v.inside(e.target.hidden.Text(kind), e.effect == ledger.EffectExternal)
	status := errorStatus(said, kind)
	if e.crosses() != nil {
		status, body = e.tellError(resp, status, body)
	}
	return e.passError(v, status, resp, body)
}

// inside corrects a verdict on an error that came under a 2xx.
func (v *verdict) inside(kind string, external bool) {
	if v.kind == "" {
		v.kind = kind
	}
	v.reason = "the answer is an error, though " + v.reason
	if external {
		v.end, v.keep = ledger.AttemptUnknown, false
	} else if v.end == ledger.AttemptSuccess || v.end == ledger.AttemptRunning {
		v.end = ledger.AttemptFailed
	}
}

// passError is an error in the provider's own words, under the status that it stands for.
func (e *execution) passError(v verdict, status int, resp *upstream.Response, body []byte) *outcome {
	v.status = status
	o := &outcome{verdict: v, document: e.g.guard.maskCredentials(e.request, body), at: time.Now()}
	o.how.reveal = &head{status: status, header: resp.Header, failed: true, unknown: v.end == ledger.AttemptUnknown}
	if e.seen != nil {
		o.reply = e.storedAnswer(status, resp.Header, o.document, 0)
	}
	if v.keep && e.keep {
		o.body = &ledger.Body{Kind: ledger.BodyAnswer, ContentType: header(resp, "Content-Type"), Data: o.document}
		o.answered = e.storedAnswer(status, resp.Header, o.document, 0)
		o.reply = o.answered
	} else if e.keep && v.end == ledger.AttemptUnknown {
		o.body = &ledger.Body{Kind: ledger.BodyPartial, Data: o.document[:min(len(o.document), maxEvidence)]}
	}
	return o
}
