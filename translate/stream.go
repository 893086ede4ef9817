package translate

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/holdfast-ai/holdfast/internal/sse"
)

// Events translates a stream while it arrives. It holds one event of the far side's and nothing of what it handed out.
// It is not safe for concurrent use.
type Events struct {
	call  *Call
	p     sse.Parser
	d     decoder
	out   []byte
	stray []byte // lines outside any event: Gemini reports errors there
	err   error
}

// keepCap is how much scratch memory a stream keeps between its events: 10,000 idle ones must stay cheap.
const keepCap = 64 << 10

// strayBytes bounds a report outside any event.
const strayBytes = 64 << 10

// Events begins the translation of the stream that answers the call.
func (c *Call) Events() *Events {
	e := &Events{call: c, p: sse.Parser{Max: c.opts.EventBytes}}
	e.p.Stray = func(line []byte) {
		if len(e.stray)+len(line) < strayBytes {
			e.stray = append(append(e.stray, line...), '\n')
		}
	}
	if c.From == OpenAIChat {
		e.d = c.decoder(&openAIStream{out: &e.out, want: c.usage})
	} else {
		e.d = c.decoder(&anthropicStream{out: &e.out})
	}
	return e
}

// Feed takes the next bytes of the far side's stream and returns the bytes for the client that follow from them, often none.
// They are valid until the next call.
//
// An error ends the stream. With a [*Fault] the bytes end with an event that reports it in the client's form; a [*Mismatch], or
// what wraps ErrMalformed or sse.ErrTooLarge, is for the caller to tell (see [Events.Fail]). Behind the answer's end nothing fails.
func (e *Events) Feed(p []byte) ([]byte, error) {
	if e.out = e.out[:0]; cap(e.out) > keepCap {
		e.out = nil
	}
	if e.err == nil {
		e.settle(e.p.Feed(p, e.event))
	}
	return e.out, e.err
}

// Close ends the stream and returns what is left to tell the client. Its error is ErrCut if the far side's answer was not
// finished; the bytes are none then, and it is for the caller to say how the answer ends (see [Events.Fail]).
func (e *Events) Close() ([]byte, error) {
	e.out = e.out[:0]
	if e.err != nil {
		return e.out, e.err
	}
	e.settle(e.p.Close(e.event))
	e.settle(e.unsaid())
	if e.err == nil {
		e.err = e.d.close()
	}
	return e.out, e.err
}

// Broken ends a stream whose connection broke off. An error that the far side was about to report is told as by Close; else,
// unless the client has its whole answer, the error is ErrCut: what came is not the answer, however near to its end it was. A refusal
// without content is whole as soon as it is said.
func (e *Events) Broken() ([]byte, error) {
	e.out = e.out[:0]
	if e.err == nil {
		e.settle(e.unsaid())
	}
	switch {
	case e.err != nil || e.d.over():
	case e.d.refused():
		e.err = e.d.close()
	default:
		e.err = ErrCut
	}
	return e.out, e.err
}

// unsaid is the error in what was never dispatched: an event without its blank line, or lines outside any event.
func (e *Events) unsaid() error {
	if e.err != nil || e.d.over() {
		return nil
	}
	rest, _ := e.p.Rest()
	for _, b := range [][]byte{rest.Data, e.stray} {
		if v := parse(validUTF8(b)); v != nil {
			if f := e.call.reported(v); f != nil {
				return f
			}
		}
	}
	return nil
}

// Usage is what the far side has said of the tokens so far.
func (e *Events) Usage() Usage { return e.d.used() }

// Fail is an event that ends the stream with an error, in the client's form.
func (e *Events) Fail(f *Fault) []byte { return e.call.errorEvent(nil, f) }

func (e *Events) settle(err error) {
	if err == nil || e.err != nil || e.d.over() {
		return
	}
	e.err = err
	if f := (*Fault)(nil); errors.As(err, &f) {
		e.out = e.call.errorEvent(e.out, f)
	}
}

func (e *Events) event(ev sse.Event) error {
	if e.d.over() {
		return nil
	}
	data := validUTF8(ev.Data)
	if e.call.To == OpenAIChat && string(data) == "[DONE]" {
		return e.d.stop()
	}
	v := parse(data)
	if !v.is('{') {
		return fmt.Errorf("%w: an event of the stream is not a JSON object", ErrMalformed)
	}
	if mayReport(data) {
		if f := e.call.reported(v); f != nil {
			return f
		}
	}
	return e.d.event(v)
}

// mayReport spares most events the look for an error: the word stands in each that is one, as it is or with escapes.
func mayReport(data []byte) bool {
	return bytes.Contains(data, []byte("error")) || bytes.Contains(data, []byte(`\u`))
}

// validUTF8 replaces what is no UTF-8, byte by byte, as readers of event streams do.
func validUTF8(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return []byte(string([]rune(string(b))))
}
