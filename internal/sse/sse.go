// Package sse parses server-sent events as they arrive, by the WHATWG rules, without changing a byte.
//
// The rules are those of https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation.
// An event that lies whole inside one chunk is handed out as a view of that chunk.
package sse

import (
	"bytes"
	"errors"
	"fmt"
)

// ErrTooLarge says that one event, or one comment line, is longer than the parser's bound.
var ErrTooLarge = errors.New("stream event is larger than limits.event_bytes allows; raise it if the provider is right")

// DefaultMax is the bound on one event where Parser.Max is 0 (limits.event_bytes).
const DefaultMax = 16 << 20

// keepCap is how much scratch memory a parser keeps between events: 10,000 idle streams must stay cheap.
const keepCap = 64 << 10

// Event is one dispatched event. Its slices are valid only during the callback.
type Event struct {
	Name []byte // event: field, empty for "message"
	Data []byte // data: lines joined by \n
	// Start and End are offsets in the stream: the first byte after the blank line before the event (comments
	// above its first line belong to it) and the first byte after its own. Where the lines end in a lone CR, a LF
	// after the blank line's CR counts to the next event: one cannot wait for it.
	Start, End int64
	// CRLF is true if the event's last line ended in CR LF.
	CRLF bool
}

// Parser turns chunks into events. The zero value is ready for use; a Parser is not safe for concurrent use.
type Parser struct {
	// Max bounds the bytes of one event's lines; 0 is DefaultMax.
	Max int
	// Stray, if set, is called with each line that is neither comment nor known field. Clients ignore such lines,
	// but some providers write a bare JSON error there. The slice is valid only during the call.
	Stray func(line []byte)
	// Reconnect, if set, is called with each id and retry line, before the event that it belongs to. The slices are valid
	// only during the call.
	Reconnect func(name string, value []byte)

	err   error
	off   int64 // of the next byte to come
	start int64 // Event.Start of the next event: the end of the last blank line
	bom   int   // bytes of a byte order mark seen; len(mark) when that is settled

	line []byte // start of a line that is not finished
	size int    // bytes of the event's finished lines
	ev   pending
	crState
}

// crState is what is known of the line end before the current position.
type crState struct {
	cr   bool // the last byte was a CR whose LF may still come
	lone bool // the last line ended in a CR without LF
	crlf bool // the last line ended in CR LF
	wait bool // a blank line's CR awaits a LF
}

// Offset is the number of bytes fed so far.
func (s *Parser) Offset() int64 { return s.off }

// Break is the offset after the last blank line: the stream up to there is whole events and comments, and may be
// ended or continued by other events.
func (s *Parser) Break() int64 { return s.start }

// Feed parses p and calls fn for each event that it completes. An error of fn, or ErrTooLarge, ends the parser:
// every later call returns it.
func (s *Parser) Feed(p []byte, fn func(Event) error) error {
	if s.err != nil {
		return s.err
	}
	if s.bom < len(mark) {
		p = s.skipMark(p)
	}
	if len(p) == 0 {
		return nil
	}
	pos, err := s.settleCR(p[0], fn)
	if err == nil {
		pos, err = s.lines(p, pos, fn)
	}
	s.off += int64(len(p))
	if err == nil {
		err = s.carry(p[pos:])
	}
	s.err = err
	return err
}

// Close ends the stream. An event whose blank line has not come is not dispatched (see Rest).
func (s *Parser) Close(fn func(Event) error) error {
	if s.err == nil && s.wait {
		s.wait = false
		s.err = s.endBlock(s.off, fn)
	}
	return s.err
}

// Rest returns, after Close, the event that was never dispatched because the stream broke off inside it.
func (s *Parser) Rest() (ev Event, ok bool) {
	if len(s.line) > 0 {
		s.field(s.line)
		s.line = s.line[:0]
	}
	return Event{Name: s.ev.name, Data: s.ev.data, Start: s.start, End: s.off}, s.ev.lines > 0
}

var mark = [...]byte{0xEF, 0xBB, 0xBF}

// skipMark drops one leading byte order mark, which may come in pieces.
func (s *Parser) skipMark(p []byte) []byte {
	for s.bom < len(mark) && len(p) > 0 {
		if p[0] != mark[s.bom] {
			s.line = append(s.line, mark[:s.bom]...)
			s.bom = len(mark)
			break
		}
		s.bom++
		s.off++
		p = p[1:]
	}
	return p
}

// settleCR looks whether the CR that ended the last chunk belongs to a CR LF.
func (s *Parser) settleCR(first byte, fn func(Event) error) (pos int, err error) {
	if !s.cr {
		return 0, nil
	}
	s.cr = false
	s.crlf = first == '\n'
	s.lone = !s.crlf
	if s.crlf {
		pos = 1
	}
	if s.wait {
		s.wait = false
		err = s.endBlock(s.off+int64(pos), fn)
	}
	return pos, err
}

// lines handles every line of p that is finished and returns where the unfinished one starts.
func (s *Parser) lines(p []byte, pos int, fn func(Event) error) (int, error) {
	lf, cr := -1, -1 // next of each at or after pos, so that no byte is searched twice for the same
	for {
		if lf < pos {
			lf = index(p, pos, '\n')
		}
		if cr < pos {
			cr = index(p, pos, '\r')
		}
		end := min(lf, cr)
		if end == len(p) {
			return pos, nil
		}
		line := p[pos:end]
		if len(s.line) > 0 {
			s.line = append(s.line, line...)
			line = s.line
		}
		next, err := s.endLine(p, line, end, fn)
		if err != nil {
			return 0, err
		}
		s.line = s.line[:0]
		pos = next
	}
}

// endLine takes the line that p[end] ends and returns where the next one starts.
func (s *Parser) endLine(p, line []byte, end int, fn func(Event) error) (int, error) {
	afterLone, next := s.lone, end+1
	isCR := p[end] == '\r'
	s.cr = isCR && next == len(p)
	s.crlf = isCR && next < len(p) && p[next] == '\n'
	s.lone = isCR && !s.crlf
	if s.crlf {
		next++
	}
	if len(line) > 0 {
		if s.size+len(line) > s.max() {
			return 0, s.tooLarge()
		}
		s.field(line)
		return next, nil
	}
	switch {
	case isCR && afterLone:
		s.crlf = false
		return next, s.endBlock(s.off+int64(end)+1, fn)
	case s.cr:
		s.wait = true
		return next, nil
	}
	return next, s.endBlock(s.off+int64(next), fn)
}

func index(p []byte, from int, c byte) int {
	if i := bytes.IndexByte(p[from:], c); i >= 0 {
		return from + i
	}
	return len(p)
}

func (s *Parser) max() int {
	if s.Max > 0 {
		return s.Max
	}
	return DefaultMax
}

func (s *Parser) tooLarge() error {
	return fmt.Errorf("sse: event at byte %d: %w", s.start, ErrTooLarge)
}

// endBlock ends what the blank line up to end closes: an event if it has data, else comments and lone fields.
func (s *Parser) endBlock(end int64, fn func(Event) error) (err error) {
	ev := Event{Name: s.ev.name, Data: s.ev.data, Start: s.start, End: end, CRLF: s.crlf}
	s.start = end
	if s.ev.lines > 0 {
		err = fn(ev)
	}
	s.reset()
	return err
}

func (s *Parser) reset() {
	s.size = 0
	s.ev.reset()
}

// carry keeps what of the chunk is needed when it is gone: views of it and the unfinished line.
func (s *Parser) carry(rest []byte) error {
	s.ev.own()
	if s.size+len(s.line)+len(rest) > s.max() {
		return s.tooLarge()
	}
	if len(rest) > 0 {
		s.line = append(s.line, rest...)
	} else if len(s.line) == 0 && cap(s.line) > keepCap {
		s.line = nil
	}
	return nil
}
