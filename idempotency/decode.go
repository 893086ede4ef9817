package idempotency

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"strings"
)

// decode undoes the content coding, so that a body that is compressed again, by another level or library, is the same
// body. What it cannot undo — br, zstd, several codings at once, damaged or oversized data — comes back as it is, with the name of the coding.
func decode(body []byte, codings []string) (plain []byte, left string) {
	coding := first(codings)
	if len(codings) > 1 {
		coding = strings.Join(codings, ", ")
	}
	coding = strings.TrimSpace(coding)
	if coding == "" || strings.EqualFold(coding, "identity") {
		return body, ""
	}
	coding = strings.ToLower(coding)
	switch coding {
	case "gzip", "x-gzip":
		if r, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			if plain, ok := inflate(r); ok {
				return plain, ""
			}
		}
	case "deflate":
		// RFC 9110, 8.4.1.2 means the zlib format; some clients send the bare one.
		if r, err := zlib.NewReader(bytes.NewReader(body)); err == nil {
			if plain, ok := inflate(r); ok {
				return plain, ""
			}
		} else if plain, ok := inflate(flate.NewReader(bytes.NewReader(body))); ok {
			return plain, ""
		}
	}
	return body, coding
}

func inflate(r io.Reader) ([]byte, bool) {
	plain, err := io.ReadAll(io.LimitReader(r, maxDecoded+1))
	return plain, err == nil && len(plain) <= maxDecoded
}
