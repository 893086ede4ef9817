package signal

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

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
