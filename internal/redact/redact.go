// Package redact takes known secrets out of bytes that pass.
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strings"
)

// Shortest keeps words that occur in any text from being blotted out: a shorter secret is not looked for.
const Shortest = 8

// Words are secrets, in the forms in which they are quoted. Nil has none. They are safe for concurrent use.
type Words struct {
	all     [][]byte // the longest first
	longest int
}

// New takes values of header fields that prove something: what follows a scheme (Bearer, Basic) is the secret. It returns nil where
// there is nothing to look for.
func New(values ...string) *Words {
	w := &Words{}
	for _, v := range values {
		scheme, rest, ok := strings.Cut(strings.TrimSpace(v), " ")
		if !ok {
			rest = scheme
		}
		rest = strings.TrimSpace(rest)
		w.add(rest)
		if strings.EqualFold(scheme, "basic") && ok {
			if plain, err := base64.StdEncoding.DecodeString(rest); err == nil {
				_, password, _ := strings.Cut(string(plain), ":")
				w.add(password)
			}
		}
	}
	if w.all == nil {
		return nil
	}
	slices.SortFunc(w.all, func(a, b []byte) int { return len(b) - len(a) })
	w.longest = len(w.all[0])
	return w
}

// add enters a secret as it is, and as JSON, an HTML-safe JSON writer and an address would quote it.
func (w *Words) add(secret string) {
	if len(secret) < Shortest {
		return
	}
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(secret) // a string always is
	html, _ := json.Marshal(secret)
	quoted := strings.Trim(strings.TrimSpace(plain.String()), `"`)
	for _, form := range []string{secret, quoted, strings.ReplaceAll(quoted, "/", `\/`), string(html[1 : len(html)-1]), url.QueryEscape(secret), url.PathEscape(secret)} {
		if !slices.ContainsFunc(w.all, func(b []byte) bool { return string(b) == form }) {
			w.all = append(w.all, []byte(form))
		}
	}
}

// In replaces the secrets in p by asterisks of the same length, in place. It reports whether there were any.
func (w *Words) In(p []byte) (found bool) {
	if w == nil {
		return false
	}
	for _, word := range w.all {
		for at := 0; ; {
			n := bytes.Index(p[at:], word)
			if n < 0 {
				break
			}
			found = true
			for i := range word {
				p[at+n+i] = '*'
			}
			at += n + len(word)
		}
	}
	return found
}

// Header replaces the secrets in the values of h, whose fields it changes.
func (w *Words) Header(h map[string][]string) {
	if w == nil {
		return
	}
	for name, values := range h {
		for i, v := range values {
			if b := []byte(v); w.In(b) {
				values = slices.Clone(values)
				values[i] = string(b)
				h[name] = values
			}
		}
	}
}

// Reader gives what from gives, without the secrets. Of a read it keeps back only what may be the beginning of one.
func (w *Words) Reader(from io.Reader) *Reader { return &Reader{from: from, words: w} }

// Reader is an io.Reader without secrets. It is not safe for concurrent use.
type Reader struct {
	from  io.Reader
	words *Words
	kept  []byte // may begin a secret
	ready []byte // did not fit
	small []byte // holds ready
	err   error
}

// Waiting is the number of bytes that Read gives without reading.
func (r *Reader) Waiting() int { return len(r.ready) }

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if len(r.ready) > 0 {
			n := copy(p, r.ready)
			r.ready = r.ready[n:]
			return n, nil
		}
		if r.err != nil && len(r.kept) == 0 {
			return 0, r.err
		}
		if len(p) >= 2*r.words.longest {
			if n := r.fill(p); n > 0 {
				return n, nil
			}
			continue
		}
		if r.small == nil {
			r.small = make([]byte, 2*r.words.longest)
		}
		r.ready = r.small[:r.fill(r.small)]
	}
}

// fill reads into p, which has room for twice the longest secret, and returns how much of it is clean.
func (r *Reader) fill(p []byte) int {
	n := copy(p, r.kept)
	r.kept = r.kept[:0]
	if r.err == nil {
		var read int
		read, r.err = r.from.Read(p[n:])
		n += read
	}
	r.words.In(p[:n])
	if r.err != nil {
		return n
	}
	keep := r.words.begun(p[:n])
	r.kept = append(r.kept, p[n-keep:n]...)
	return n - keep
}

// begun is the length of the end of p that may be the beginning of a secret.
func (w *Words) begun(p []byte) int {
	longest := 0
	for _, word := range w.all {
		tail := p[max(0, len(p)-len(word)+1):]
		for len(tail) > longest {
			at := bytes.IndexByte(tail, word[0])
			if at < 0 {
				break
			}
			if tail = tail[at:]; bytes.HasPrefix(word, tail) {
				longest = max(longest, len(tail))
				break
			}
			tail = tail[1:]
		}
	}
	return longest
}
