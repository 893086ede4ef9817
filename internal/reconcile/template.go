package reconcile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/internal/canon"
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

// fields are the names of the fields, in their order.
func (t *template) fields() []string {
	var all []string
	for _, p := range t.parts {
		if p.field != "" {
			all = append(all, p.field)
		}
	}
	return all
}

// resource is the fields that stand in the last segment of an address's path. A slash at its end begins no segment.
func (t *template) resource() []string {
	var last []string
	for i, p := range t.parts {
		path, _, asks := strings.Cut(p.literal, "?")
		at := strings.LastIndexByte(path, '/')
		ends := at == len(path)-1 && (asks || i == len(t.parts)-1) // nothing of the path follows
		if at >= 0 && (!ends || strings.Contains(path[:at], "/")) {
			last = nil
		}
		if asks || p.query {
			break
		}
		if p.field != "" {
			last = append(last, p.field)
		}
	}
	return last
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
			return json.RawMessage(v.Raw), nil // with every digit
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
		return "", fmt.Errorf("%w: the request was not kept (retention.request_bodies), or is no JSON object that can be read in one way alone, so {%s} has no value", errTemplate, field)
	}
	v := lookUp(field, arguments)
	text := v.String()
	if v.Type == gjson.Number {
		text = v.Raw // no digit of an id may be lost
	}
	switch {
	case v.Type == gjson.Number && strings.Contains(text, "e"):
		return "", fmt.Errorf("%w: the value of {%s} is a number that is written in more than one way", errTemplate, field)
	case !v.Exists() || v.Type == gjson.Null || v.IsObject() || v.IsArray():
		return "", fmt.Errorf("%w: the request has no value for {%s}", errTemplate, field)
	case strings.TrimSpace(text) == "": // asks for everything, so that another operation's record would prove this one
		return "", fmt.Errorf("%w: the request's value for {%s} is empty", errTemplate, field)
	case len(text) > maxValue:
		return "", fmt.Errorf("%w: the value of {%s} is longer than %d bytes", errTemplate, field, maxValue)
	}
	return text, nil
}

// lookUp is the value of a field, as the key's own template finds it.
func lookUp(field string, arguments []byte) gjson.Result {
	return gjson.ParseBytes(canon.Lookup(arguments, strings.Split(field, ".")...))
}

// argumentsOf finds the arguments in what was kept of a request, in the canonical form that keys are made of: 7.0 and 7 are one
// key, so they are looked for as one. What a body is says the kind of the operation, never the body itself, in which a caller may
// name a member as it likes. A request that two readers may take for two has none.
func argumentsOf(provider string, body []byte) []byte {
	var e canon.Encoder
	doc, err := e.Append(nil, bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")), nil)
	if err != nil {
		return nil
	}
	if provider == mcpProvider { // the JSON-RPC message of tools/call
		doc = canon.Lookup(doc, "params", "arguments")
	}
	if len(doc) == 0 || doc[0] != '{' {
		return nil
	}
	return doc
}
