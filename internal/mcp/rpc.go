package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Error codes of JSON-RPC 2.0 and of MCP that mean something here.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeUnavailable    = -32000 // ours: the server cannot be reached, nothing of the request was done
	codeURLElicitation = -32042 // MCP 2025-11-25: the client opens a page first and calls again
)

// maxID bounds the id of a request, which is copied into every answer.
const maxID = 1024

var (
	errNotRPC   = errors.New("not a JSON-RPC message")
	errTooDeep  = errors.New("nested deeper than limits.json_depth allows")
	errTooLarge = errors.New("message is larger than the limits allow")
)

// message is one JSON-RPC message, as its sender wrote it. Its parts are views of raw.
type message struct {
	raw      []byte
	id       json.RawMessage // nil: none
	idAt     int             // where id begins in raw
	method   string          // empty: a response
	params   json.RawMessage
	paramsAt int // where params begins in raw
	result   json.RawMessage
	error    json.RawMessage
}

func (m *message) isRequest() bool      { return m.method != "" && m.id != nil }
func (m *message) isNotification() bool { return m.method != "" && m.id == nil }
func (m *message) isResponse() bool     { return m.method == "" }

// parse reads the outside of a message. What lies inside is checked for being JSON and for its depth, and is otherwise
// left as it is: two members of one name among those that decide where a message goes are refused, since the two sides of the proxy
// might read them differently.
func parse(raw []byte, depth int) (*message, error) {
	if deeper(raw, depth) {
		return nil, errTooDeep
	}
	m := &message{raw: raw}
	err := members(raw, func(name string, value json.RawMessage, at int) error {
		var to *json.RawMessage
		switch name {
		case "id":
			to, m.idAt = &m.id, at
		case "method":
			if m.method != "" || len(value) < 3 || value[0] != '"' {
				return errNotRPC
			}
			return json.Unmarshal(value, &m.method)
		case "params":
			to, m.paramsAt = &m.params, at
		case "result":
			to = &m.result
		case "error":
			to = &m.error
		default:
			return nil
		}
		if *to != nil {
			return fmt.Errorf("%w: %s is there twice", errNotRPC, name)
		}
		*to = value
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m, m.check()
}

func (m *message) check() error {
	answered := m.result != nil || m.error != nil
	switch {
	case m.method == "" && !answered:
		return fmt.Errorf("%w: neither method nor result nor error", errNotRPC)
	case m.method != "" && answered, m.result != nil && m.error != nil:
		return fmt.Errorf("%w: two kinds of message in one", errNotRPC)
	case m.method == "" && m.id == nil:
		return fmt.Errorf("%w: an answer without an id", errNotRPC)
	case m.id == nil || m.method == "" && string(m.id) == "null":
		return nil
	case len(m.id) > maxID:
		return fmt.Errorf("%w: the id has more than %d bytes", errNotRPC, maxID)
	case m.id[0] != '"' && m.id[0] != '-' && (m.id[0] < '0' || m.id[0] > '9'):
		return fmt.Errorf("%w: the id is neither text nor number", errNotRPC)
	}
	return nil
}

// members calls f for each member of the object that raw is, with where its value begins.
func members(raw []byte, f func(name string, value json.RawMessage, at int) error) error {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return errNotRPC
	}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			return errNotRPC
		}
		name := t.String()
		v, err := d.ReadValue()
		if err != nil {
			return errNotRPC
		}
		end := int(d.InputOffset())
		at := end - len(v)
		if err := f(name, json.RawMessage(raw[at:end:end]), at); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return errNotRPC
	}
	if len(bytes.TrimSpace(raw[d.InputOffset():])) != 0 {
		return errNotRPC
	}
	return nil
}

// deeper says whether JSON nests deeper than max.
func deeper(raw []byte, max int) bool {
	depth, text := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			if depth++; depth > max {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// withID is the message under another id; nothing else of it changes.
func (m *message) withID(id []byte) []byte {
	return splice(m.raw, m.idAt, m.idAt+len(m.id), id)
}

// splice replaces raw[from:to].
func splice(raw []byte, from, to int, with []byte) []byte {
	return slices.Concat(raw[:from], with, raw[to:])
}

// oneLine makes JSON fit where a line end ends a message: the only raw line ends in JSON are white space.
func oneLine(raw []byte) []byte {
	if !bytes.ContainsAny(raw, "\r\n") {
		return raw
	}
	out := bytes.Clone(raw)
	for i, c := range out {
		if c == '\r' || c == '\n' {
			out[i] = ' '
		}
	}
	return bytes.TrimSpace(out)
}

// number is an id of our own.
func number(n int64) json.RawMessage { return strconv.AppendInt(nil, n, 10) }

// result is an answer to the request with that id.
func result(id, value json.RawMessage) []byte {
	return slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), id, []byte(`,"result":`), value, []byte(`}`))
}

// failure is an error answer. A nil id is one that could not be read.
func failure(id json.RawMessage, code int, text string) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	value, err := json.Marshal(map[string]any{"code": code, "message": "holdfast: " + text})
	if err != nil { // a number and a text always marshal
		value = []byte(`{"code":-32603,"message":"holdfast"}`)
	}
	return slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), id, []byte(`,"error":`), value, []byte(`}`))
}

// request and notification are messages of our own to a server.
func request(id int64, method string, params json.RawMessage) []byte {
	return slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), number(id), []byte(`,"method":`), quoted(method), member("params", params), []byte(`}`))
}

func notification(method string, params json.RawMessage) []byte {
	return slices.Concat([]byte(`{"jsonrpc":"2.0","method":`), quoted(method), member("params", params), []byte(`}`))
}

func member(name string, value json.RawMessage) []byte {
	if value == nil {
		return nil
	}
	return slices.Concat([]byte(`,`), quoted(name), []byte(`:`), value)
}

func quoted(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // text always marshals
		return []byte(`""`)
	}
	return b
}

// rpcError is the error of an answer.
type rpcError struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
}

// batch reads a message, or a list of them as MCP 2025-03-26 has it.
func batch(raw []byte, depth int) ([]*message, error) {
	if t := bytes.TrimLeft(raw, " \t\r\n"); len(t) == 0 || t[0] != '[' {
		m, err := parse(raw, depth)
		if err != nil {
			return nil, err
		}
		return []*message{m}, nil
	}
	if deeper(raw, depth) {
		return nil, errTooDeep
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil || len(parts) == 0 || len(parts) > maxBatch {
		return nil, fmt.Errorf("%w: a list of 1 to %d messages is one", errNotRPC, maxBatch)
	}
	out := make([]*message, 0, len(parts))
	for _, part := range parts {
		m, err := parse(part, depth)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

const maxBatch = 256
