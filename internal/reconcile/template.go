package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
)

// template is text with {fields}: {key} is the key that the far side was given, every other one a field of what the
// caller asked for, a or a.b.c. {{ and }} stand for braces.
type template struct {
	text  string
	parts []part
}

type part struct {
	literal string
	field   string
	query   bool // behind the question mark
}

var errTemplate = errors.New("the template does not fit")

// parseAddress reads the template of an address: fields may stand in its path and its query. A fragment is refused,
// because it is never sent (RFC 9110, section 4.2.5): its author meant a # of the path, which is written %23.
func parseAddress(text string) (*template, error) {
	if strings.Contains(text, "#") {
		return nil, fmt.Errorf("%w: a fragment is never sent; write %%23 for a # of the path or the query", errTemplate)
	}
	return parseTemplate(text)
}

// parseTemplate reads a template.
func parseTemplate(text string) (*template, error) {
	t := &template{text: text}
	var literal strings.Builder
	query := false
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "{{"), strings.HasPrefix(text[i:], "}}"):
			literal.WriteByte(text[i])
			i++
		case text[i] == '{':
			n := strings.IndexByte(text[i:], '}')
			if n < 2 {
				return nil, fmt.Errorf("%w: a brace at %d is not closed", errTemplate, i+1)
			}
			t.parts = append(t.parts, part{literal: literal.String(), field: text[i+1 : i+n], query: query})
			literal.Reset()
			i += n
		default:
			query = query || text[i] == '?'
			literal.WriteByte(text[i])
		}
	}
	t.parts = append(t.parts, part{literal: literal.String()})
	return t, nil
}

// address fills the template in as an address. No value changes its host or its path's segments (semantics 45).
func (t *template) address(key string, arguments []byte) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		b.WriteString(p.literal)
		if p.field == "" {
			continue
		}
		v, err := value(p.field, key, arguments)
		switch {
		case err != nil:
			return "", err
		case p.query:
			b.WriteString(url.QueryEscape(v))
		case v == "" || v == "." || v == ".." || strings.ContainsAny(v, "/\\"):
			return "", fmt.Errorf("%w: the value of {%s} is no single segment of a path", errTemplate, p.field)
		default:
			b.WriteString(url.PathEscape(v))
		}
	}
	return b.String(), nil
}

// plain fills the template in as text; a template that is one field alone keeps the field's type.
func (t *template) plain(key string, arguments []byte) (any, error) {
	if len(t.parts) == 2 && t.parts[0].literal == "" && t.parts[1].literal == "" && t.parts[0].field != "key" {
		if v := lookUp(t.parts[0].field, arguments); v.Exists() {
			return json.RawMessage(v.Raw), nil // as the caller wrote it
		}
	}
	return t.words(key, arguments)
}

// words fills the template in as text.
func (t *template) words(key string, arguments []byte) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		b.WriteString(p.literal)
		if p.field == "" {
			continue
		}
		v, err := value(p.field, key, arguments)
		if err != nil {
			return "", err
		}
		b.WriteString(v)
	}
	return b.String(), nil
}

// maxValue bounds a value that goes into an address.
const maxValue = 1 << 10

func value(field, key string, arguments []byte) (string, error) {
	if field == "key" {
		if key == "" {
			return "", fmt.Errorf("%w: the operation has no key", errTemplate)
		}
		return key, nil
	}
	if arguments == nil {
		return "", fmt.Errorf("%w: the request was not kept, so {%s} has no value (retention.request_bodies)", errTemplate, field)
	}
	v := lookUp(field, arguments)
	text := v.String()
	if v.Type == gjson.Number {
		text = v.Raw // as the caller wrote it: no digit of an id may be lost
	}
	switch {
	case !v.Exists() || v.Type == gjson.Null || v.IsObject() || v.IsArray():
		return "", fmt.Errorf("%w: the request has no value for {%s}", errTemplate, field)
	case strings.TrimSpace(text) == "": // asks for everything, so that another operation's record would prove this one
		return "", fmt.Errorf("%w: the request's value for {%s} is empty", errTemplate, field)
	case len(text) > maxValue:
		return "", fmt.Errorf("%w: the value of {%s} is longer than %d bytes", errTemplate, field, maxValue)
	}
	return text, nil
}

func lookUp(field string, arguments []byte) gjson.Result {
	steps := strings.Split(field, ".")
	for i := range steps {
		steps[i] = gjson.Escape(steps[i])
	}
	return gjson.GetBytes(arguments, strings.Join(steps, "."))
}

// argumentsOf finds the arguments in what was kept of a request: a JSON-RPC message of tools/call, its parameters, or
// the body of an HTTP call.
func argumentsOf(body []byte) []byte {
	if !gjson.ValidBytes(body) {
		return nil
	}
	for _, path := range []string{"params.arguments", "arguments"} {
		if v := gjson.GetBytes(body, path); v.IsObject() && (path == "arguments" || gjson.GetBytes(body, "jsonrpc").Exists()) {
			return []byte(v.Raw)
		}
	}
	return body
}
