package mcp

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"regexp"
)

// lines reads newline-delimited messages of at most max bytes. A longer one is read past and handed out as its
// two ends, so that whoever waits for it can be told.
type lines struct {
	r     *bufio.Reader
	max   int
	count *intake // of the line at hand; nil: it is counted by who reads it
}

func newLines(r io.Reader, max int64) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), max: int(max)}
}

// keepEnds is how much of a message that is too large is kept of either end.
const keepEnds = 512

// oversized is a message that was too large to keep, or for which there was no room.
type oversized struct {
	head, tail []byte
	why        error
}

func (o *oversized) Error() string { return o.why.Error() }
func (o *oversized) Unwrap() error { return o.why }

// next returns the next line without its end, *oversized, or the reader's error. Empty lines are passed over.
func (l *lines) next() ([]byte, error) {
	for {
		line, err := l.line()
		if err != nil {
			return nil, err
		}
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		if len(line) > 0 {
			return line, nil
		}
	}
}

func (l *lines) line() ([]byte, error) {
	var line []byte
	if l.count != nil {
		l.count.end() // the line before has been passed on
	}
	for {
		piece, err := l.r.ReadSlice('\n')
		switch {
		case !l.room(len(piece)):
			return nil, l.crowded(line, piece, err)
		case err == nil && len(line)+len(piece) <= l.max+1:
			return append(line, piece[:len(piece)-1]...), nil
		case err == nil:
			return nil, tooLong(line, piece)
		case errors.Is(err, bufio.ErrBufferFull) && len(line)+len(piece) <= l.max:
			line = append(line, piece...)
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, l.skip(line, piece)
		default:
			if len(line)+len(piece) > 0 && errors.Is(err, io.EOF) {
				return append(line, piece...), nil
			}
			return nil, err
		}
	}
}

func (l *lines) room(n int) bool { return l.count == nil || l.count.add(n) }

// crowded reads past a line for which there is no room. read is how its last piece ended.
func (l *lines) crowded(line, piece []byte, read error) error {
	o := tooLong(line, piece)
	if errors.Is(read, bufio.ErrBufferFull) {
		read = l.pass(o)
	}
	if read != nil && !errors.Is(read, io.EOF) {
		return read
	}
	o.why = errMemory
	return o
}

func tooLong(line, piece []byte) *oversized {
	all := line
	if len(all) < keepEnds {
		all = append(append([]byte(nil), line...), piece...)
	}
	o := &oversized{why: errTooLarge, head: append([]byte(nil), all[:min(len(all), keepEnds)]...)}
	o.keep(line)
	o.keep(piece)
	return o
}

func (o *oversized) keep(piece []byte) {
	o.tail = append(o.tail, piece[max(0, len(piece)-keepEnds):]...)
	o.tail = o.tail[max(0, len(o.tail)-keepEnds):]
}

// skip reads past the rest of a line.
func (l *lines) skip(line, piece []byte) error {
	o := tooLong(line, piece)
	if err := l.pass(o); err != nil {
		return err
	}
	return o
}

func (l *lines) pass(o *oversized) error {
	for {
		piece, err := l.r.ReadSlice('\n')
		o.keep(piece)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

var (
	idFirst = regexp.MustCompile(`^\s*\{(?:\s*"jsonrpc"\s*:\s*"2\.0"\s*,)?\s*"id"\s*:\s*(-?\d+|"[^"\\]*")\s*,`)
	idLast  = regexp.MustCompile(`"id"\s*:\s*(-?\d+|"[^"\\]*")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
)

// id is the id that the message bears, as far as its ends show. It decides who is told that no answer will come,
// never what an answer is.
func (o *oversized) id() json.RawMessage {
	for _, look := range []struct {
		form *regexp.Regexp
		text []byte
	}{{idFirst, o.head}, {idLast, o.tail}} {
		if m := look.form.FindSubmatch(look.text); m != nil {
			return m[1]
		}
	}
	return nil
}
