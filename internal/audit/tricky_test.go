package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// unlocked runs f without the shop's lock, as a handler does that waits for its database between look and act.
func (s *shop) unlocked(f func()) {
	s.mu.Unlock()
	f()
	s.mu.Lock()
}

func trickyTools() []shopTool {
	pause := func() { time.Sleep(20 * time.Millisecond) }
	return []shopTool{
		{"close_next_ticket", "", write, WrongRecord, func(s *shop, a args) (any, error) {
			for _, r := range s.tables["tickets"] {
				if r["status"] == "open" {
					r["status"] = "closed"
					return "closed", nil
				}
			}
			return nil, errors.New("no open ticket")
		}},
		{"escalate_ticket", "ticket_id:string*", write, WrongRecord, func(s *shop, a args) (any, error) {
			for i, r := range s.tables["tickets"] {
				if r["id"] != a["ticket_id"] {
					continue
				}
				if r["escalated"] == true { // the neighbour pays for the repeat
					r = s.tables["tickets"][(i+1)%len(s.tables["tickets"])]
				}
				r["escalated"] = true
				return "escalated", nil
			}
			return nil, errNotFound
		}},
		{"issue_receipt", "payer:string*", write, WrongRecord, func(s *shop, a args) (any, error) {
			if s.row("receipts", "payer", a["payer"]) != nil {
				return maps.Clone(s.tables["receipts"][0]), nil
			}
			return s.put("receipts", args{"payer": a["payer"]}), nil
		}},
		{"register_user", "username:string*", write, ErrorOnRepeat, func(s *shop, a args) (any, error) {
			if s.row("users", "username", a["username"]) != nil {
				return nil, fmt.Errorf("user %s exists", a["username"])
			}
			return s.put("users", args{"username": a["username"]}), nil
		}},
		{"remove_contact", "email:string*", write, ErrorOnRepeat, func(s *shop, a args) (any, error) {
			if s.row("contacts", "email", a["email"]) == nil {
				return nil, errNotFound
			}
			s.tables["contacts"] = slices.DeleteFunc(s.tables["contacts"], func(r map[string]any) bool { return r["email"] == a["email"] })
			return "removed", nil
		}},
		{"open_account", "account_name:string*", write, AnswerDiffers, func(s *shop, a args) (any, error) {
			if s.row("accounts", "name", a["account_name"]) != nil {
				return args{"opened": []any{}}, nil
			}
			return args{"opened": []any{s.put("accounts", args{"name": a["account_name"]})}}, nil
		}},
		{"reserve_room", "room_code:string*", write, DuplicateEffect, func(s *shop, a args) (any, error) {
			r := s.row("reservations", "room_code", a["room_code"])
			s.unlocked(pause)
			if r == nil {
				r = s.put("reservations", args{"room_code": a["room_code"]})
			}
			return args{"room_code": r["room_code"]}, nil
		}},
		{"watch_topic", "topic:string*", write, LostWrite, func(s *shop, a args) (any, error) {
			topics := slices.Clone(s.tables["topics"])
			s.unlocked(pause)
			if !slices.ContainsFunc(topics, func(r map[string]any) bool { return r["topic"] == a["topic"] }) {
				topics = append(topics, args{"topic": a["topic"]})
			}
			s.tables["topics"] = topics
			return "watching", nil
		}},
		{"set_mode", "mode:string*", write, LostWrite, func(s *shop, a args) (any, error) {
			key := "mode" + a["mode"].(string)
			if _, ok := s.dedup[key]; !ok {
				s.dedup[key] = time.Now()
				s.settings["mode"] = a["mode"].(string)
			}
			return "ok", nil
		}},
		{"subscribe_feed", "feed:string*", write, DuplicateEffect, func(s *shop, a args) (any, error) {
			key := fmt.Sprint("feed", a["feed"], a["session"])
			if _, ok := s.dedup[key]; !ok {
				s.dedup[key] = time.Now()
				s.put("feeds", args{"feed": a["feed"]})
			}
			return "subscribed", nil
		}},
	}
}

// read are the tools by which the shop shows itself.
func (s *shop) read() map[string]func() any {
	table := func(name string) func() any {
		return func() any {
			rows := []map[string]any{}
			for _, r := range s.tables[name] {
				rows = append(rows, maps.Clone(r))
			}
			return args{name: rows}
		}
	}
	out := map[string]func() any{
		"get_counters": func() any { return args{"counters": maps.Clone(s.counters)} },
		"get_flags":    func() any { return args{"flags": maps.Clone(s.flags)} },
		"get_settings": func() any { return args{"settings": maps.Clone(s.settings), "now": time.Now().String()} },
		"read_log":     func() any { return strings.Join(s.log, "\n") },
	}
	for _, name := range []string{"tickets", "contacts", "charges", "reports", "orders", "jobs", "invoices", "receipts", "users", "accounts", "reservations", "topics", "feeds"} {
		out["list_"+name] = table(name)
	}
	return out
}

// serve makes a server of the shop.
func (s *shop) serve() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	for name, read := range s.read() {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				return result(read(), nil), nil
			})
	}
	for _, t := range shopTools() {
		tool := &mcp.Tool{Name: t.name, InputSchema: json.RawMessage(schemaText(t.properties))}
		if t.hints != "" {
			tool.Annotations = &mcp.ToolAnnotations{}
			if err := json.Unmarshal([]byte(t.hints), tool.Annotations); err != nil {
				panic(err)
			}
		}
		server.AddTool(tool, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			a := args{}
			if err := json.Unmarshal(r.Params.Arguments, &a); err != nil {
				return nil, err
			}
			a["session"] = fmt.Sprintf("%p", r.Session)
			s.mu.Lock()
			defer s.mu.Unlock()
			return result(t.do(s, a)), nil
		})
	}
	return server
}

func result(v any, err error) *mcp.CallToolResult {
	if err != nil {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}
	}
	text, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		text = string(b)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// schemaText is the JSON schema of properties written as "name:type*", with a|b|c for an enumeration.
func schemaText(properties string) string {
	props, required := args{}, []string{}
	for _, p := range strings.Fields(properties) {
		name, kind, _ := strings.Cut(p, ":")
		if strings.HasSuffix(kind, "*") {
			kind = strings.TrimSuffix(kind, "*")
			required = append(required, name)
		}
		props[name] = args{"type": kind}
		if strings.Contains(kind, "|") {
			props[name] = args{"type": "string", "enum": strings.Split(kind, "|")}
		}
	}
	b, err := json.Marshal(args{"type": "object", "properties": props, "required": required})
	if err != nil {
		panic(err)
	}
	return string(b)
}
