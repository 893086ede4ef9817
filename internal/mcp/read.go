package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

var (
	errNoSession = errors.New("no client has a session with the MCP server")
	errNotRead   = errors.New("the tool is not read-only: neither its policy (effect: read) nor its server (readOnlyHint) says so")
	errUnread    = errors.New("the tool's answer says nothing")
)

// ReadTool calls a read-only tool of the server that r was sent to, over the session of a client that is there: one of
// r's own tenant and owner, so that the server shows what it would show to r's caller. It returns the structured result,
// else the text, as JSON where it is that; failed says that the tool reports an error with it. Errors: intent.ErrNotNow
// where there is no such session.
func (p *Proxy) ReadTool(ctx context.Context, r *ledger.Record, tool string, arguments json.RawMessage) (result any, failed bool, err error) {
	s := p.sessionFor(r)
	if s == nil {
		p.noteWait(ctx, r)
		return nil, false, fmt.Errorf("%w: %w", errNoSession, intent.ErrNotNow)
	}
	p.mu.Lock()
	delete(p.waits, r.ID)
	p.mu.Unlock()
	c, err := s.connected()
	if errors.Is(err, errClosed) {
		return nil, false, fmt.Errorf("%w: %w", err, intent.ErrNotNow)
	}
	if err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	meta := s.greeting.meta
	s.mu.Unlock()
	if err := s.mayRead(c, tool, meta); err != nil {
		return nil, false, err
	}
	params, err := json.Marshal(map[string]any{"name": tool, "arguments": arguments})
	if err == nil && meta != nil {
		params, err = sjson.SetRawBytes(params, "_meta", meta)
	}
	if err != nil {
		return nil, false, err
	}
	got, err := s.result(ctx, c, "tools/call", params)
	if err != nil {
		return nil, false, err
	}
	return readResult(got)
}

// CanLook implements intent.Lookout.
func (p *Proxy) CanLook(r *ledger.Record) bool { return p.sessionFor(r) != nil }

// sessionFor finds a session over which r's server can be asked, the same each time. Where there is none, the next one
// has whoever waits for it look again.
func (p *Proxy) sessionFor(r *ledger.Record) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found *session
	for _, s := range p.sessions {
		if s.srv.name == r.Workflow && s.serves(r) && (found == nil || s.id < found.id) {
			found = s
		}
	}
	if found == nil && !p.draining {
		p.wanted[r.Workflow] = struct{}{}
	}
	return found
}

// waitsForSession is the history's line of an intent whose effect nobody can look for.
const waitsForSession = "the look for its effect waits until a client has a session with the MCP server"

// maxWaits bounds what is remembered of such intents. Beyond it their histories are read again.
const maxWaits = 4096

// noteWait writes down that r's check waits for a session, once until one was there.
func (p *Proxy) noteWait(ctx context.Context, r *ledger.Record) {
	p.mu.Lock()
	_, known := p.waits[r.ID]
	if len(p.waits) >= maxWaits {
		clear(p.waits)
	}
	p.waits[r.ID] = struct{}{}
	p.mu.Unlock()
	if known {
		return
	}
	events, err := p.ledger.History(ctx, r.ID)
	if err != nil {
		p.logger.Debug("a wait for a session is not on record", "intent", r.ID, "error", err)
		return
	}
	for _, e := range slices.Backward(events) {
		if e.Kind == "check" { // there was a session since
			break
		}
		if e.Kind == "note" && e.Reason == waitsForSession { // by an earlier process
			return
		}
	}
	p.log.Load(r).Note(ledger.Event{Kind: "note", Reason: waitsForSession, Rule: "semantics 8"})
}

func (s *session) serves(r *ledger.Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && (s.greeting.ready || s.greeting.meta != nil) && s.caller.Tenant == r.Tenant && s.caller.Owner == r.OwnerKey
}

// opened is told of a session that can be asked from now on.
func (p *Proxy) opened(s *session) {
	p.mu.Lock()
	_, wanted := p.wanted[s.srv.name]
	delete(p.wanted, s.srv.name)
	p.mu.Unlock()
	if wanted {
		p.log.Reconsider()
	}
}

// mayRead holds that a reconciler only reads: the policy says so of the tool, else its server (design.md §5).
func (s *session) mayRead(c *conn, tool string, meta json.RawMessage) error {
	rule, err := s.srv.rule(tool)
	if err != nil {
		return err
	}
	if rule.written {
		if rule.Effect != policy.Read {
			return errNotRead
		}
		return nil
	}
	write, known, _ := s.srv.writes(tool, rule)
	if !known {
		s.fetchTools(c, meta)
		write, known, _ = s.srv.writes(tool, rule)
	}
	if (write || !known) && !mutant.On("reconcile-by-write-tool") {
		return errNotRead
	}
	return nil
}

// readResult is what a read tool's answer shows.
func readResult(value json.RawMessage) (result any, failed bool, err error) {
	doc, err := policy.Document(value)
	if err != nil {
		return nil, false, err // of two members of one name each reader takes another
	}
	if k := gjson.GetBytes(value, "resultType").Str; k != "" && k != "complete" || gjson.GetBytes(value, "task.taskId").Exists() {
		return nil, false, errUnread
	}
	text := resultText(value)
	failed = gjson.GetBytes(value, "isError").Bool()
	if failed && speaksOfTransport(text) {
		return nil, true, errUnread
	}
	if members, ok := doc.(map[string]any); ok && members["structuredContent"] != nil {
		return members["structuredContent"], failed, nil
	}
	if (strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")) && json.Valid([]byte(text)) {
		result, err = policy.Document([]byte(text)) // many servers say as text what they could say as data
		return result, failed, err
	}
	return text, failed, nil
}
