package idempotency

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-ai/holdfast/internal/canon"
	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// Why a request has no key under a template. Match with errors.Is.
var (
	// ErrNoField is a body without a value for a field of the template: none, null, or empty text, with which a key would be shared by
	// operations that differ; or an object or a list, of which nobody has said what in it is the business.
	ErrNoField = errors.New("no value for a field of the key template")
	// ErrNotJSON is a body whose fields cannot be read without doubt.
	ErrNotJSON = errors.New("the key template needs a JSON body")
)

// A Template is a key made of business arguments: "{customer_id}:{item.id}:{date}". The text between the fields is the
// author's own; {{ and }} stand for braces.
type Template struct {
	text   string
	fields [][]string
}

// ParseTemplate reads a template. The error says what is wrong and where.
func ParseTemplate(text string) (*Template, error) {
	t := &Template{text: text}
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "{{"), strings.HasPrefix(text[i:], "}}"):
			i++
		case text[i] == '}':
			return nil, fmt.Errorf("template %q: } at %d closes nothing; write }} for a brace", text, i+1)
		case text[i] == '{':
			n := strings.IndexAny(text[i+1:], "{}")
			if n < 0 || text[i+1+n] == '{' {
				return nil, fmt.Errorf("template %q: { at %d is not closed; write {{ for a brace", text, i+1)
			}
			path, err := parsePath(text[i+1 : i+1+n])
			if err != nil {
				return nil, fmt.Errorf("template %q: field at %d: %v", text, i+1, err)
			}
			t.fields = append(t.fields, path)
			i += 1 + n
		}
	}
	if t.fields == nil {
		return nil, fmt.Errorf("template %q: it names no field, so every request would have the same key; write {field}", text)
	}
	return t, nil
}

// String is the template as written.
func (t *Template) String() string { return t.text }

// Fields are the paths that the template names, as a.b.c, in order.
func (t *Template) Fields() []string {
	out := make([]string, len(t.fields))
	for i, f := range t.fields {
		out[i] = strings.Join(f, ".")
	}
	return out
}

// Append appends the template and the fields' values in the JSON object that body is, already in canonical form. Text keeps its
// quotes, so that no value can pass for two, unless it spells a number: then it is that number. Who writes a call anew, as a
// model does, writes an id now as 7 and now as "7", and no business tells two operations apart by that.
func (t *Template) Append(dst, body []byte) ([]byte, error) {
	mark := len(dst)
	dst = append(canon.AppendEscaped(append(dst, `key "`...), t.text), "\" ["...)
	for i, f := range t.fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		v := canon.Lookup(body, f...)
		if why := unfit(v); why != "" {
			return dst[:mark], fmt.Errorf("idempotency: %w: %s in %q %s", ErrNoField, strings.Join(f, "."), t.text, why)
		}
		if v[0] == '"' && canon.IsNumber(v[1:len(v)-1]) && !mutant.On("key-by-spelling") {
			v = v[1 : len(v)-1]
		}
		dst = append(dst, v...)
	}
	return append(dst, "]\n"...), nil
}

// unfit says why a value, in canonical form, makes no key.
func unfit(v []byte) string {
	switch {
	case v == nil:
		return "is not there"
	case v[0] == 'n':
		return "is null"
	case v[0] == '{':
		return "is an object; name a field in it, or several"
	case v[0] == '[':
		return "is a list; only text, numbers, true and false make a key"
	case v[0] == '"' && blank(v):
		return "is empty text"
	}
	return ""
}

// blank recognises text of white space alone.
func blank(v []byte) bool {
	if c := v[1]; c > ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
		return false // nearly all text
	}
	var text string
	return json.Unmarshal(v, &text) == nil && strings.TrimSpace(text) == ""
}

// business appends the canonical form under a key template: method, path, owner, for a tool its name, and the template's values. A tool's
// fields are those of its arguments.
func (k *Keyer) business(s *scratch, out []byte, r *Request) ([]byte, error) {
	body, coding := decode(r.Body, r.Header["Content-Encoding"])
	if coding != "" {
		return out, fmt.Errorf("idempotency: %w: content coding %q", ErrNotJSON, coding)
	}
	var err error
	if s.json, err = s.appendJSON(s.json[:0], body, nil); err != nil {
		return out, fmt.Errorf("idempotency: %w: %w", ErrNotJSON, err)
	}
	mark, fields := len(out), s.json
	out = k.head(out, r)
	if api := r.api(body); api == Tool || api == Message {
		call := s.json
		if p := canon.Lookup(call, "params"); p != nil {
			call = p
		}
		out = append(slices.Concat(out, []byte("tool "), canon.Lookup(call, "name")), '\n')
		fields = canon.Lookup(call, "arguments")
	}
	if out, err = k.template.Append(out, fields); err != nil {
		return out[:mark], err
	}
	return out, nil
}
