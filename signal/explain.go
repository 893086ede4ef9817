package signal

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// maxLine bounds one line of a signals file: a body of maxBody in base64, with room for its frame.
const maxLine = 4 << 20

// ErrLine is returned, wrapped, for a line that is not in the form of the corpus's signals.jsonl.
var ErrLine = errors.New("signal: line is not a signal case")

// record is a line of signals.jsonl, as far as it is needed.
type record struct {
	ID           string                     `json:"id"`
	Provider     string                     `json:"provider"`
	Endpoint     string                     `json:"endpoint"`
	ReceivedAt   time.Time                  `json:"received_at"`
	HTTPStatus   int                        `json:"http_status"`
	Headers      map[string]json.RawMessage `json:"headers"`
	Body         string                     `json:"body"`
	BodyEncoding string                     `json:"body_encoding"`
	Phase        Phase                      `json:"phase"`
	Transport    *Transport                 `json:"transport"`
}

// ExplainFile classifies every line of r, which has the form of the corpus's signals.jsonl, and hands each
// signal to emit. It stops at the first line that cannot be read and says which; blank lines are skipped.
func ExplainFile(r io.Reader, emit func(id string, s Signal) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	n := 0
	for lines.Scan() {
		n++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		id, a, err := ParseAnswer(line)
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := emit(id, Classify(a)); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w (each line is one case, at most %d bytes)", n+1, err, maxLine)
	}
	return nil
}

// ParseAnswer reads one line of a signals file.
func ParseAnswer(line []byte) (id string, a Answer, err error) {
	var c record
	if err := json.Unmarshal(line, &c); err != nil {
		return "", Answer{}, fmt.Errorf("%w: %w", ErrLine, err)
	}
	a = Answer{
		Provider: c.Provider, Endpoint: c.Endpoint, ReceivedAt: c.ReceivedAt, Status: c.HTTPStatus,
		Phase: c.Phase, Transport: c.Transport,
	}
	if a.Header, err = c.header(); err != nil {
		return c.ID, a, err
	}
	switch c.BodyEncoding {
	case "base64":
		if a.Body, err = base64.StdEncoding.DecodeString(c.Body); err != nil {
			return c.ID, a, fmt.Errorf("%w: body of %q: %w", ErrLine, c.ID, err)
		}
	case "", "utf-8":
		a.Body = []byte(c.Body)
	default:
		return c.ID, a, fmt.Errorf("%w: body_encoding of %q is %q; use utf-8 or base64", ErrLine, c.ID, c.BodyEncoding)
	}
	return c.ID, a, nil
}

// header takes a text or a list of texts for each name.
func (c *record) header() (map[string][]string, error) {
	out := make(map[string][]string, len(c.Headers))
	for name, raw := range c.Headers {
		var one string
		var many []string
		if json.Unmarshal(raw, &one) == nil {
			many = []string{one}
		} else if err := json.Unmarshal(raw, &many); err != nil {
			return nil, fmt.Errorf("%w: header %q of %q: %w", ErrLine, name, c.ID, err)
		}
		out[name] = many
	}
	return out, nil
}
