package admin

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-ai/holdfast/ledger"
)

// ToolCall is what an MCP call asked for: without it nobody can find the effect on the far side, and judge an unknown one.
type ToolCall struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
	// Arguments are those that the client wrote, Sent those that its server got: without what is holdfast's own. Either is null where it
	// is not on record, as under retention.request_bodies: none, and a text that is cut where it is longer than 64 KiB.
	Arguments json.RawMessage `json:"arguments"`
	Sent      json.RawMessage `json:"arguments_sent"`
	Truncated bool            `json:"truncated,omitempty"`
}

// toolMethod is no method of HTTP: it has a slash.
const toolMethod = "tools/call"

// argumentsMost bounds what of either arguments is shown, in bytes.
const argumentsMost = 64 << 10

// toolCall reads what an MCP call asked for; nil for any other operation.
func (a *API) toolCall(ctx context.Context, rec *ledger.Record) (*ToolCall, error) {
	if rec.Method != toolMethod {
		return nil, nil
	}
	c := &ToolCall{Server: strings.TrimPrefix(rec.Path, "/mcp/"), Tool: rec.Endpoint}
	asked, err := a.Ledger.Body(ctx, rec.ID, ledger.BodyRequest)
	if errors.Is(err, ledger.ErrNotFound) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	c.Arguments = c.bounded(arguments(asked.Data))
	sent, err := a.Ledger.Body(ctx, rec.ID, ledger.BodySent)
	switch {
	case errors.Is(err, ledger.ErrNotFound): // kept only where it is another
		c.Sent = c.Arguments
	case err != nil:
		return nil, err
	default:
		c.Sent = c.bounded(arguments(sent.Data))
	}
	return c, nil
}

// arguments are those of a tools/call message, {} where it has none or null, nil where it is no such message. Its members are told apart by
// their exact names, as the proxy does: one that is spelled in another case must not stand in for what was executed.
func arguments(message []byte) json.RawMessage {
	var m, params map[string]json.RawMessage
	if json.Unmarshal(message, &m) != nil || json.Unmarshal(m["params"], &params) != nil {
		return nil
	}
	if args := params["arguments"]; args != nil && string(args) != "null" {
		return args
	}
	return json.RawMessage("{}")
}

func (c *ToolCall) bounded(args json.RawMessage) json.RawMessage {
	if len(args) <= argumentsMost {
		return args
	}
	c.Truncated = true
	cut := argumentsMost
	for cut > argumentsMost-utf8.UTFMax && !utf8.RuneStart(args[cut]) {
		cut--
	}
	text, err := json.Marshal(string(args[:cut]))
	if err != nil { // a text always marshals
		return nil
	}
	return text
}
