package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// fake is an MCP server that goes wrong on request. It shares no code with the proxy. Its effects are lines of a
// file, so that they outlive it.
type fake struct {
	effects string // file
	mu      sync.Mutex
	ids     map[string]bool
	out     func(v any) // to the client
	answers map[string]chan json.RawMessage
	n       int
	die     func()
	initial int // initialize requests seen
	tasks   map[string]string
	flipped bool // readOnlyHint of the write tools is now true
}

type fakeMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
		TaskID    string         `json:"taskId"`
		Task      any            `json:"task"`
		State     string         `json:"requestState"`
		Version   string         `json:"protocolVersion"`
		Meta      struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func newFake(effects string) *fake {
	return &fake{effects: effects, ids: map[string]bool{}, answers: map[string]chan json.RawMessage{}, tasks: map[string]string{}, die: func() { os.Exit(3) }}
}

// fakeStdio is the whole life of the fake as a child process.
func fakeStdio() {
	f := newFake(os.Getenv("FAKE_EFFECTS"))
	var mu sync.Mutex
	f.out = func(v any) {
		b, _ := json.Marshal(v)
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("%s\n", b)
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m fakeMessage
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		go f.handle(m, f.out)
	}
}

func (f *fake) effect(what string) {
	file, err := os.OpenFile(f.effects, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	_, _ = fmt.Fprintln(file, what)
}

func text(s string, more ...any) map[string]any {
	r := map[string]any{"content": []any{map[string]any{"type": "text", "text": s}}}
	for i := 0; i < len(more); i += 2 {
		r[more[i].(string)] = more[i+1]
	}
	return r
}

func answerTo(id json.RawMessage, result any) map[string]any {
	return map[string]any{"jsonrpc": "2.0", "id": id, "result": result}
}

func (f *fake) handle(m fakeMessage, out func(any)) {
	if m.Method == "" {
		f.mu.Lock()
		ch := f.answers[string(m.ID)]
		f.mu.Unlock()
		if ch != nil {
			ch <- m.Result
		}
		return
	}
	if m.ID == nil {
		return
	}
	f.mu.Lock()
	if f.ids[string(m.ID)] { // strict about unique ids
		f.mu.Unlock()
		out(map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": -32600, "message": "id is in use"}})
		return
	}
	f.ids[string(m.ID)] = true
	f.mu.Unlock()
	if r := f.answer(m, out); r != nil {
		f.mu.Lock()
		delete(f.ids, string(m.ID))
		f.mu.Unlock()
		out(r)
	}
}

func (f *fake) answer(m fakeMessage, out func(any)) any {
	switch m.Method {
	case "initialize":
		f.initial++
		return answerTo(m.ID, map[string]any{"protocolVersion": m.Params.Version, "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "fake", "version": fmt.Sprint(f.initial)}})
	case "tools/list":
		return answerTo(m.ID, map[string]any{"tools": f.tools()})
	case "tasks/get":
		return answerTo(m.ID, map[string]any{"taskId": m.Params.TaskID, "status": f.task(m.Params.TaskID), "ttl": 60000})
	case "tasks/result":
		return answerTo(m.ID, text("task done"))
	case "tools/call":
		return f.call(m, out)
	}
	return answerTo(m.ID, map[string]any{})
}

func (f *fake) task(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tasks[id]
}

func (f *fake) tools() []any {
	tool := func(name string, annotations any) map[string]any {
		t := map[string]any{"name": name, "inputSchema": map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{}}}}
		if annotations != nil {
			t["annotations"] = annotations
		}
		return t
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.flipped {
		return []any{tool("absent", map[string]any{"readOnlyHint": true})}
	}
	own := tool("owns", nil)
	own["inputSchema"] = map[string]any{"type": "object", "properties": map[string]any{"repeat_reason": map[string]any{"type": "string"}}}
	return []any{tool("write", map[string]any{"readOnlyHint": false}), tool("absent", nil), tool("read", map[string]any{"readOnlyHint": true}),
		tool("idem", map[string]any{"idempotentHint": true}), tool("ask", map[string]any{"readOnlyHint": true}), own}
}

// call does what the arguments ask for.
func (f *fake) call(m fakeMessage, out func(any)) any {
	args := m.Params.Arguments
	fault, _ := args["fault"].(string)
	what, _ := json.Marshal(map[string]any{"tool": m.Params.Name, "arguments": args})
	if m.Params.Name == "read" && fault == "large" {
		return answerTo(m.ID, text(strings.Repeat("x", 512<<10)))
	}
	if m.Params.Name == "read" {
		return answerTo(m.ID, text("nothing changed"))
	}
	if m.Params.Name == "ask" {
		return answerTo(m.ID, text("the client says "+string(f.askClient(out))))
	}
	if ms, ok := args["before"].(float64); ok {
		<-time.After(time.Duration(ms) * time.Millisecond)
	}
	switch fault {
	case "lost_before":
		return nil
	case "die_before":
		f.die()
	case "elicit":
		f.askClient(out)
	case "plain_error":
		return answerTo(m.ID, text("there is no such note", "isError", true))
	case "refused":
		return map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": -32602, "message": "no"}}
	case "input":
		if m.Params.State == "" {
			return answerTo(m.ID, map[string]any{"resultType": "input_required", "requestState": "s", "inputRequests": map[string]any{}})
		}
	case "progress":
		out(map[string]any{"jsonrpc": "2.0", "method": "notifications/progress", "params": map[string]any{"progressToken": m.Params.Meta.Token, "progress": 1}})
	}
	f.effect(string(what))
	if path, ok := args["hold"].(string); ok { // until the test makes the file
		for _, err := os.Stat(path); err != nil; _, err = os.Stat(path) {
			<-time.After(5 * time.Millisecond)
		}
	}
	switch fault {
	case "lost_after":
		return nil
	case "die_after":
		f.die()
	case "internal":
		return map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": -32603, "message": "boom"}}
	case "bad_output": // as official servers have said it
		return map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": -32602,
			"message": "MCP error -32602: Tool write has an output schema but no structured content was provided"}}
	case "bad_result":
		return map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": -32602, "message": "Output validation error: 'id' is required"}}
	case "environment":
		return answerTo(m.ID, text("GITHUB_TOKEN="+os.Getenv("GITHUB_TOKEN")+" REGION="+os.Getenv("REGION")))
	case "timeout_text":
		return answerTo(m.ID, text("Error: request timed out after 30000ms", "isError", true))
	case "large":
		return answerTo(m.ID, text(strings.Repeat("x", 512<<10)))
	case "huge":
		return answerTo(m.ID, text(strings.Repeat("x", 3<<20)))
	}
	if m.Params.Task != nil {
		f.mu.Lock()
		f.n++
		id := fmt.Sprint("t", f.n)
		f.tasks[id] = "working"
		f.mu.Unlock()
		return answerTo(m.ID, map[string]any{"task": map[string]any{"taskId": id, "status": "working", "ttl": 60000, "pollInterval": 1000}})
	}
	return answerTo(m.ID, text("done "+fmt.Sprint(args["n"])))
}

func (f *fake) askClient(out func(any)) json.RawMessage {
	f.mu.Lock()
	f.n++
	id := fmt.Sprint(f.n) // small numbers, as every server of its kind
	ch := make(chan json.RawMessage, 1)
	f.answers[id] = ch
	f.mu.Unlock()
	out(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": "elicitation/create", "params": map[string]any{"message": "?"}})
	return <-ch
}

// fakeHTTP is the fake behind streamable HTTP, with sessions that it can be made to forget.
type fakeHTTP struct {
	*fake
	mu       sync.Mutex
	sessions map[string]bool
	n        int
	seen     []http.Header
	status   int    // answered to the next tools/call after its effect
	cutSSE   bool   // the answer's stream breaks off once, after an id
	kept     []byte // what GET with Last-Event-ID gives then
}

func newFakeHTTP(effects string) *fakeHTTP {
	h := &fakeHTTP{fake: newFake(effects), sessions: map[string]bool{}}
	h.die = func() { panic(http.ErrAbortHandler) }
	return h
}

func (h *fakeHTTP) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sessions = map[string]bool{}
}

func (h *fakeHTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Mcp-Session-Id")
	h.mu.Lock()
	h.seen = append(h.seen, r.Header.Clone())
	known, status, cut := h.sessions[id], h.status, h.cutSSE
	h.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	var m fakeMessage
	_ = json.Unmarshal(body, &m)
	switch {
	case r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") == "e1":
		w.Header().Set("Content-Type", "text/event-stream")
		h.mu.Lock()
		defer h.mu.Unlock()
		fmt.Fprintf(w, "id: e2\ndata: %s\n\n", h.kept)
		return
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case r.Method == http.MethodDelete:
		h.mu.Lock()
		delete(h.sessions, id)
		h.mu.Unlock()
		return
	case m.Method == "initialize":
		h.mu.Lock()
		h.n++
		id = fmt.Sprint("s", h.n)
		h.sessions[id] = true
		h.mu.Unlock()
		w.Header().Set("Mcp-Session-Id", id)
	case !known:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if m.ID == nil || m.Method == "" {
		h.handle(m, func(any) {})
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if m.Method == "tools/call" && status != 0 {
		h.effect(string(body))
		w.WriteHeader(status)
		return
	}
	if m.Method == "tools/call" && cut {
		h.handle(m, func(v any) { h.mu.Lock(); h.kept, _ = json.Marshal(v); h.cutSSE = false; h.mu.Unlock() })
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "retry: 1\nid: e1\ndata:\n\n")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	var mu sync.Mutex
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.handle(m, func(v any) {
			mu.Lock()
			defer mu.Unlock()
			b, _ := json.Marshal(v)
			fmt.Fprintf(w, "data: %s\n\n", b)
			_ = out.Flush()
		})
	}()
	<-done
	if fault, _ := m.Params.Arguments["fault"].(string); strings.HasPrefix(fault, "lost") {
		<-r.Context().Done()
	}
}
