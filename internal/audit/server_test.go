package audit

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// shop is a far side whose tools have known faults. Its state is shared by all sessions.
type shop struct {
	mu       sync.Mutex
	next     int
	tables   map[string][]map[string]any
	counters map[string]int
	settings map[string]string
	flags    map[string]bool
	dedup    map[string]time.Time
	answers  map[string]any
	log      []string
}

func newShop() *shop {
	s := &shop{tables: map[string][]map[string]any{}, counters: map[string]int{"visits": 4, "errors": 9},
		settings: map[string]string{"theme": "dark"}, flags: map[string]bool{"beta": false, "ads": true},
		dedup: map[string]time.Time{}, answers: map[string]any{}}
	for i := range 8 {
		s.put("tickets", map[string]any{"title": fmt.Sprintf("ticket %d", i), "status": "open", "assignee": "nobody", "tags": []any{}, "comments": []any{}})
	}
	return s
}

// put adds a row with a new id.
func (s *shop) put(table string, row map[string]any) map[string]any {
	s.next++
	row["id"] = fmt.Sprintf("%s-%d", strings.TrimSuffix(table, "s"), s.next)
	s.tables[table] = append(s.tables[table], row)
	return maps.Clone(row)
}

func (s *shop) row(table, key string, value any) map[string]any {
	for _, r := range s.tables[table] {
		if r[key] == value {
			return r
		}
	}
	return nil
}

type args = map[string]any

// shopTool is one tool: its properties as name:type, the required ones with a star, and what the audit must say.
type shopTool struct {
	name, properties string
	hints            string
	want             Verdict
	do               func(s *shop, a args) (any, error)
}

const write, silentHints, claims = `{"readOnlyHint":false}`, ``, `{"readOnlyHint":false,"idempotentHint":true}`

var errNotFound = errors.New("not found")

func shopTools() []shopTool {
	return slices.Concat(soundTools(), repeatedTools(), trickyTools())
}

func soundTools() []shopTool {
	return []shopTool{
		{"create_contact", "email:string* name:string*", write, Safe, func(s *shop, a args) (any, error) {
			if r := s.row("contacts", "email", a["email"]); r != nil {
				return maps.Clone(r), nil
			}
			return s.put("contacts", args{"email": a["email"], "name": a["name"], "created_at": time.Now().Format(time.RFC3339)}), nil
		}},
		{"charge_card", "idempotency_key:string* amount:integer*", write, Safe, func(s *shop, a args) (any, error) {
			key := "charge" + a["idempotency_key"].(string)
			if s.answers[key] == nil {
				s.counters["charged"] += int(a["amount"].(float64))
				s.answers[key] = s.put("charges", args{"amount": a["amount"]})
			}
			return s.answers[key], nil
		}},
		{"set_setting", "key:string* value:string*", claims, Safe, func(s *shop, a args) (any, error) {
			s.settings[a["key"].(string)] = a["value"].(string)
			return "ok", nil
		}},
		{"assign_ticket", "ticket_id:string* assignee:string*", write, Safe, func(s *shop, a args) (any, error) {
			r := s.row("tickets", "id", a["ticket_id"])
			if r == nil {
				return nil, errNotFound
			}
			r["assignee"], r["updated_at"] = a["assignee"], time.Now().Format(time.RFC3339Nano)
			return maps.Clone(r), nil
		}},
		{"set_ticket_status", "ticket_id:string* status:open|waiting|closed*", silentHints, Safe, func(s *shop, a args) (any, error) {
			r := s.row("tickets", "id", a["ticket_id"])
			if r == nil {
				return nil, errNotFound
			}
			r["status"] = a["status"]
			return "status is now " + a["status"].(string), nil
		}},
		{"delete_ticket", "id:string*", write, Safe, func(s *shop, a args) (any, error) {
			s.tables["tickets"] = slices.DeleteFunc(s.tables["tickets"], func(r map[string]any) bool { return r["id"] == a["id"] })
			return "gone", nil
		}},
		{"schedule_report", "report_id:string* title:string*", write, Safe, func(s *shop, a args) (any, error) {
			time.AfterFunc(3*time.Second, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.row("reports", "report_id", a["report_id"]) == nil {
					s.tables["reports"] = append(s.tables["reports"], args{"report_id": a["report_id"], "title": a["title"]})
				}
			})
			return "accepted", nil
		}},
		{"tag_ticket", "ticket_id:string* tag:string*", write, Safe, func(s *shop, a args) (any, error) {
			r := s.row("tickets", "id", a["ticket_id"])
			if r == nil {
				return nil, errNotFound
			}
			if tags := r["tags"].([]any); !slices.Contains(tags, a["tag"]) {
				r["tags"] = append(slices.Clone(tags), a["tag"])
			}
			return "tagged", nil
		}},
	}
}

func repeatedTools() []shopTool {
	return []shopTool{
		{"create_ticket", "title:string*", claims, DuplicateEffect, func(s *shop, a args) (any, error) {
			return s.put("tickets", args{"title": a["title"], "status": "open", "assignee": "nobody", "tags": []any{}, "comments": []any{}}), nil
		}},
		{"append_log", "line:string*", write, DuplicateEffect, func(s *shop, a args) (any, error) {
			s.log = append(s.log, a["line"].(string))
			return "ok", nil
		}},
		{"add_comment", "ticket_id:string* text:string*", silentHints, DuplicateEffect, func(s *shop, a args) (any, error) {
			r := s.row("tickets", "id", a["ticket_id"])
			if r == nil {
				return nil, errNotFound
			}
			r["comments"] = append(slices.Clone(r["comments"].([]any)), a["text"])
			return "commented", nil
		}},
		{"increment_counter", "counter:string* by:integer", claims, DuplicateEffect, func(s *shop, a args) (any, error) {
			name := a["counter"].(string)
			if _, ok := s.counters[name]; !ok {
				return nil, errNotFound
			}
			s.counters[name]++
			return s.counters[name], nil
		}},
		{"toggle_flag", "flag:string*", claims, DuplicateEffect, func(s *shop, a args) (any, error) {
			name := a["flag"].(string)
			if _, ok := s.flags[name]; !ok {
				return nil, errNotFound
			}
			s.flags[name] = !s.flags[name]
			return "toggled", nil
		}},
		{"place_order", "sku:string* quantity:integer*", write, DuplicateEffect, func(s *shop, a args) (any, error) {
			key := fmt.Sprint("order", a["sku"], a["quantity"])
			if t, ok := s.dedup[key]; !ok || time.Since(t) > 8*time.Second {
				s.dedup[key] = time.Now()
				s.answers[key] = s.put("orders", args{"sku": a["sku"], "quantity": a["quantity"]})
			}
			return s.answers[key], nil
		}},
		{"queue_job", "kind:email|sms|push* to:string*", write, DuplicateEffect, func(s *shop, a args) (any, error) {
			time.AfterFunc(2*time.Second, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.put("jobs", args{"kind": a["kind"], "to": a["to"]})
			})
			return "queued", nil
		}},
		{"create_invoice", "customer:string* total:number*", write, DuplicateEffect, func(s *shop, a args) (any, error) {
			s.put("invoices", args{"customer": a["customer"], "total": a["total"]})
			return nil, errors.New("500 internal error")
		}},
		{"send_digest", "recipient:string*", write, CannotTell, func(*shop, args) (any, error) { return "sent", nil }},
	}
}
