package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	listTools = "tools/list"
	callTool  = "tools/call"
	maxBody   = 16 << 20 // bytes of one HTTP answer that the tap holds
)

var (
	errReplyLost = errors.New("the reply was dropped by the audit")
	errGivenUp   = errors.New("the audit gave the call up")
)

// wireResult is a response before the SDK reads it.
type wireResult struct {
	result json.RawMessage
	err    error
}

// tap sees the raw messages of a session: the SDK's hints are plain booleans that cannot say "absent", and a reply is
// lost here or nowhere.
type tap struct {
	mu     sync.Mutex
	hints  map[string]map[string]json.RawMessage // by tool, as listed
	lost   chan wireResult                       // not nil: the next tools/call loses its reply
	gaveUp context.CancelFunc
}

func newTap() *tap { return &tap{hints: map[string]map[string]json.RawMessage{}} }

// lose arms the tap for the next tools/call; gaveUp is called when its reply has come and gone.
func (t *tap) lose(gaveUp context.CancelFunc) <-chan wireResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost, t.gaveUp = make(chan wireResult, 1), gaveUp
	return t.lost
}

func (t *tap) keep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost, t.gaveUp = nil, nil
}

// swallow takes the reply when one is to be lost.
func (t *tap) swallow(r wireResult) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost == nil {
		return false
	}
	t.lost <- r
	t.gaveUp()
	t.lost, t.gaveUp = nil, nil
	return true
}

func (t *tap) armed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost != nil
}

func (t *tap) hintsOf(tool string) map[string]json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hints[tool]
}

// listed keeps the annotations of a tools/list result.
func (t *tap) listed(result json.RawMessage) {
	var list struct {
		Tools []struct {
			Name        string                     `json:"name"`
			Annotations map[string]json.RawMessage `json:"annotations"`
		} `json:"tools"`
	}
	if json.Unmarshal(result, &list) != nil {
		return // the SDK reports it
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tool := range list.Tools {
		t.hints[tool.Name] = tool.Annotations
	}
}

// stdioTap is a transport of messages with the tap on it.
type stdioTap struct {
	tap  *tap
	next mcp.Transport
}

func (t *stdioTap) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.next.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &tappedConn{Connection: c, tap: t.tap, calls: map[jsonrpc.ID]string{}}, nil
}

type tappedConn struct {
	mcp.Connection
	tap   *tap
	mu    sync.Mutex
	calls map[jsonrpc.ID]string // method, of those that the tap cares for
}

func (c *tappedConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() && (r.Method == listTools || r.Method == callTool && c.tap.armed()) {
		c.mu.Lock()
		c.calls[r.ID] = r.Method
		c.mu.Unlock()
	}
	return c.Connection.Write(ctx, m)
}

func (c *tappedConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if err != nil || !c.drops(m) {
			return m, err
		}
	}
}

func (c *tappedConn) drops(m jsonrpc.Message) bool {
	r, ok := m.(*jsonrpc.Response)
	if !ok {
		return false
	}
	c.mu.Lock()
	method := c.calls[r.ID]
	delete(c.calls, r.ID)
	c.mu.Unlock()
	switch method {
	case listTools:
		c.tap.listed(r.Result)
	case callTool:
		return c.tap.swallow(wireResult{r.Result, r.Error})
	}
	return false
}

// httpTap does the same to the POSTs of streamable HTTP. It stands below the SDK's own connection, which must know the
// negotiated version to name it in its headers.
type httpTap struct {
	tap  *tap
	next http.RoundTripper
}

func (t *httpTap) RoundTrip(r *http.Request) (*http.Response, error) {
	method := ""
	if r.Method == http.MethodPost && r.GetBody != nil {
		method = methodOf(r)
	}
	lose := method == callTool && t.tap.armed()
	resp, err := t.next.RoundTrip(r)
	if err != nil || !lose && method != listTools {
		return resp, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	result := responseIn(body, strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"))
	if lose && t.tap.swallow(result) {
		return nil, errReplyLost
	}
	t.tap.listed(result.result)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

func methodOf(r *http.Request) string {
	body, err := r.GetBody()
	if err != nil {
		return ""
	}
	defer body.Close()
	var m struct {
		Method string `json:"method"`
	}
	if json.NewDecoder(body).Decode(&m) != nil {
		return ""
	}
	return m.Method
}

// responseIn finds the JSON-RPC response in a body, which is a message or a stream of events that end with it.
func responseIn(body []byte, stream bool) wireResult {
	messages := [][]byte{body}
	if stream {
		messages = nil
		for line := range bytes.Lines(body) {
			if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				messages = append(messages, bytes.TrimSpace(data))
			}
		}
	}
	for _, b := range messages {
		m, err := jsonrpc.DecodeMessage(b)
		if r, ok := m.(*jsonrpc.Response); err == nil && ok {
			return wireResult{r.Result, r.Error}
		}
	}
	return wireResult{err: errors.New("no JSON-RPC response in the answer")}
}

// headers adds what the user gave for each request.
type headers struct {
	next http.RoundTripper
	set  http.Header
}

func (h *headers) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(h.set) > 0 {
		r = r.Clone(r.Context())
		for name, values := range h.set {
			r.Header[name] = values
		}
	}
	return h.next.RoundTrip(r)
}
