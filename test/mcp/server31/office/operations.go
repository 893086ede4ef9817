package office

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// operations runs the company's own programs.
type operations struct {
	mu       sync.Mutex
	now      func() time.Time
	flags    map[string]bool
	settings map[string]string
	hooks    map[string]string // event by URL
	handed   int               // registrations that were answered
	sessions map[string]string // who by session
}

func newOperations(now func() time.Time) *operations {
	return &operations{
		now:      now,
		flags:    map[string]bool{"new-checkout": false, "dark-mode": true},
		settings: map[string]string{"currency": "EUR", "language": "en", "timezone": "Europe/Madrid"},
		hooks:    map[string]string{"https://hooks.lind.example/in": "order.created"},
		sessions: map[string]string{"ses_1": "ana", "ses_2": "bo", "ses_3": "bo"},
	}
}

func (*operations) name() string { return "operations" }

func (o *operations) snapshot() any {
	o.mu.Lock()
	defer o.mu.Unlock()
	return frozen(map[string]any{"flags": o.flags, "settings": o.settings, "hooks": o.hooks, "sessions": o.sessions})
}

type flagToggle struct {
	Flag string `json:"flag" jsonschema:"Which flag" enum:"new-checkout|dark-mode"`
}

type settingSet struct {
	Key   string `json:"key" jsonschema:"Which setting" enum:"currency|language|timezone"`
	Value string `json:"value" jsonschema:"Its value" len:"60" example:"SEK"`
}

type webhookRegister struct {
	URL   string `json:"url" jsonschema:"Where to deliver; registering it again replaces the event" format:"uri" len:"300" example:"https://hooks.fox.example/orders"`
	Event string `json:"event" jsonschema:"What to deliver" enum:"order.created|order.cancelled|invoice.issued"`
}

type sessionRevoke struct {
	ID string `json:"session_id" jsonschema:"The session, as session_list names it" pattern:"^ses_[0-9]+$" example:"ses_2"`
}

type flagged struct {
	Flag string `json:"flag"`
	Done bool   `json:"done"`
}

type registered struct {
	Registration string `json:"registration_id"`
	URL          string `json:"url"`
	At           string `json:"registered_at"`
}

type revoked struct {
	ID     string `json:"session_id"`
	Result string `json:"result" jsonschema:"revoked, or already gone"`
}

type flagList struct {
	Flags map[string]bool `json:"flags"`
}

type settingList struct {
	Settings map[string]string `json:"settings"`
	Served   string            `json:"served_at" jsonschema:"When this answer was made"`
}

type hookList struct {
	Webhooks map[string]string `json:"webhooks" jsonschema:"Event by URL"`
}

type sessionList struct {
	Sessions map[string]string `json:"sessions" jsonschema:"Who is logged in, by session"`
}

func (o *operations) register(m *mcp.Server) {
	addTool(m, describe[flagToggle]("feature_flag_toggle", "Toggle flag", "Switch a feature flag on or off.", changes), o.toggle)
	addTool(m, describe[settingSet]("setting_set", "Set setting", "Set one of the company's settings.", puts), o.set)
	addTool(m, describe[webhookRegister]("webhook_register", "Register webhook", "Register a URL for an event.", puts), o.hook)
	addTool(m, describe[sessionRevoke]("session_revoke", "Revoke session", "Log a session out.", puts), o.revoke)
	addTool(m, describe[none]("feature_flag_list", "List flags", "All feature flags.", reads), o.listFlags)
	addTool(m, describe[none]("setting_list", "List settings", "All settings.", reads), o.listSettings)
	addTool(m, describe[none]("webhook_list", "List webhooks", "All webhooks with their event.", reads), o.listHooks)
	addTool(m, describe[none]("session_list", "List sessions", "All sessions that are logged in.", reads), o.listSessions)
}

// toggle is at fault: a repeat undoes it.
func (o *operations) toggle(_ context.Context, in flagToggle) (flagged, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flags[in.Flag] = !o.flags[in.Flag]
	return flagged{in.Flag, true}, nil
}

func (o *operations) set(_ context.Context, in settingSet) (settingSet, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settings[in.Key] = in.Value
	return in, nil
}

// hook is at fault in its answer: the record stays the same, and the caller is told a new identifier.
func (o *operations) hook(_ context.Context, in webhookRegister) (registered, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hooks[in.URL] = in.Event
	o.handed++
	return registered{fmt.Sprintf("whk_%03d", o.handed), in.URL, stamp(o.now())}, nil
}

func (o *operations) revoke(_ context.Context, in sessionRevoke) (revoked, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.sessions[in.ID]; !ok {
		return revoked{in.ID, "already gone"}, nil
	}
	delete(o.sessions, in.ID)
	return revoked{in.ID, "revoked"}, nil
}

func (o *operations) listFlags(context.Context, none) (flagList, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return flagList{maps.Clone(o.flags)}, nil
}

func (o *operations) listSettings(context.Context, none) (settingList, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return settingList{maps.Clone(o.settings), stamp(o.now())}, nil
}

func (o *operations) listHooks(context.Context, none) (hookList, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return hookList{maps.Clone(o.hooks)}, nil
}

func (o *operations) listSessions(context.Context, none) (sessionList, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return sessionList{maps.Clone(o.sessions)}, nil
}
