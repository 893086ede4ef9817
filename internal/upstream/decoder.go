package upstream

import (
	"bytes"
	"io"
	"net/http"
)

// decoder finds the body in what follows a head. It owns no bytes and waits for none.
type decoder struct {
	kind    kind
	stage   stage
	left    int64 // bytes still to come: of a sized body, or of the chunk
	excess  int64 // framing in excess of what the data warrants
	scanned int   // of the trailer section, known not to hold its end
	limit   int   // of the trailer section
	trailer http.Header
}

type kind uint8

const (
	sized kind = iota
	chunked
	untilClose
)

type stage uint8

const (
	atData stage = iota
	atDataEnd
	atSize
	atTrailer
	atEnd
)

const (
	maxSizeLine = 4 << 10
	maxExcess   = 16 << 10
)

// advance looks at the buffered bytes b: skip of them are framing and done with, and ready ones after those are body.
// Nothing ready and no error means that more must be read. io.EOF is the proper end of the body. Whoever takes ready
// bytes subtracts them from left.
func (d *decoder) advance(b []byte) (skip, ready int, err error) {
	for {
		rest := b[skip:]
		taken := 0
		switch d.stage {
		case atData:
			if d.left > 0 {
				return skip, int(min(d.left, int64(len(rest)))), nil
			}
			if d.kind == sized {
				return skip, 0, io.EOF
			}
			d.stage = atDataEnd
			continue
		case atDataEnd:
			taken, err = d.dataEnd(rest)
		case atSize:
			taken, err = d.size(rest)
		case atTrailer:
			taken, err = d.trailerSection(rest)
		case atEnd:
			return skip, 0, io.EOF
		}
		if taken == 0 || err != nil {
			return skip, 0, err
		}
		skip += taken
	}
}

func (d *decoder) dataEnd(b []byte) (int, error) {
	const end = "\r\n"
	n := min(len(b), len(end))
	if string(b[:n]) != end[:n] {
		return 0, malformed("a chunk is longer than its size")
	}
	if n < len(end) {
		return 0, nil
	}
	d.stage = atSize
	return n, nil
}

func (d *decoder) size(b []byte) (int, error) {
	end := bytes.IndexByte(b, '\n')
	if end > maxSizeLine || end < 0 && len(b) > maxSizeLine {
		return 0, malformed("a chunk size line is too long")
	}
	if end < 0 {
		return 0, nil
	}
	size, ok := chunkSize(b[:end])
	if !ok {
		return 0, malformed("bad chunk size")
	}
	// The rule of net/http: 16 bytes of framing a chunk and twice its data are free, so that a stream of single bytes
	// passes, and endless extensions do not.
	d.excess = max(0, d.excess+int64(end)+3-16-2*size)
	if d.excess > maxExcess {
		return 0, malformed("more framing than data in the chunks")
	}
	d.left, d.stage = size, atData
	if size == 0 {
		d.stage = atTrailer
	}
	return end + 1, nil
}

// chunkSize reads a size line without its line feed: hex digits, white space that some servers pad with, extensions,
// which mean nothing to anybody here (RFC 9112 section 7.1.1).
func chunkSize(line []byte) (size int64, ok bool) {
	if len(line) < 2 || line[len(line)-1] != '\r' {
		return 0, false
	}
	line = line[:len(line)-1]
	digits := 0
	for ; digits < len(line); digits++ {
		value := hexValue(line[digits])
		if value < 0 {
			break
		}
		size = size<<4 | int64(value)
	}
	if digits == 0 || digits > 15 {
		return 0, false
	}
	rest := bytes.TrimLeft(line[digits:], " \t")
	if len(rest) == 0 {
		return size, true
	}
	return size, rest[0] == ';' && isFieldValue(string(rest))
}

func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func (d *decoder) trailerSection(b []byte) (int, error) {
	end, resume, err := sectionEnd(b, d.scanned)
	if err != nil {
		return 0, err
	}
	if end > d.limit || end == 0 && len(b) > d.limit {
		return 0, ErrTooLarge
	}
	if end == 0 {
		d.scanned = resume
		return 0, nil
	}
	if end > len("\r\n") {
		if d.trailer, err = parseFields(string(b[:end])); err != nil {
			return 0, err
		}
		// RFC 9110 section 6.5.1: a trailer never changes the framing.
		delete(d.trailer, "Transfer-Encoding")
		delete(d.trailer, "Content-Length")
		delete(d.trailer, "Trailer")
	}
	d.stage = atEnd
	return end, nil
}
