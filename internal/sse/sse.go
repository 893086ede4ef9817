// Package sse parses server-sent events as they arrive, by the WHATWG rules, without changing a byte.
package sse

// Event is one dispatched event. Its slices are valid only during the callback.
type Event struct {
	Name []byte // event: field, empty for "message"
	Data []byte // data: lines joined by \n
	// Start and End are offsets in the stream: the first byte of the event's first line (comments and blank
	// lines before it belong to it) and the first byte after its closing blank line.
	Start, End int64
}
