// Package redact takes known secrets out of bytes that pass.
package redact

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Words are secrets, in the forms in which they are quoted. Nil has none. They are safe for concurrent use.
type Words struct {
	all     []word // the longest first
	longest int
}

// word is one form of a secret.
type word struct {
	text   []byte
	period int // the next occurrence begins this far behind another at the earliest
}

// New takes fields that prove something, for the secrets in them. It returns nil where there is nothing to look for.
func New(fields ...Field) *Words {
	w := &Words{}
	for _, f := range fields {
		for _, secret := range f.secrets() {
			w.add(secret)
		}
	}
	if w.all == nil {
		return nil
	}
	slices.SortFunc(w.all, func(a, b word) int { return len(b.text) - len(a.text) })
	w.longest = len(w.all[0].text)
	return w
}

// add enters a secret as it is, and as JSON, an HTML-safe JSON writer and an address would quote it.
func (w *Words) add(secret string) {
	if !distinct(secret) {
		return
	}
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(secret) // a string always is
	html, _ := json.Marshal(secret)
	quoted := strings.TrimSpace(plain.String())
	quoted = quoted[1 : len(quoted)-1]
	for _, form := range []string{secret, quoted, strings.ReplaceAll(quoted, "/", `\/`), string(html[1 : len(html)-1]), url.QueryEscape(secret), url.PathEscape(secret)} {
		if !slices.ContainsFunc(w.all, func(x word) bool { return string(x.text) == form }) {
			w.all = append(w.all, word{[]byte(form), period(form)})
		}
	}
}

// period is the distance at which a text can overlap itself (Knuth, Morris, Pratt).
func period(text string) int {
	border := make([]int, len(text)+1)
	border[0] = -1
	for i, k := 0, -1; i < len(text); i++ {
		for k >= 0 && text[i] != text[k] {
			k = border[k]
		}
		k++
		border[i+1] = k
	}
	return len(text) - border[len(text)]
}

// span is a part of a text that belongs to secrets.
type span struct{ from, to int }

// spans are where secrets stand in p, in order, each as long as secrets overlap or touch.
func (w *Words) spans(p []byte) []span {
	var all []span
	for i := range w.all {
		x := &w.all[i]
		for at := 0; ; {
			n := bytes.Index(p[at:], x.text)
			if n < 0 {
				break
			}
			all = append(all, span{at + n, at + n + len(x.text)})
			at += n + x.period
		}
	}
	return merged(all)
}

func merged(all []span) []span {
	if len(all) < 2 {
		return all
	}
	slices.SortFunc(all, func(a, b span) int { return a.from - b.from })
	out := all[:1]
	for _, s := range all[1:] {
		if last := &out[len(out)-1]; s.from <= last.to {
			last.to = max(last.to, s.to)
		} else {
			out = append(out, s)
		}
	}
	return out
}

func blot(p []byte) {
	for i := range p {
		p[i] = '*'
	}
}

// In replaces the secrets in p by asterisks of the same length, in place. It reports whether there were any.
func (w *Words) In(p []byte) (found bool) {
	if w == nil {
		return false
	}
	all := w.spans(p)
	for _, s := range all {
		blot(p[s.from:s.to])
	}
	return len(all) > 0
}

// Of is In for a copy: it returns p itself where there is nothing to replace.
func (w *Words) Of(p []byte) []byte {
	if w == nil || len(w.spans(p)) == 0 {
		return p
	}
	p = bytes.Clone(p)
	w.In(p)
	return p
}

// Text is In for a text.
func (w *Words) Text(s string) string {
	if w == nil || s == "" {
		return s
	}
	return string(w.Of([]byte(s)))
}

// Header returns h without the secrets in its values: h itself where there are none, else a copy.
func (w *Words) Header(h http.Header) http.Header {
	if w == nil {
		return h
	}
	out, changed := h, false
	for name, values := range h {
		for i, v := range values {
			clean := w.Text(v)
			if clean == v {
				continue
			}
			if !changed {
				out, changed = h.Clone(), true
			}
			out[name][i] = clean
		}
	}
	return out
}
