package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/redact"
)

// server is one MCP server as the configuration has it, and what its sessions have learned of it.
type server struct {
	name    string
	url     string
	command command
	headers []policy.Header
	client  *http.Client
	policy  policy.MCPServer
	depth   int
	hidden  *redact.Words // what it is sent, and nobody is shown
	bare    bool          // another engine decides: everything passes

	mu      sync.Mutex
	rules   map[string]*rule
	tools   map[string]*tool
	stale   bool // the server said that its tools have changed
	history *history
}

// rule is the policy of one tool.
type rule struct {
	policy.CallPolicy
	written bool // by the configuration, not by default
	keyer   *idempotency.Keyer
	path    string // in the configuration, for reasons
}

// hint is what a server says of a tool's readOnlyHint. Absent and false both mean a write; they are told apart in what is
// recorded.
type hint uint8

const (
	hintAbsent hint = iota
	hintFalse
	hintTrue
)

func (h hint) String() string { return [...]string{"absent", "false", "true"}[h] }

// tool is what servers have said of a tool.
type tool struct {
	hint  hint
	wrote bool // it was once not read-only: no later word loosens that
	owns  bool // repeat_reason is an argument of its own
	shape bool // it declares the form of its results
}

func newServer(c policy.MCPServer, depth int, client *http.Client) *server {
	srv := &server{name: c.Name, url: c.URL, headers: c.Headers, client: client, policy: c, depth: depth, hidden: redact.New(c.Hidden()...), rules: map[string]*rule{},
		tools: map[string]*tool{}, history: &history{}}
	if len(c.Command) > 0 {
		srv.command.Args, srv.command.inherit = c.Command, plainEnv
		for _, e := range c.Env {
			srv.command.Env = append(srv.command.Env, e.Name+"="+e.Value.Reveal())
		}
	}
	return srv
}

// headersFor are the headers of every request to an HTTP server. The caller's own credential goes along where the configuration
// has none, so that a server sees whose call it is.
func (srv *server) headersFor(c Caller) http.Header {
	h := http.Header{}
	for _, x := range srv.headers {
		h.Set(x.Name, x.Value.Reveal())
	}
	for name, values := range c.header {
		h[name] = values
	}
	return h
}

// rule returns the policy of a tool.
func (srv *server) rule(name string) (*rule, error) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if r := srv.rules[name]; r != nil {
		return r, nil
	}
	p, written := srv.policy.Call(name)
	ignore := slices.Clone(p.Ignore)
	if p.Key != "" { // else every argument of a model's counts
		ignore = p.Ignored()
	}
	for i, field := range ignore {
		ignore[i] = "arguments." + field
	}
	keyer, err := idempotency.New(idempotency.Config{Key: p.Key, Ignore: ignore, Depth: srv.depth})
	if err != nil {
		return nil, fmt.Errorf("mcp.servers.%s.tools.%s: %w", srv.name, name, err)
	}
	r := &rule{CallPolicy: p, written: written, keyer: keyer, path: "mcp.servers." + srv.name + ".tools." + name}
	if written || len(srv.rules) < maxTools {
		srv.rules[name] = r
	}
	return r, nil
}

// maxTools bounds what is remembered of one server's tools.
const maxTools = 4096

// writes says whether a tool changes something: its policy says, else its server's readOnlyHint alone (idempotentHint is advice and
// never a licence to send again). known is false where neither has said anything yet.
func (srv *server) writes(name string, r *rule) (write, known bool, why string) {
	if r.written {
		return r.Effect != policy.Read, true, r.path + ".effect"
	}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	t := srv.tools[name]
	if t == nil || srv.stale {
		return true, false, "readOnlyHint " + hintAbsent.String()
	}
	return t.wrote, true, "readOnlyHint " + t.hint.String()
}

// facts are what is known of a tool beside its effect.
func (srv *server) facts(name string) tool {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if t := srv.tools[name]; t != nil {
		return *t
	}
	return tool{}
}

// forget makes the next call of a tool that no policy names ask for the tools again.
func (srv *server) forget() {
	srv.mu.Lock()
	srv.stale = true
	srv.mu.Unlock()
}

// learn reads the result of tools/list, and returns it as clients see it: write tools take a repeat_reason.
func (srv *server) learn(list json.RawMessage) json.RawMessage {
	out := slices.Clone(list)
	from, to := -1, 0
	var all []byte
	_ = members(list, func(name string, value json.RawMessage, at int) error {
		if name != "tools" || from >= 0 || len(value) == 0 || value[0] != '[' {
			return nil
		}
		from, to = at, at+len(value)
		gjson.ParseBytes(value).ForEach(func(_, t gjson.Result) bool {
			if all != nil {
				all = append(all, ',')
			}
			all = append(all, srv.learnTool(t)...)
			return true
		})
		return nil
	})
	if from < 0 {
		return out
	}
	return splice(out, from, to, slices.Concat([]byte{'['}, all, []byte{']'}))
}

// learnTool takes in one tool and returns it as clients see it.
func (srv *server) learnTool(t gjson.Result) []byte {
	name := t.Get("name").String()
	schema := t.Get("inputSchema")
	seen := tool{owns: schema.Get("properties." + repeatReason).Exists(), shape: t.Get("outputSchema").IsObject()}
	switch h := t.Get("annotations.readOnlyHint"); {
	case h.IsBool() && h.Bool():
		seen.hint = hintTrue
	case h.IsBool():
		seen.hint = hintFalse
	}
	if mutant.On("idempotent-hint-licence") && t.Get("annotations.idempotentHint").Bool() {
		seen.hint = hintTrue
	}
	seen.wrote = seen.hint != hintTrue
	if !t.IsObject() || !srv.note(name, &seen) || !schema.IsObject() || seen.owns {
		return []byte(t.Raw)
	}
	rule, err := srv.rule(name)
	if err != nil || rule.Mode == policy.Observe || rule.Derive == policy.DeriveOff {
		return []byte(t.Raw)
	}
	if write, _, _ := srv.writes(name, rule); !write {
		return []byte(t.Raw)
	}
	out, err := sjson.SetRawBytes([]byte(t.Raw), "inputSchema.properties."+repeatReason, []byte(reasonSchema))
	if err != nil { // an object takes a member
		return []byte(t.Raw)
	}
	return out
}

// note remembers a tool. A tool that was a write stays one whatever its server says later.
func (srv *server) note(name string, seen *tool) bool {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	was := srv.tools[name]
	switch {
	case was != nil:
		seen.wrote = seen.wrote || was.wrote
	case len(srv.tools) >= maxTools:
		return false
	}
	srv.tools[name] = seen
	srv.stale = false
	return true
}

// repeatReason is the argument by which a model repeats a call on purpose (semantics 41).
const repeatReason = "repeat_reason"

const reasonSchema = `{"type":"string","description":"Leave this out. An identical call is not executed again: it gets the first call's stored result. Only to repeat the effect on purpose, say here why; every further repetition needs a reason of its own."}`

const (
	listWait = 10 * time.Second
	maxPages = 64
)

// fetchTools asks the server itself for its tools, before the first call of one that nobody has listed.
func (s *session) fetchTools(c *conn, meta json.RawMessage) {
	ctx, stop := context.WithTimeout(context.Background(), listWait)
	defer stop()
	cursor := gjson.Result{}
	for range maxPages {
		params := []byte("{}")
		if meta != nil {
			params, _ = sjson.SetRawBytes(params, "_meta", meta)
		}
		if cursor.Exists() {
			params, _ = sjson.SetRawBytes(params, "cursor", []byte(cursor.Raw))
		}
		got, err := s.result(ctx, c, "tools/list", params)
		if err != nil {
			s.p.logger.Warn("an MCP server does not list its tools; calls of those that no policy names count as writes", "server", s.srv.name, "error", err)
			return
		}
		s.srv.learn(got)
		if cursor = gjson.GetBytes(got, "nextCursor"); cursor.Type != gjson.String {
			return
		}
	}
}
