package audit

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxTools     = 1000
	maxResources = 64      // listed resources that a snapshot reads
	maxValue     = 1 << 20 // bytes of one read that count
	connectWait  = 60 * time.Second
)

// classic is spoken first: its sessions are real, and the SDK keeps no cache of lists and reads under it, where the
// next version lets a server have a read answered from the client's own memory.
const classic = "2025-11-25"

// server is the connection to the far side; it can be closed and made anew.
type server struct {
	cfg     Config
	mu      sync.Mutex // over the session: two calls at once may both find it broken
	session *mcp.ClientSession
	tap     *tap
	journal *journal
}

func dial(ctx context.Context, cfg Config, j *journal) (*server, error) {
	s := &server{cfg: cfg, tap: newTap(), journal: j}
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *server) connect(ctx context.Context) error {
	var session *mcp.ClientSession
	var err error
	for _, version := range []string{classic, ""} {
		wait, cancel := context.WithTimeout(ctx, connectWait)
		// Capabilities are empty: with roots on offer a server would leave the folders that it was given.
		client := mcp.NewClient(&mcp.Implementation{Name: "holdfast-audit", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
		session, err = client.Connect(wait, s.transport(), &mcp.ClientSessionOptions{ProtocolVersion: version})
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("connecting to %s: %w; run the server by itself to see what it says", s.cfg.target(), err)
	}
	s.session = session
	go func() { s.lost(session, session.Wait()) }()
	return nil
}

// lost forgets a session that ended by itself, so that the next call makes a new one.
func (s *server) lost(session *mcp.ClientSession, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != session {
		return
	}
	if why == nil {
		why = io.EOF
	}
	s.journal.end(why)
	s.session = nil
	go func() { _ = session.Close() }() // may wait for a process to end; the next call does not
}

func (s *server) transport() mcp.Transport {
	if s.cfg.connect != nil {
		return &stdioTap{tap: s.tap, next: s.cfg.connect()}
	}
	if s.cfg.URL != "" {
		base := &headers{next: http.DefaultTransport, set: s.cfg.Header}
		return &mcp.StreamableClientTransport{Endpoint: s.cfg.URL, HTTPClient: &http.Client{Transport: &httpTap{tap: s.tap, next: base}}}
	}
	cmd := exec.Command(s.cfg.Command[0], s.cfg.Command[1:]...)
	cmd.Stderr = s.cfg.Stderr
	return &stdioTap{tap: s.tap, next: &mcp.CommandTransport{Command: cmd, TerminateDuration: 2 * time.Second}}
}

func (s *server) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if session := s.session; session != nil {
		s.session = nil
		_ = session.Close() // how a server ends is not under test
	}
}

// live is the session; one that broke is replaced first.
func (s *server) live(ctx context.Context) (*mcp.ClientSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil {
		if err := s.connect(ctx); err != nil {
			return nil, err
		}
	}
	return s.session, nil
}

// leave forgets a session whose client is to come back in another.
func (s *server) leave(session *mcp.ClientSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == session {
		s.session = nil
	}
}

func (s *server) name(ctx context.Context) string {
	session, err := s.live(ctx)
	if err != nil {
		return ""
	}
	if r := session.InitializeResult(); r != nil && r.ServerInfo != nil {
		return strings.TrimSpace(r.ServerInfo.Name + " " + r.ServerInfo.Version)
	}
	return ""
}

// tools are all tools of the server.
func (s *server) tools(ctx context.Context) ([]*tool, error) {
	session, err := s.live(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	var out []*tool
	seen, cursors := map[string]bool{}, map[string]bool{}
	for p := (&mcp.ListToolsParams{}); ; {
		page, err := session.ListTools(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("listing the server's tools: %w", err)
		}
		for _, t := range page.Tools {
			if seen[t.Name] {
				continue
			}
			if len(out) == maxTools {
				return nil, fmt.Errorf("the server lists more than %d different tools, and so many are not audited at once", maxTools)
			}
			seen[t.Name] = true
			out = append(out, newTool(t, s.tap.hintsOf(t.Name)))
		}
		if p.Cursor = page.NextCursor; p.Cursor == "" {
			return out, nil
		}
		if cursors[p.Cursor] || len(cursors) == maxTools {
			return nil, fmt.Errorf("the server's list of tools has no end: after %s in %s its cursor is %q once more; mend its paging of tools/list",
				plural(len(out), "tool"), plural(len(cursors)+1, "page"), cut(p.Cursor, 60))
		}
		cursors[p.Cursor] = true
	}
}

// resources are the URIs that the server lists; a server without resources has none. whole is false where the list broke off.
func (s *server) resources(ctx context.Context) (out []string, whole bool) {
	session, err := s.live(ctx)
	if err != nil {
		return nil, false
	}
	if r := session.InitializeResult(); r == nil || r.Capabilities == nil || r.Capabilities.Resources == nil {
		return nil, true
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	for r, err := range session.Resources(ctx, nil) {
		if err != nil {
			return out, !unanswered(err)
		}
		if len(out) == maxResources {
			break
		}
		out = append(out, r.URI)
	}
	return out, true
}

// resource reads one. A server that was lost over it is asked once more, as for a read tool.
func (s *server) resource(ctx context.Context, uri string) (any, error) {
	r, err := s.readResource(ctx, uri)
	if hungUp(err) {
		r, err = s.readResource(ctx, uri)
	}
	if err != nil {
		return nil, err
	}
	var parts []any
	for _, c := range r.Contents {
		if c.Text == "" && len(c.Blob) > 0 {
			parts = append(parts, fmt.Sprintf("%d bytes, SHA-256 %x", len(c.Blob), sha256.Sum256(c.Blob)))
			continue
		}
		parts = append(parts, parseText(c.Text))
	}
	return single(parts), nil
}

func (s *server) readResource(ctx context.Context, uri string) (*mcp.ReadResourceResult, error) {
	session, err := s.live(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	r, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
	if hungUp(err) {
		s.lost(session, err)
	}
	return r, err
}

// call sends one tools/call, and says how it ended. It never repeats a call by itself.
func (s *server) call(ctx context.Context, tool string, args Args) answer {
	session, err := s.live(ctx)
	if err != nil {
		return answer{err: err}
	}
	return s.callOn(ctx, session, tool, args)
}

func (s *server) callOn(ctx context.Context, session *mcp.ClientSession, tool string, args Args) answer {
	r, a := s.resultOn(ctx, session, tool, args)
	if r != nil {
		return newAnswer(r)
	}
	return a
}

// read is call for a reader: the result as it came, or how the call ended without one. A server that was lost over it is
// asked once more: what it shows then is its state, and the error would not be.
func (s *server) read(ctx context.Context, tool string, args Args) (r *mcp.CallToolResult, ended answer) {
	for range 2 {
		session, err := s.live(ctx)
		if err != nil {
			return nil, answer{err: err}
		}
		if r, ended = s.resultOn(ctx, session, tool, args); !hungUp(ended.err) {
			break
		}
	}
	return r, ended
}

func (s *server) resultOn(ctx context.Context, session *mcp.ClientSession, tool string, args Args) (*mcp.CallToolResult, answer) {
	wait, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	r, err := session.CallTool(wait, &mcp.CallToolParams{Name: tool, Arguments: args})
	switch {
	case err == nil:
		return r, answer{}
	case hungUp(err):
		s.lost(session, err)
	case wait.Err() != nil && ctx.Err() == nil:
		return nil, answer{err: fmt.Errorf("no answer within %s", s.cfg.Timeout), silent: true}
	}
	return nil, answer{err: err}
}

// hungUp reports whether a call failed because its session is over.
func hungUp(err error) bool {
	return errors.Is(err, mcp.ErrConnectionClosed) || errors.Is(err, io.EOF) || errors.Is(err, mcp.ErrSessionMissing)
}

// callLost sends one tools/call whose answer the client does not get: over HTTP the connection breaks before it, over
// stdio the client gives up. The answer as it was on the wire is returned for comparison; the client then goes on in
// a new session where HTTP lost the old one.
func (s *server) callLost(ctx context.Context, tool string, args Args) answer {
	session, err := s.live(ctx)
	if err != nil {
		return answer{err: err}
	}
	wait, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	lost := s.tap.lose(cancel)
	defer s.tap.keep()
	if len(s.cfg.Command) == 0 { // before the break, which is not the server's
		s.leave(session)
		defer func() { go session.Close() }() // may wait; the next call does not
	}
	_, err = session.CallTool(wait, &mcp.CallToolParams{Name: tool, Arguments: args})
	select {
	case raw := <-lost:
		return wireAnswer(raw)
	default:
		return answer{err: fmt.Errorf("no answer to lose: %w", err), silent: true}
	}
}

// wireAnswer reads the response of a tools/call as it stood on the wire.
func wireAnswer(raw wireResult) answer {
	if raw.err != nil {
		return answer{err: raw.err}
	}
	var r mcp.CallToolResult
	if err := json.Unmarshal(raw.result, &r); err != nil {
		return answer{err: err}
	}
	return newAnswer(&r)
}
