package provider

import (
	"bytes"

	"github.com/holdfast-ai/holdfast/internal/provider/anthropic"
	"github.com/holdfast-ai/holdfast/internal/provider/gemini"
	"github.com/holdfast-ai/holdfast/internal/provider/jsonarray"
	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
	"github.com/holdfast-ai/holdfast/internal/provider/openai"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
	"github.com/holdfast-ai/holdfast/internal/sse"
)

// Limits bounds what a stream may make us hold; zero values are the defaults of interface.md §5.
type Limits struct {
	EventBytes int // of one event, 16 MiB
}

// strayMax bounds what is kept of lines that are no events.
const strayMax = 64 << 10

// NewStream returns the reader for an answer to call that is framed as format, SSE or JSONArray.
func NewStream(call *Call, format Format, lim Limits) Stream {
	if format == JSONArray {
		return newArrayStream(lim, nil)
	}
	return newSSEStream(grammarOf(call), lim, nil)
}

func grammarOf(call *Call) wire.Grammar {
	switch call.Endpoint {
	case wire.Chat:
		return &openai.Chat{}
	case wire.Responses, wire.ResponsesGet:
		return &openai.Responses{}
	case wire.Messages:
		return &anthropic.Messages{}
	case wire.StreamGenerate, wire.Generate:
		return &gemini.Generate{}
	}
	return unknown{}
}

// sseStream reads server-sent events.
type sseStream struct {
	wire.State
	grammar wire.Grammar
	parser  sse.Parser
	event   sse.Event             // being read: kept here so that it is not allocated each time
	take    func(sse.Event) error // bound once
	stray   []byte                // lines that are no fields, if they may be a JSON document
}

func newSSEStream(g wire.Grammar, lim Limits, t *wire.Transcript) *sseStream {
	s := &sseStream{grammar: g}
	s.State = wire.State{Progress: wire.NewProgress(), Transcript: t}
	s.parser.Max = lim.EventBytes
	s.parser.Stray = s.keepStray
	s.take = s.onEvent
	return s
}

func (s *sseStream) Progress() *Progress { return &s.State.Progress }

func (s *sseStream) Feed(p []byte) error {
	err := s.parser.Feed(p, s.take)
	s.Committed = s.parser.Break()
	return err
}

func (s *sseStream) onEvent(ev sse.Event) error {
	s.Events++
	s.CRLF, s.event, s.Last = ev.CRLF, ev, -1
	s.grammar.Event(&s.State, &s.event)
	return nil
}

// Close looks last at what was never dispatched: an error event without its blank line, and a bare JSON error,
// say why the stream broke off. Nothing else in there counts, for no client has seen it.
func (s *sseStream) Close() End {
	err := s.parser.Close(s.take)
	s.Committed = s.parser.Break()
	if err == nil { // else the event has a part that was not taken
		s.undispatched()
	}
	bare := wire.Event{Data: s.stray, Start: s.Committed}
	if code, ok := s.grammar.Error(jsonview.Of(s.stray)); ok {
		s.ErrorBare = s.ErrorAt < 0
		s.Fail(&bare, code)
	}
	if s.ErrorAt >= 0 {
		return Errored
	}
	return s.grammar.End(&s.State.Progress)
}

// undispatched looks for an error in the event whose blank line did not come. Half a document is none: no client could read it.
func (s *sseStream) undispatched() {
	rest, _ := s.parser.Rest()
	if data := bytes.TrimSpace(rest.Data); len(data) == 0 || bytes.IndexByte([]byte(`{["`), data[0]) >= 0 && !jsonview.Complete(data) {
		return
	}
	if code, ok := s.grammar.Error(jsonview.Of(rest.Data)); ok {
		s.Fail(&rest, code)
	} else if string(rest.Name) == "error" {
		s.Fail(&rest, wire.UnnamedError)
	}
}

func (s *sseStream) keepStray(line []byte) {
	if len(s.stray) == 0 {
		if t := bytes.TrimSpace(line); len(t) == 0 || t[0] != '{' && t[0] != '[' {
			return
		}
	}
	if len(s.stray)+len(line) < strayMax {
		s.stray = append(append(s.stray, line...), '\n')
	}
}

// arrayStream reads Gemini's JSON array.
type arrayStream struct {
	wire.State
	grammar gemini.Generate
	scanner jsonarray.Scanner
	event   wire.Event
	take    func(data []byte, start, end int64) error
}

func newArrayStream(lim Limits, t *wire.Transcript) *arrayStream {
	s := &arrayStream{grammar: gemini.Generate{Array: true}}
	s.State = wire.State{Progress: wire.NewProgress(), Transcript: t}
	s.scanner.Max = lim.EventBytes
	s.take = s.onElement
	return s
}

func (s *arrayStream) Progress() *Progress { return &s.State.Progress }

func (s *arrayStream) Feed(p []byte) error {
	err := s.scanner.Feed(p, s.take)
	if s.scanner.Closed() {
		s.Closed = true
		before := s.Committed
		s.Committed = max(s.Committed, s.scanner.Bracket())
		s.grammar.Bracket(&s.State)
		if s.Ended && s.Last < 0 {
			s.Last = before
		}
	}
	return err
}

func (s *arrayStream) onElement(data []byte, start, end int64) error {
	s.Events++
	s.Committed = end
	s.event = wire.Event{Data: data, Start: start, End: end}
	s.grammar.Event(&s.State, &s.event)
	return nil
}

func (s *arrayStream) Close() End {
	if s.ErrorAt >= 0 {
		return Errored
	}
	return s.grammar.End(&s.State.Progress)
}

// unknown is the grammar of an endpoint that is not known: each event is content, and any end may be the end.
type unknown struct{}

func (unknown) Event(s *wire.State, ev *wire.Event)     { s.Content(ev) }
func (unknown) End(*wire.Progress) wire.End             { return wire.Complete }
func (unknown) Error(doc jsonview.Value) (string, bool) { return openai.Error(doc) }
