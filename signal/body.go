package signal

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"strings"
)

// maxBody bounds a body after decompression: an error never needs more, a bomb always does.
const maxBody = 1 << 20

// extent says how much of the body the text is.
type extent uint8

const (
	whole   extent = iota
	clipped        // longer than maxBody: the rest exists, it is not read
	broken         // the compressed stream ends early
	opaque         // a coding that the standard library does not know
)

// readBody decodes what the standard library can; of the rest (br, zstd) the status must tell.
func readBody(body []byte, encoding string) ([]byte, extent) {
	switch e := strings.ToLower(strings.TrimSpace(encoding)); {
	case len(body) == 0:
		return nil, whole
	case len(body) > 2 && body[0] == 0x1f && body[1] == 0x8b: // also without the header: proxies lose it
		return inflate(func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }, body)
	case isPlain(body): // also with a header: proxies put their own page under it, clients decode and keep it
		return clipBody(body)
	case e == "deflate":
		return inflateDeflate(body)
	case e == "" || e == "identity" || e == "gzip" || e == "x-gzip": // no gzip, whatever the header says
		return clipBody(body)
	}
	return nil, opaque
}

func isPlain(body []byte) bool {
	t := bytes.TrimSpace(clipTo(body, 64))
	return len(t) > 0 && (t[0] == '{' || t[0] == '[' || t[0] == '<')
}

// inflateDeflate: RFC 9110 8.4.1.2 means zlib, some servers send the bare stream.
func inflateDeflate(body []byte) ([]byte, extent) {
	text, x := inflate(func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) }, body)
	if len(text) > 0 {
		return text, x
	}
	return inflate(func(r io.Reader) (io.Reader, error) { return flate.NewReader(r), nil }, body)
}

func inflate(open func(io.Reader) (io.Reader, error), body []byte) ([]byte, extent) {
	r, err := open(bytes.NewReader(body))
	if err != nil {
		return nil, broken
	}
	var out bytes.Buffer
	_, err = io.CopyN(&out, r, maxBody)
	switch {
	case err == nil:
		return out.Bytes(), clipped
	case errors.Is(err, io.EOF): // the proper end, before maxBody
		return out.Bytes(), whole
	}
	return out.Bytes(), broken
}

// clipBody keeps the beginning, but of a long stream the end: that is where it says how it ended.
func clipBody(b []byte) ([]byte, extent) {
	if len(b) <= maxBody {
		return b, whole
	}
	if !isPlain(b) {
		tail := b[len(b)-maxBody:]
		if i := bytes.IndexByte(tail, '\n'); i >= 0 {
			return tail[i+1:], clipped
		}
	}
	return b[:maxBody], clipped
}

func clipTo(b []byte, n int) []byte { return b[:min(len(b), n)] }
