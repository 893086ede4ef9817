package idempotency

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"strconv"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/canon"
)

// Bounds of one body. Beyond them it is hashed by its bytes as received, which costs no memory.
const (
	maxJSON    = 64 << 20
	maxDecoded = 64 << 20 // after content decoding: a bomb is not unpacked
	maxParts   = 10_000
)

// appendBody appends the body in the first of its forms that fits: none, JSON, multipart by part, bytes. The error
// says why a body that claims to be JSON or multipart is hashed by its bytes.
func (k *Keyer) appendBody(s *scratch, out []byte, r *Request) ([]byte, error) {
	body, coding := decode(r.Body, r.Header["Content-Encoding"])
	if len(body) == 0 && coding == "" {
		return append(out, "body none\n"...), nil
	}
	if coding != "" {
		return appendBytes(out, body, coding), fmt.Errorf("idempotency: content coding %q is not decoded", coding)
	}
	api := r.api(body)
	mark, mediaType := len(out), first(r.Header["Content-Type"])
	var err error
	switch {
	case hasPrefixFold(mediaType, "multipart/"):
		out, err = k.appendParts(append(out, "body multipart\n"...), body, mediaType)
	case api != Other || mediaType == "" || isJSON(mediaType):
		// The formats of the published list are JSON whatever the header says; so do their providers read them.
		out, err = s.appendJSON(append(out, "body json\n"...), body, k.rules[api])
	default:
		err = errOther
	}
	if err == nil {
		return out, nil
	}
	if errors.Is(err, errOther) {
		err = nil
	}
	return appendBytes(out[:mark], body, ""), err
}

// errOther marks a body that is neither JSON nor multipart by its own account.
var errOther = errors.New("other")

func (s *scratch) appendJSON(out, body []byte, rule *canon.Rule) ([]byte, error) {
	if len(body) > maxJSON {
		return out, fmt.Errorf("idempotency: %d bytes are too many to sort", len(body))
	}
	return s.body.Append(out, bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")), rule)
}

func appendBytes(out, body []byte, coding string) []byte {
	out = append(out, "body bytes "...)
	if coding != "" {
		out = append(canon.AppendEscaped(append(out, '"'), coding), `" `...)
	}
	return append(appendHash(out, body), '\n')
}

// appendParts appends a line for each part: name, file name, size and hash. The boundary, which clients draw at random, has
// no part in it.
func (k *Keyer) appendParts(out, body []byte, mediaType string) ([]byte, error) {
	_, params, err := mime.ParseMediaType(mediaType)
	if err != nil {
		return out, fmt.Errorf("idempotency: content type: %w", err)
	}
	parts := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for range maxParts {
		// Raw: with a transfer encoding undone, the size and hash would not be those of the bytes sent.
		p, err := parts.NextRawPart()
		if err == io.EOF {
			return out, nil
		}
		if err == nil {
			out, err = k.appendPart(out, p)
		}
		if err != nil {
			return out, fmt.Errorf("idempotency: multipart: %w", err)
		}
	}
	return out, fmt.Errorf("idempotency: multipart: more than %d parts", maxParts)
}

func (k *Keyer) appendPart(out []byte, p *multipart.Part) ([]byte, error) {
	h := sha256.New()
	n, err := io.Copy(h, p)
	if err != nil {
		return out, err
	}
	// Not p.FileName: it drops the folder, which counts.
	_, params, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
	if err != nil && p.Header.Get("Content-Disposition") != "" {
		return out, err
	}
	name, file := params["name"], params["filename"]
	if k.ignored[name] {
		return out, nil
	}
	out = append(canon.AppendEscaped(append(out, `part "`...), name), `" "`...)
	out = append(canon.AppendEscaped(out, file), `" `...)
	out = append(strconv.AppendInt(out, n, 10), " sha256:"...)
	return append(hex.AppendEncode(out, h.Sum(nil)), '\n'), nil
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

func isJSON(mediaType string) bool {
	t, _, _ := strings.Cut(mediaType, ";")
	t = strings.TrimSpace(t)
	return strings.EqualFold(t, "application/json") || strings.EqualFold(t, "text/json") ||
		len(t) > 5 && strings.EqualFold(t[len(t)-5:], "+json")
}
