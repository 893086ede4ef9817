package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// between is what two values differ in once a third pair has been seen to differ by itself.
func between(t *testing.T, idle [2]string, before, after string) []change {
	t.Helper()
	r := newRestless()
	p := place{source: "read"}
	r.learn(p, parseText(idle[0]), parseText(idle[1]))
	var out []change
	for _, c := range diff(p, r.calm(p, parseText(before)), r.calm(p, parseText(after))) {
		if !r.has("read", c.class) {
			out = append(out, c)
		}
	}
	return out
}

func TestWhatMovesByItselfIsNoEffect(t *testing.T) {
	for name, c := range map[string]struct {
		idle          [2]string
		before, after string
		want          int
	}{
		"a field":            {[2]string{`{"n":1,"served":"x1"}`, `{"n":1,"served":"x2"}`}, `{"n":1,"served":"x3"}`, `{"n":2,"served":"x4"}`, 1},
		"a field of records": {[2]string{`{"jobs":[{"id":1,"age":3}]}`, `{"jobs":[{"id":1,"age":4}]}`}, `{"jobs":[{"id":1,"age":5}]}`, `{"jobs":[{"id":1,"age":6},{"id":2,"age":0}]}`, 1},
		"records without a name": {[2]string{`{"l":[{"n":1,"age":3},{"n":2,"age":4}]}`, `{"l":[{"n":1,"age":5},{"n":2,"age":6}]}`},
			`{"l":[{"n":1,"age":7},{"n":2,"age":8}]}`, `{"l":[{"n":1,"age":9},{"n":2,"age":10},{"n":2,"age":11}]}`, 1},
		"a line":              {[2]string{"at 12:00:01\nACC-1: 500 EUR", "at 12:00:02\nACC-1: 500 EUR"}, "at 12:00:59\nACC-1: 500 EUR", "at 12:01:00\nACC-1: 400 EUR", 1},
		"a word of a text":    {[2]string{"3 users, request 8fa1", "3 users, request 90bc"}, "3 users, request aa01", "4 users, request aa02", 1},
		"nothing but that":    {[2]string{"3 users, request 8fa1", "3 users, request 90bc"}, "3 users, request aa01", "3 users, request aa02", 0},
		"a list that grows":   {[2]string{`{"log":["a"],"n":1}`, `{"log":["a","b"],"n":1}`}, `{"log":["a","b"],"n":1}`, `{"log":["a","b","c"],"n":2}`, 1},
		"the order of a list": {[2]string{`["a","b"]`, `["b","a"]`}, `["a","b"]`, `["b","a","c"]`, 1},
	} {
		if got := between(t, c.idle, c.before, c.after); len(got) != c.want {
			t.Errorf("%s: %v, want %d changes", name, got, c.want)
		}
	}
}

// clock is a far side whose answers are never twice the same, one of whose readers writes.
type clock struct {
	mu     sync.Mutex
	reads  int
	items  []string
	views  []string
	served []string
}

func (c *clock) serve() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "clock", Version: "1"}, nil)
	tool := func(name, properties string, reads bool, do func(args) any) {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(schemaText(properties)), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: reads}},
			func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				a := args{}
				if err := json.Unmarshal(r.Params.Arguments, &a); err != nil {
					return nil, err
				}
				c.mu.Lock()
				defer c.mu.Unlock()
				c.reads++
				return result(do(a), nil), nil
			})
	}
	tool("list_items", "", true, func(args) any {
		return args{"items": c.items, "reads": c.reads, "token": fmt.Sprintf("t%x", c.reads*7919), "clock": time.Now().Format("15:04:05")}
	})
	tool("count_items", "", true, func(args) any {
		return fmt.Sprintf("There are %d items.\nserved %s, request r%x", len(c.items), time.Now().Format("15:04:05.000"), c.reads)
	})
	tool("list_views", "", true, func(args) any { return args{"views": c.views} })
	tool("fetch_page", "page:one|two*", true, func(a args) any {
		c.views = append(c.views, a["page"].(string))
		return "a page"
	})
	tool("page_items", "cursor:string", true, func(a args) any { // two to a page
		at := 0
		if s, ok := a["cursor"].(string); ok {
			_, _ = fmt.Sscan(s, &at)
		}
		out := args{"rows": c.served[min(at, len(c.served)):min(at+2, len(c.served))]}
		if at+2 < len(c.served) {
			out["next_cursor"] = fmt.Sprint(at + 2)
		}
		return out
	})
	tool("add_item", "text:string*", false, func(a args) any { c.items = append(c.items, a["text"].(string)); return "ok" })
	tool("put_item", "text:string*", false, func(a args) any {
		if !strings.Contains(strings.Join(c.items, "\n"), a["text"].(string)) {
			c.items = append(c.items, a["text"].(string))
		}
		return "ok"
	})
	tool("serve_dish", "dish:string*", false, func(a args) any { c.served = append(c.served, a["dish"].(string)); return "ok" })
	return server
}

// TestClocksAndCounters judges a server no two answers of which are the same, in bounded time.
func TestClocksAndCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		r := auditOf(t, (&clock{served: []string{"a", "b", "c"}}).serve())
		for name, want := range map[string]Verdict{"add_item": DuplicateEffect, "put_item": Safe, "serve_dish": DuplicateEffect, "fetch_page": DuplicateEffect} {
			got, ok := r.find(name)
			if !ok || got.Verdict != want {
				t.Errorf("%s: %s, want %s (%s)\n%s", name, got.Verdict, want, got.Says, probes(got))
			}
		}
		if took := time.Since(begun); took > 4*time.Minute { // of the bubble's own time: nothing that runs beside it counts
			t.Errorf("it took %s", took)
		}
		if len(r.Moving) == 0 {
			t.Error("the report does not say what changes by itself")
		}
		if got, _ := r.find("fetch_page"); !strings.Contains(strings.Join(got.Notes, " "), "readOnlyHint: true is wrong") {
			t.Errorf("the notes of a reader that writes: %q", got.Notes)
		}
	})
}

// TestKeysWithoutWords has names that a server may give and nobody expects.
func TestKeysWithoutWords(t *testing.T) {
	p := newPool()
	p.look(state{values: map[string]any{"read": parseText(`{"":{"-":"x","§":"y"},"l":[{"":1,"--":"a"},{"":2,"--":"b"}]}`)}}, newRun())
	for _, r := range p.seen {
		r.primary()
	}
	for _, k := range []string{"", "_", "§"} {
		if keyRank(k) != 3 || guess(newTool(&mcp.Tool{Name: "add_x"}, nil), k) || !namesItself(newTool(&mcp.Tool{Name: "add_x"}, nil), k) {
			t.Errorf("%q is taken for a name", k)
		}
	}
	if got := len(diff(place{}, parseText(`[{"":1}]`), parseText(`[{"":2}]`))); got == 0 {
		t.Error("no difference")
	}
}
