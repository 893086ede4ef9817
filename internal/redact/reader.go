package redact

import (
	"bytes"
	"io"
	"slices"
)

// Reader gives what from gives, without the secrets. Of a read it keeps back only what may be the beginning of one.
func (w *Words) Reader(from io.Reader) *Reader { return &Reader{from: from, words: w} }

// Reader is an io.Reader without secrets: what it gives is what Words.In would make of the whole, however the bytes come. It is not
// safe for concurrent use.
type Reader struct {
	from    io.Reader
	words   *Words
	kept    []byte // may begin a secret; as it came
	covered int    // so much at the beginning of kept is the end of one
	ready   []byte // did not fit
	small   []byte // holds ready
	err     error

	at       int64 // bytes that were made clean
	replaced []replaced
	held     int // bytes of it
}

// replaced is what stood in the place of asterisks.
type replaced struct {
	at   int64
	text []byte
}

// maxReplaced bounds what is remembered of what was replaced.
const maxReplaced = 1 << 20

// Waiting is the number of bytes that Read gives without reading.
func (r *Reader) Waiting() int { return len(r.ready) }

// Original returns what p was before its secrets were replaced, where p is the beginning of what was read: p itself where nothing
// was, else a copy. Beyond a MiB of secrets in one text they stay replaced.
func (r *Reader) Original(p []byte) []byte {
	if len(r.replaced) == 0 || r.replaced[0].at >= int64(len(p)) {
		return p
	}
	p = bytes.Clone(p)
	for _, x := range r.replaced {
		if x.at >= int64(len(p)) {
			break
		}
		copy(p[x.at:], x.text)
	}
	return p
}

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

// fill reads into p, which has room for twice the longest secret, and returns how much of it is clean. What is kept back is kept as it
// came: a secret may end in it, and a longer one go on.
func (r *Reader) fill(p []byte) int {
	n := copy(p, r.kept)
	if r.err == nil {
		var read int
		read, r.err = r.from.Read(p[n:])
		n += read
	}
	all := r.words.spans(p[:n])
	if r.covered > 0 {
		all = merged(append(all, span{0, r.covered}))
	}
	clean := n
	if r.err == nil {
		clean -= r.words.begun(p[:n])
	}
	r.kept = append(r.kept[:0], p[clean:n]...)
	if clean == 0 {
		return 0
	}
	r.covered = 0
	for _, s := range all {
		if s.from >= clean { // it is found again
			break
		}
		if s.to > clean {
			r.covered, s.to = s.to-clean, clean
		}
		r.remember(s.from, p[s.from:s.to])
		blot(p[s.from:s.to])
	}
	r.at += int64(clean)
	return clean
}

func (r *Reader) remember(at int, text []byte) {
	const each = 40
	if r.held += len(text) + each; r.held <= maxReplaced {
		r.replaced = append(r.replaced, replaced{r.at + int64(at), slices.Clone(text)})
	}
}

// begun is the length of the end of p that may be the beginning of a secret.
func (w *Words) begun(p []byte) int {
	longest := 0
	for i := range w.all {
		text := w.all[i].text
		tail := p[max(0, len(p)-len(text)+1):]
		for len(tail) > longest {
			at := bytes.IndexByte(tail, text[0])
			if at < 0 {
				break
			}
			if tail = tail[at:]; bytes.HasPrefix(text, tail) {
				longest = max(longest, len(tail))
				break
			}
			tail = tail[1:]
		}
	}
	return longest
}
