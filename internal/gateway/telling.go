package gateway

import (
	"errors"
	"io"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/translate"
)

// telling is the stream of another API while it is told to the client in its own. It holds one event and what follows from it, and
// reads straight into its reader's buffer, so that a stream that waits holds nothing.
//
// A stream that is cut stays cut: the reader gets whole events, and then the error that the far side's body ended with. What the far
// side reports becomes the client's own in-stream error.
type telling struct {
	upstream.Body
	events *translate.Events
	moved  func() // bytes came, whether or not something follows from them for the client
	fault  *translate.Fault

	few [512]byte // where the reader's buffer is smaller
	out []byte    // for the client, not read yet
	end error     // how the far side's body ended
	err error     // how this one ends, behind out
}

// tellStream puts a stream in the client's words in the place of a response's.
func (e *execution) tellStream(resp *upstream.Response) {
	resp.Body = &telling{Body: resp.Body, events: e.crosses().Events(), moved: func() { e.watch.progress() }}
	resp.Header = e.crosses().heard(resp.Header, "text/event-stream")
}

// Read implements upstream.Body.
func (t *telling) Read(p []byte) (int, error) {
	for len(t.out) == 0 {
		switch {
		case t.err != nil:
			return 0, t.err
		case t.end != nil:
			t.finish()
		default:
			t.next(p)
		}
	}
	n := copy(p, t.out)
	t.out = t.out[n:]
	return n, nil
}

// Buffered implements upstream.Body. What lies in the far side's buffer may be half an event, and then nothing follows from it yet.
func (t *telling) Buffered() int {
	if mutant.On("translated-waits-for-more") {
		return len(t.out) + t.Body.Buffered()
	}
	return len(t.out)
}

// next takes what comes next, with p as the room for it: it is translated into memory of its own before p is written.
func (t *telling) next(p []byte) {
	if len(p) < len(t.few) {
		p = t.few[:]
	}
	n, err := t.Body.Read(p)
	t.end = err
	if n == 0 {
		return
	}
	if t.out, err = t.events.Feed(p[:n]); err != nil {
		t.failed(err)
	}
	if len(t.out) > 0 || !mutant.On("translated-silence-is-idle") {
		t.moved()
	}
}

func (t *telling) finish() {
	end := t.events.Close
	if t.end != io.EOF && !mutant.On("translated-break-completes") {
		end = t.events.Broken
	}
	var err error
	t.out, err = end()
	switch {
	case err == nil:
		t.err = t.end // behind the whole answer what becomes of the connection is for the reader to judge
	case errors.Is(err, translate.ErrCut) && t.end == io.EOF:
		t.err = io.ErrUnexpectedEOF
	case errors.Is(err, translate.ErrCut):
		t.err = t.end
	default:
		t.failed(err)
	}
}

// failed ends the stream. A fault is told already, and behind it nothing comes.
func (t *telling) failed(err error) {
	if t.err = err; errors.As(err, &t.fault) {
		t.err = io.EOF
	}
}
