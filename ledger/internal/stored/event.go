package stored

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/holdfast-ai/holdfast/ledger"
)

// AppendEvents writes events as a JSON array, as encoding/json would but several times faster, and without what the
// first one says for all: time and actor stand in the others only where they differ. An empty list is nil, which is
// stored as NULL.
func AppendEvents(b []byte, events []ledger.Event) ([]byte, error) {
	if len(events) == 0 {
		return nil, nil
	}
	if b == nil {
		b = make([]byte, 0, 160*len(events))
	}
	b = append(b, '[')
	for i := range events {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendEvent(b, &events[i], &events[0]); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendEvent(b []byte, e, first *ledger.Event) ([]byte, error) {
	b = appendString(append(b, `{"kind":`...), e.Kind)
	if e == first || !e.At.Equal(first.At) {
		b = append(b, `,"at":"`...)
		b = e.At.UTC().AppendFormat(b, time.RFC3339Nano)
		b = append(b, '"')
	}
	if e == first || e.Actor != first.Actor {
		b = appendField(b, "actor", e.Actor, e != first)
	}
	if e.From != 0 {
		b = appendField(b, "from", e.From.String(), true)
	}
	if e.To != 0 {
		b = appendField(b, "to", e.To.String(), true)
	}
	b = appendField(b, "reason", e.Reason, false)
	b = appendField(b, "rule", e.Rule, false)
	b = appendInt(b, "attempt", e.Attempt)
	b = appendField(b, "route", e.Route, false)
	b = appendField(b, "tier", e.Tier, false)
	if e.End != 0 {
		b = appendField(b, "end", e.End.String(), true)
	}
	b = appendInt(b, "status", e.Status)
	if e.Billed {
		b = append(b, `,"possibly_billed":true`...)
	}
	b = appendField(b, "error", e.Error, false)
	if len(e.Evidence) > 0 {
		if !json.Valid(e.Evidence) {
			return nil, fmt.Errorf("ledger: event %q carries evidence that is not JSON", e.Kind)
		}
		b = append(append(b, `,"evidence":`...), e.Evidence...)
	}
	return append(b, '}'), nil
}

// AppendHeader writes h as the JSON object that encoding/json would.
func AppendHeader(b []byte, h map[string][]string) []byte {
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(h)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, name), ':', '[')
		for j, value := range h[name] {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendString(b, value)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

func appendField(b []byte, name, value string, always bool) []byte {
	if value == "" && !always {
		return b
	}
	b = append(append(append(b, ',', '"'), name...), '"', ':')
	return appendString(b, value)
}

func appendInt(b []byte, name string, v int) []byte {
	if v == 0 {
		return b
	}
	b = append(append(append(b, ',', '"'), name...), '"', ':')
	return strconv.AppendInt(b, int64(v), 10)
}

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, err := json.Marshal(s)
			if err != nil { // a string always marshals
				quoted = []byte(`""`)
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// storedEvent is an event as AppendEvents writes it.
type storedEvent struct {
	ledger.Event
	At    *time.Time `json:"at"`
	Actor *string    `json:"actor"`
}

// DecodeEvents adds what AppendEvents wrote to a list.
func DecodeEvents(to []ledger.Event, text []byte) ([]ledger.Event, error) {
	if len(text) == 0 {
		return to, nil
	}
	var events []storedEvent
	if err := json.Unmarshal(text, &events); err != nil {
		return to, fmt.Errorf("stored events are damaged: %w", err)
	}
	first := len(to)
	for i := range events {
		e := events[i].Event
		if i > 0 {
			e.At, e.Actor = to[first].At, to[first].Actor
		}
		if at := events[i].At; at != nil {
			e.At = *at
		}
		if actor := events[i].Actor; actor != nil {
			e.Actor = *actor
		}
		to = append(to, e)
	}
	return to, nil
}
