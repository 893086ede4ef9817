package idempotency

import (
	"slices"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/canon"
	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// version is the first line of every canonical form. It changes with the form, so that a claim made by one version
// of the form is never taken for one of another.
const version = "holdfast 1\n"

// canonical appends the canonical form: lines of a name and a JSON string, absent ones left out, then the body.
func (k *Keyer) canonical(s *scratch, out []byte, r *Request) ([]byte, error) {
	out = k.head(out, r)
	if q := s.appendQuery(r.Query); len(q) > 0 {
		out = append(out, `query "`...)
		out = append(out, q...) // escaped: it holds no quote
		out = append(out, "\"\n"...)
	}
	for _, h := range headers {
		if v := r.Header[h.header]; len(v) > 0 {
			out = s.appendHeader(out, h.line, v, h.set)
		}
	}
	out = appendLine(out, "schema_version", k.schemaVersion)
	return k.appendBody(s, out, r)
}

// head appends what every form begins with.
func (k *Keyer) head(out []byte, r *Request) []byte {
	out = append(out, version...)
	out = appendLine(out, "method", r.Method)
	if !mutant.On("fingerprint-without-path") {
		out = append(out, `path "`...)
		out = appendPath(out, r.Path)
		out = append(out, "\"\n"...)
	}
	return appendLine(out, "owner", r.Owner)
}

// headers are those that count: they choose what the provider does or who pays. All others are about the
// connection, the client's build or this one attempt.
var headers = [...]struct {
	header, line string
	set          bool // a comma-separated set: neither order nor repetition counts
}{
	{"Anthropic-Version", "anthropic-version", false},
	{"Anthropic-Beta", "anthropic-beta", true},
	{"Openai-Beta", "openai-beta", true},
	{"Openai-Organization", "openai-organization", false},
	{"Openai-Project", "openai-project", false},
}

// appendHeader appends the header's elements, joined by commas. White space around an element never counts.
func (s *scratch) appendHeader(out []byte, name string, values []string, set bool) []byte {
	s.list = s.list[:0]
	for _, v := range values {
		for v != "" {
			var item string
			item, v, _ = strings.Cut(v, ",")
			if item = strings.Trim(item, " \t"); item != "" {
				s.list = append(s.list, item)
			}
		}
	}
	if len(s.list) == 0 {
		return out
	}
	if set {
		slices.Sort(s.list)
		s.list = slices.Compact(s.list)
	}
	out = append(append(out, name...), ` "`...)
	for i, item := range s.list {
		if i > 0 {
			out = append(out, ',')
		}
		out = canon.AppendEscaped(out, item)
	}
	clear(s.list)
	return append(out, "\"\n"...)
}

func appendLine(out []byte, name, value string) []byte {
	if value == "" {
		return out
	}
	out = append(append(out, name...), ` "`...)
	return append(canon.AppendEscaped(out, value), "\"\n"...)
}
