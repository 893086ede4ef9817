package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// bank is a far side that is hard to read: text in place of JSON, records that only their id leads to, state that is
// a resource only, and amounts.
type bank struct {
	mu      sync.Mutex
	balance map[string]int
	letters []string
	drafts  map[string]string
	memo    []string
	keys    map[string]bool
	slips   map[string]string
}

func newBank() *bank {
	return &bank{balance: map[string]int{"ACC-1": 5000, "ACC-2": 5000, "ACC-3": 5000}, drafts: map[string]string{}, keys: map[string]bool{}, slips: map[string]string{}}
}

type bankTool struct {
	name, schema string
	want         Verdict
	do           func(b *bank, a args) (string, error)
}

func bankTools() []bankTool {
	return []bankTool{
		{"transfer", `{"from":{"type":"string"},"to":{"type":"string"},"amount":{"type":"number","minimum":1,"maximum":20}}`, DuplicateEffect,
			func(b *bank, a args) (string, error) {
				from, to := a["from"].(string), a["to"].(string)
				if b.balance[from] == 0 || b.balance[to] == 0 || from == to {
					return "", errors.New("unknown account")
				}
				n := int(a["amount"].(float64))
				b.balance[from] -= n
				b.balance[to] += n
				return "transferred", nil
			}},
		{"deposit", `{"account_number":{"type":"string","pattern":"^ACC-[0-9]+$"},"amount":{"type":"integer","minimum":1},"request_id":{"type":"string"}}`, Safe,
			func(b *bank, a args) (string, error) {
				if _, ok := b.balance[a["account_number"].(string)]; !ok {
					return "", errors.New("no such account")
				}
				if id := a["request_id"].(string); !b.keys[id] {
					b.keys[id] = true
					b.balance[a["account_number"].(string)] += int(a["amount"].(float64))
				}
				return "deposited", nil
			}},
		{"withdraw", `{"account_number":{"type":"string"},"amount":{"type":"integer","minimum":1,"maximum":9}}`, LostWrite,
			func(b *bank, a args) (string, error) {
				acc := a["account_number"].(string)
				n, ok := b.balance[acc]
				if !ok {
					return "", errors.New("no such account")
				}
				key := fmt.Sprint("withdraw", acc, a["amount"])
				if b.keys[key] {
					return "withdrawn", nil
				}
				b.mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				b.mu.Lock()
				b.keys[key] = true
				b.balance[acc] = n - int(a["amount"].(float64))
				return "withdrawn", nil
			}},
		{"post_letter", `{"body":{"type":"string"}}`, DuplicateEffect, func(b *bank, a args) (string, error) {
			b.letters = append(b.letters, a["body"].(string))
			return fmt.Sprintf("Letter #%d posted.", len(b.letters)), nil
		}},
		{"write_draft", `{"draft_id":{"type":"string"},"text":{"type":"string"}}`, Safe, func(b *bank, a args) (string, error) {
			b.drafts[a["draft_id"].(string)] = a["text"].(string)
			return "saved", nil
		}},
		{"discard_draft", `{"draft_id":{"type":"string"}}`, ErrorOnRepeat, func(b *bank, a args) (string, error) {
			if _, ok := b.drafts[a["draft_id"].(string)]; !ok {
				return "", errors.New("no such draft")
			}
			delete(b.drafts, a["draft_id"].(string))
			return "discarded", nil
		}},
		{"save_memo", `{"memo":{"type":"object","properties":{"lines":{"type":"array","items":{"type":"string"},"minItems":2}},"required":["lines"]}}`, DuplicateEffect,
			func(b *bank, a args) (string, error) {
				for _, l := range a["memo"].(args)["lines"].([]any) {
					b.memo = append(b.memo, l.(string))
				}
				return "saved", nil
			}},
		{"issue_slip", `{"holder":{"type":"string"}}`, DuplicateEffect, func(b *bank, a args) (string, error) {
			id := fmt.Sprintf("SLIP-%d", len(b.slips)+1)
			b.slips[id] = a["holder"].(string)
			return `{"slip_id":"` + id + `"}`, nil
		}},
		{"print_once", `{"headline":{"type":"string"}}`, LostWrite, func(b *bank, a args) (string, error) {
			if !b.keys["print"] {
				b.memo = append(b.memo, a["headline"].(string))
			}
			b.keys["print"] = true
			return "printed", nil
		}},
	}
}

func (b *bank) serve() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "bank", Version: "1"}, nil)
	guard := func(do func(args) (string, error)) mcp.ToolHandler {
		return func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			a := args{}
			if err := json.Unmarshal(r.Params.Arguments, &a); err != nil {
				return nil, err
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			s, err := do(a)
			return result(s, err), nil
		}
	}
	read := func(name, properties string, do func(args) (string, error)) {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(schemaText(properties)), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, guard(do))
	}
	read("list_accounts", "", func(args) (string, error) {
		var out strings.Builder
		for _, acc := range sortedKeys(b.balance) {
			fmt.Fprintf(&out, "%s: %d EUR\n", acc, b.balance[acc])
		}
		return out.String(), nil
	})
	read("get_draft", "draft_id:string*", func(a args) (string, error) {
		if s, ok := b.drafts[a["draft_id"].(string)]; ok {
			return s, nil
		}
		return "", errors.New("no such draft")
	})
	read("get_slip", "slip_id:string*", func(a args) (string, error) {
		if s, ok := b.slips[a["slip_id"].(string)]; ok {
			return s, nil
		}
		return "", errors.New("no such slip")
	})
	read("count_letters", "", func(args) (string, error) { return fmt.Sprintf("There are %d letters.", len(b.letters)), nil })
	server.AddResource(&mcp.Resource{URI: "bank://memo", Name: "memo"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "bank://memo", Text: strings.Join(b.memo, "\n")}}}, nil
	})
	for _, t := range bankTools() {
		var props map[string]any
		if err := json.Unmarshal([]byte(t.schema), &props); err != nil {
			panic(err)
		}
		schema, err := json.Marshal(args{"type": "object", "properties": props, "required": sortedKeys(props)})
		if err != nil {
			panic(err)
		}
		server.AddTool(&mcp.Tool{Name: t.name, InputSchema: json.RawMessage(schema)}, guard(func(a args) (string, error) { return t.do(b, a) }))
	}
	return server
}

func TestHardToRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := auditOf(t, newBank().serve())
		got := map[string]ToolReport{}
		for _, tool := range r.Tools {
			got[tool.Name] = tool
		}
		for _, want := range bankTools() {
			if g := got[want.name]; g.Verdict != want.want {
				t.Errorf("%s: %s, want %s (%s)\n%s", want.name, g.Verdict, want.want, g.Says, probes(g))
			}
		}
	})
}
