package translate

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// sink is the client's side of an answer: a whole document or a stream of events. It is called in this order: begin, then
// any of text, call and args, then done.
type sink interface {
	begin(head)
	text(value)                  // a JSON string: the next piece of what is said
	call(n int, id, name string) // the n-th call of a tool begins, from 0
	args(n int, fragment value)  // a JSON string: the next piece of the arguments, which are JSON
	done(ending)
}

// head is what is known of an answer at its beginning.
type head struct {
	id, model string
	created   int64 // Unix seconds
	usage     usage
}

type ending struct {
	finish finish
	why    value // a JSON string: what the far side says of a refusal, or nil
	usage  usage
}

type finish int

const (
	unfinished finish = iota
	stopped           // said all that was to be said
	limited           // cut off by a limit of tokens
	called            // waits for the results of its calls
	refused           // cut off, or never begun, for its content
)

// Usage counts the tokens of an answer. It is not known where the far side has not said it.
type Usage struct {
	Known         bool
	Input, Output int64 // with those below
	Cached        int64 // of the input: read from the provider's prompt cache
	Thought       int64 // of the output
}

func (u usage) public() Usage {
	return Usage{Known: u.known, Input: u.in, Output: u.out, Cached: u.cached, Thought: u.thought}
}

// usage counts tokens. in includes cached and written, out includes thought.
type usage struct {
	known                             bool
	in, cached, written, out, thought int64
}

// decoder is the far side's part of an answer.
type decoder interface {
	// whole reads a plain answer.
	whole(value) error
	// event reads one event of a stream.
	event(value) error
	// stop is called at the API's own word for the end of a stream, where it stands in an event without JSON.
	stop() error
	// used is what was said of the usage so far.
	used() Usage
	// over is true once the answer has ended: what follows says nothing.
	over() bool
	// refused is true once the far side has refused an answer of which it has said nothing.
	refused() bool
	// close is called at the end of a stream. Its error is ErrCut if the answer was not finished.
	close() error
}

func (c *Call) decoder(s sink) decoder {
	o := origin{call: c, sink: s}
	switch c.To {
	case OpenAIChat:
		return &fromOpenAI{origin: o}
	case AnthropicMessages:
		return &fromAnthropic{origin: o}
	}
	return &fromGemini{origin: o}
}

// Answer translates a plain answer with a status of success. Its error is a [*Fault] if the far side reports an error all the
// same, a [*Mismatch] if it answers with something that the client's API has no words for, or wraps ErrMalformed.
func (c *Call) Answer(body []byte) ([]byte, error) {
	v := parse(validUTF8(body))
	if !v.is('{') {
		return nil, fmt.Errorf("%w: the answer is not a JSON object", ErrMalformed)
	}
	if f := c.reported(v); f != nil {
		return nil, f
	}
	var s interface {
		sink
		bytes() ([]byte, error)
	}
	if c.From == OpenAIChat {
		s = &openAIAnswer{}
	} else {
		s = &anthropicAnswer{from: c}
	}
	if err := c.decoder(s).whole(v); err != nil {
		return nil, err
	}
	return s.bytes()
}

// origin is what every decoder has.
type origin struct {
	sink
	call  *Call
	begun bool
	ended bool
	aside bool // text came after the last call began
	calls int  // begun so far
	id    string
	model string
	last  ending
}

func (o *origin) start(id, model string, created int64, u usage) {
	if o.begun {
		return
	}
	o.begun = true
	if created == 0 {
		created = o.call.opts.created()
	}
	if model == "" {
		model = o.call.opts.Model
	}
	o.id, o.model = id, model
	if id == "" {
		prefix := "msg_"
		if o.call.From == OpenAIChat {
			prefix = "chatcmpl-"
		}
		id = prefix + o.invent("answer")
	}
	o.begin(head{id: id, model: model, created: created, usage: u})
}

// say passes a piece of text on.
func (o *origin) say(t value) {
	if t.is('"') && len(t) > len(`""`) {
		o.aside = true
		o.text(t)
	}
}

// open begins a call and returns its number. An id that another tier would refuse in the history gives way to one of our own:
// ids do no more than to pair a call with its result.
func (o *origin) open(id, name string) (int, error) {
	if name == "" {
		return 0, o.mismatch("tool call", "it has no name")
	}
	if !isName(id, openAIID, "_-") {
		prefix := "toolu_"
		if o.call.From == OpenAIChat {
			prefix = "call_"
		}
		id = prefix + o.invent(name)
	}
	n := o.calls
	o.calls, o.aside = o.calls+1, false
	o.sink.call(n, id, name)
	return n, nil
}

// invent makes an id that is the same whenever the same answer is translated.
func (o *origin) invent(what string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{o.call.opts.Seed, o.id, o.model, strconv.Itoa(o.calls), what}, "\x00")))
	return strings.NewReplacer("-", "a", "_", "b").Replace(base64.RawURLEncoding.EncodeToString(sum[:18]))
}

func (o *origin) mismatch(field, rule string) error {
	return &Mismatch{From: o.call.To, To: o.call.From, Field: field, Rule: rule}
}

func (o *origin) over() bool { return o.ended }
func (o *origin) refused() bool {
	return o.begun && o.last.finish == refused && !o.aside && o.calls == 0
}
func (o *origin) used() Usage { return o.last.usage.public() }

// end ends the answer. A model that called a tool waits for it, whatever word its server has for that.
func (o *origin) end() {
	if o.ended {
		return
	}
	o.ended = true
	if o.calls > 0 && o.last.finish == stopped {
		o.last.finish = called
	}
	o.done(o.last)
}

// close ends a stream whose last word was said already.
func (o *origin) close() error {
	if o.ended {
		return nil
	}
	if o.begun && o.last.finish == unfinished && mutant.On("cut-stream-completed") {
		o.last.finish = stopped
	}
	if !o.begun || o.last.finish == unfinished {
		return ErrCut
	}
	o.end()
	return nil
}

// stop ends a stream at its own word for the end.
func (o *origin) stop() error {
	if err := o.close(); err != nil {
		return fmt.Errorf("%w: the stream has an end, the answer has none", ErrMalformed)
	}
	return nil
}

// joined is a text in pieces, as one JSON string.
type joined []byte

func (t *joined) add(piece value) {
	if len(*t) == 0 {
		*t = append(*t, '"')
	} else {
		*t = (*t)[:len(*t)-1]
	}
	*t = append(*t, piece[1:]...)
}

// value is the text, nil if nothing was said.
func (t joined) value() value {
	if len(t) == 0 {
		return nil
	}
	return value(t)
}

// frame is an event of which one value alone changes from one to the next: most of a stream is such events.
type frame struct{ before, after []byte }

// write appends the event with this value; event writes it in full, and does so once.
func (f *frame) write(out *[]byte, t value, event func(value)) {
	if f.before == nil {
		at := len(*out)
		event(value{0}) // a byte that stands in no JSON
		f.before, f.after, _ = bytes.Cut(bytes.Clone((*out)[at:]), []byte{0})
		*out = (*out)[:at]
	}
	*out = append(append(append(*out, f.before...), t...), f.after...)
}
