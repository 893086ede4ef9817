package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/internal/canon"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// call is one tools/call of a write tool.
type call struct {
	s      *session
	m      *message // as the client wrote it
	sent   *message // as it is sent, but for its id
	head   head
	tool   string
	rule   *rule
	facts  tool
	effect string // who says that it writes
	reason string // why it is repeated on purpose
	task   bool   // a task is asked for

	fingerprint [32]byte // tenant, server, tool and arguments: the same in every session
	plain       [32]byte // the same without the reason for a repetition
	base        string   // the same within this session
	key         string   // the claim; empty under derive: off
	slot        string   // under which the running call is found
}

// maxTool bounds a tool's name (MCP asks for 128 at most).
const maxTool = 256

// callTool takes over the call of a write tool, and passes on every other.
func (s *session) callTool(m *message, h head, to sink) {
	name, args, err := callParams(m)
	if err != nil {
		to.answer(failure(m.id, codeInvalidParams, err.Error()))
		return
	}
	rule, err := s.srv.rule(name)
	if err != nil {
		to.answer(failure(m.id, codeInternal, err.Error()))
		return
	}
	write, known, why := s.srv.writes(name, rule)
	if !known {
		if c, err := s.connected(); err == nil {
			s.fetchTools(c, ownMeta(m))
			write, _, why = s.srv.writes(name, rule)
		}
	}
	if !write {
		s.forward(&pending{client: m.id, m: m, name: name, head: h, to: to, read: true})
		return
	}
	c := &call{s: s, m: m, sent: m, head: h, tool: name, rule: rule, facts: s.srv.facts(name), effect: why,
		task: gjson.GetBytes(m.params, "task").IsObject()}
	if err := c.identify(args); err != nil {
		to.answer(c.said(m.id, refusal{code: "invalid_request", safe: safeNo, text: "Nothing was executed: " + err.Error() + "."}))
		return
	}
	if rule.Mode == policy.Observe {
		s.observe(c, to)
		return
	}
	s.p.run(c, to)
}

// callParams reads what a call is of.
func callParams(m *message) (name string, args json.RawMessage, err error) {
	seen := map[string]bool{}
	if m.params == nil {
		return "", nil, errors.New("params are missing")
	}
	err = members(m.params, func(member string, value json.RawMessage, _ int) error {
		if seen[member] {
			return fmt.Errorf("%s is there twice", strconv.Quote(member))
		}
		seen[member] = true
		switch member {
		case "name":
			if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &name) != nil {
				return errors.New("name is no text")
			}
		case "arguments":
			args = value
		}
		return nil
	})
	switch {
	case err != nil:
		return "", nil, err
	case name == "" || len(name) > maxTool:
		return "", nil, fmt.Errorf("a tool's name has 1 to %d bytes", maxTool)
	case args != nil && args[0] != '{' && string(args) != "null":
		return "", nil, errors.New("arguments are no object")
	}
	return name, args, nil
}

// ownMeta is what a request of ours must say of itself where the client speaks MCP 2026-07-28: what the client says.
func ownMeta(m *message) json.RawMessage {
	if modernVersion(m.params) == "" {
		return nil
	}
	meta, err := sjson.DeleteBytes([]byte(gjson.GetBytes(m.params, "_meta").Raw), "progressToken")
	if err != nil {
		return nil
	}
	return meta
}

// identify strips what is ours from the arguments and makes fingerprint and key.
func (c *call) identify(args json.RawMessage) error {
	if !c.facts.owns && c.rule.Mode != policy.Observe {
		if r := gjson.GetBytes(args, repeatReason); r.Exists() {
			if err := c.strip(args, r); err != nil {
				return err
			}
			_, args, _ = callParams(c.sent) // as read before
		}
	}
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	enc := canon.Encoder{Depth: c.s.srv.depth}
	clean, err := enc.Append(nil, args, nil)
	if err != nil {
		return fmt.Errorf("the arguments have no one meaning (%w)", err)
	}
	body := slices.Concat([]byte(`{"arguments":`), clean, []byte(`,"name":`), quoted(c.tool), []byte(`}`))
	again := ""
	if c.reason != "" {
		sum := sha256.Sum256([]byte(c.reason))
		again = "/again/" + hex.EncodeToString(sum[:16])
	}
	return c.derive(body, again)
}

// strip takes repeat_reason out of the arguments.
func (c *call) strip(args json.RawMessage, r gjson.Result) error {
	if r.Type != gjson.String || len(r.Str) > maxReason {
		return fmt.Errorf("%s is a text of at most %d bytes", repeatReason, maxReason)
	}
	c.reason = r.Str
	rest, err := sjson.DeleteBytes(bytes.Clone(args), repeatReason)
	if err != nil {
		return fmt.Errorf("%s cannot be taken out of the arguments: %w", repeatReason, err)
	}
	at := c.m.paramsAt
	err = members(c.m.params, func(name string, value json.RawMessage, from int) error {
		if name != "arguments" {
			return nil
		}
		c.sent, err = parse(splice(c.m.raw, at+from, at+from+len(value), rest), c.s.srv.depth)
		return err
	})
	return err
}

const maxReason = 1024

// derive makes the key: of business arguments across sessions, else of all arguments within the session and until another write
// (semantics 41). Nothing that a model or a client makes anew for each try is in it.
func (c *call) derive(body []byte, again string) error {
	s := c.s
	path := "/mcp/" + s.srv.name
	r := idempotency.Request{Env: s.p.env(), Tenant: s.caller.Tenant, Workflow: s.srv.name, Owner: s.caller.Owner, Path: path,
		Body: body, API: idempotency.Tool}
	c.plain = c.rule.keyer.Fingerprint(&r)
	r.Path = path + again
	c.fingerprint = c.rule.keyer.Fingerprint(&r)
	if mutant.On("key-from-call-id") {
		r.Body = slices.Concat(body[:len(body)-1], []byte(`,"id":`), c.m.id, []byte(`}`))
		c.fingerprint = c.rule.keyer.Fingerprint(&r)
	}
	if c.rule.Derive == policy.DeriveOff {
		return nil
	}
	if c.rule.Key != "" {
		var err error
		c.key, err = c.rule.keyer.DerivedKey(&r, c.fingerprint)
		c.slot = c.key
		return err
	}
	within := func(window string) (string, error) {
		r.Path = path + "/session/" + s.scope + window + again
		return c.rule.keyer.DerivedKey(&r, c.rule.keyer.Fingerprint(&r))
	}
	var err error
	if c.base, err = within(""); err != nil {
		return err
	}
	c.slot = c.base
	keyed := func(window string) (string, error) { return within("/" + window) }
	window, err := s.srv.history.window(c, keyed)
	if err != nil {
		return err
	}
	c.key, err = keyed(window)
	return err
}

var effects = map[policy.Effect]ledger.Effect{policy.Read: ledger.EffectRead, policy.Generation: ledger.EffectGeneration,
	policy.External: ledger.EffectExternal}

// intentHead is the intent's immutable part.
func (c *call) intentHead() ledger.Intent {
	s := c.s
	h := ledger.Intent{Tenant: s.caller.Tenant, Workflow: s.srv.name, OwnerKey: s.caller.Owner, Effect: effects[c.rule.Effect],
		Hold: c.rule.OnUnknown != policy.RetryUnknown, Key: c.key, Fingerprint: c.fingerprint, Method: "tools/call", Path: "/mcp/" + s.srv.name,
		Provider: "mcp", Endpoint: c.tool, Priority: "normal", MaxAttempts: 1, PolicyRevision: s.p.revision()}
	if c.reason != "" {
		h.Trigger = repeatReason
	}
	return h
}
