package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/holdfast-ai/holdfast/internal/sse"
)

// feed reads a server's event stream, across reconnects.
type feed struct {
	l        *httpLink
	about    int64  // the request whose answer is in it; 0: none
	last     string // id of the last complete event
	retry    time.Duration
	answered bool
	progress bool // something came since the last reconnect
	err      error
}

var errAnswered = errors.New("answered")

func (f *feed) read(body io.Reader) {
	var next *string // an id counts once its event is complete
	p := sse.Parser{Max: int(f.l.max), Reconnect: func(name string, value []byte) {
		if name == "id" && bytes.IndexByte(value, 0) < 0 {
			id := string(value)
			next = &id
		} else if ms, err := strconv.Atoi(string(value)); name == "retry" && err == nil && ms >= 0 {
			f.retry = min(time.Duration(ms)*time.Millisecond, maxRetry)
		}
	}}
	f.err = nil
	in := &intake{mem: f.l.mem}
	defer in.end()
	buf := make([]byte, 32<<10)
	for {
		n, err := body.Read(buf)
		if !in.add(n) {
			f.err = errMemory
			return
		}
		fed := p.Feed(buf[:n], func(e sse.Event) error {
			defer in.end()
			f.progress = true
			if next != nil {
				f.last, next = *next, nil
			}
			if len(e.Data) > 0 && f.l.to.received(bytes.Clone(e.Data), f.about, 0) {
				f.answered = true
				return errAnswered
			}
			return nil
		})
		if fed != nil || err != nil {
			f.err = errors.Join(fed, err)
			return
		}
	}
}

func (f *feed) why() error {
	if f.err == nil {
		return io.ErrUnexpectedEOF
	}
	return f.err
}

// pause waits before a reconnect, longer with every try that brought nothing. It is false when the link is closed.
func (f *feed) pause(ctx context.Context, tries int) bool {
	timer := time.NewTimer(min(f.retry<<min(tries, 5), maxRetry))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
