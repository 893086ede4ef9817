package intent

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// A job that was submitted with a callback_url has its end told: when it is settled, parked, or its outcome becomes
// unknown. What tells of it is an intent of its own, a job as well, written beside the very move that ends the other: no
// crash comes between the two, and the move is a compare-and-set, so that no end has two of them (semantics 47).

const (
	// CallbackProvider is the provider of a callback, which goes to none.
	CallbackProvider = "callback"
	// CallbackAttempts are a callback's attempts: with waits that double from five seconds to four hours, over half a day.
	CallbackAttempts = 16
	// CallbackAge is how long it is tried at most, whatever waits its receiver asks for.
	CallbackAge = 72 * time.Hour
	// callbackKey begins the keys of callbacks. What callers name begins with idem:.
	callbackKey = "callback:"
)

// IsCallback reports whether an intent tells of another one's end.
func IsCallback(head *ledger.Intent) bool { return strings.HasPrefix(head.Key, callbackKey) }

// CallbackOf is the job whose end a callback tells; "" where the intent is no callback.
func CallbackOf(head *ledger.Intent) string {
	rest, is := strings.CutPrefix(head.Key, callbackKey)
	if !is {
		return ""
	}
	id, _, _ := strings.Cut(rest, ":")
	return id
}

// CallbackBody is the body of a callback, in the form that the Standard Webhooks specification recommends. It never holds
// the answer: Result is where that is found.
type CallbackBody struct {
	Type      string       `json:"type"`      // job.settled, job.unknown, job.owner_review, job.dead_letter
	Timestamp string       `json:"timestamp"` // when the job came to this end
	Data      CallbackData `json:"data"`
}

// CallbackData is a job at one of its ends. Times are RFC 3339 UTC.
type CallbackData struct {
	ID             string `json:"id"`
	Intent         string `json:"intent"`   // the job's; a job is an intent
	Callback       string `json:"callback"` // the callback's own intent, and its webhook-id
	State          string `json:"state"`
	Outcome        string `json:"outcome"`
	Lane           string `json:"lane,omitempty"`
	IdempotencyKey string `json:"idempotency_key"`
	Workflow       string `json:"workflow"`
	OwnerKey       string `json:"owner_key,omitempty"`
	RequestedModel string `json:"requested_model,omitempty"`
	ServedModel    string `json:"served_model,omitempty"`
	Attempt        int    `json:"attempt"`
	LastErrorType  string `json:"last_error_type,omitempty"`
	CreatedAt      string `json:"created_at"`
	EndedAt        string `json:"ended_at"`
	Result         string `json:"result"` // path of the answer, on the data port and the admin port
}

// endOf is the end at which a job stands, "" where it goes on by itself.
func endOf(st *ledger.Status) string {
	switch {
	case st.State == ledger.Settled:
		return "settled"
	case Parked(st.Lane):
		return st.Lane
	case st.State == ledger.Unknown:
		return "unknown"
	}
	return ""
}

// calls reports whether the ends of an intent are told.
func calls(head *ledger.Intent) bool { return head.Callback != "" && !IsCallback(head) }

// tell puts the callback beside the write by which a job comes to an end.
func (c *change) tell(w *ledger.Write) {
	end := endOf(c.st)
	if end == "" || end == c.end0 || !calls(&c.op.head) {
		return
	}
	b := c.callback(end)
	told, err := json.Marshal(struct {
		Intent string `json:"intent"`
		Type   string `json:"type"`
	}{b.Insert.ID, "job." + end})
	if err != nil { // two texts always marshal
		c.err = err
		return
	}
	c.add(ledger.Event{Kind: CallbackKind, Reason: end + " is told to " + origin(c.op.head.Callback), Rule: "callback_url", Evidence: told})
	if mutant.On("callback-lost-on-crash") {
		c.split = b
		return
	}
	w.Beside = b
}

// CallbackKind is the kind of the line by which a job's history names a callback.
const CallbackKind = "callback"

// callback is the insertion of the intent that tells of an end.
func (c *change) callback(end string) *ledger.Write {
	job, version := &c.op.head, c.before+1
	head := &ledger.Intent{ID: c.op.log.ids.next(c.now), CreatedAt: c.now, Tenant: job.Tenant, Workflow: job.Workflow, OwnerKey: job.OwnerKey,
		Effect: ledger.EffectExternal, Key: fmt.Sprint(callbackKey, job.ID, ":", version), Method: "POST", Path: origin(job.Callback),
		Provider: CallbackProvider, Endpoint: CallbackProvider, Priority: job.Priority, MaxAttempts: CallbackAttempts,
		PolicyRevision: job.PolicyRevision, Trigger: "job." + end, Callback: job.Callback}
	head.JobID = head.ID
	body, err := json.Marshal(c.callbackBody(end, head.ID))
	if err != nil && c.err == nil { // texts and numbers always marshal
		c.err = err
	}
	return &ledger.Write{Insert: head,
		Status: ledger.Status{Version: 1, State: ledger.Created, Outcome: ledger.OutcomePending, Lane: LaneBackground,
			Visibility: ledger.VisBackground, ExpiresAt: c.now.Add(CallbackAge), UpdatedAt: c.now},
		Events: []ledger.Event{{At: c.now, Kind: "transition", To: ledger.Created, Actor: "engine",
			Reason: "job " + job.ID + " came to its end: " + end, Rule: "semantics 47"}},
		Bodies: []ledger.Body{{Kind: ledger.BodyRequest, ContentType: "application/json", Data: body}}}
}

// origin is where an address is without its path: callbacks to one receiver are of one kind to the queue.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

func (c *change) callbackBody(end, id string) CallbackBody {
	job, at := &c.op.head, c.now.UTC().Format(time.RFC3339Nano)
	return CallbackBody{Type: "job." + end, Timestamp: at, Data: CallbackData{ID: job.ID, Intent: job.ID, Callback: id,
		State: c.st.State.String(), Outcome: c.st.Outcome.String(), Lane: c.st.Lane, IdempotencyKey: job.Key, Workflow: job.Workflow,
		OwnerKey: job.OwnerKey, RequestedModel: job.RequestedModel, ServedModel: c.st.ServedModel, Attempt: c.st.Attempt,
		LastErrorType: c.st.LastError, CreatedAt: job.CreatedAt.UTC().Format(time.RFC3339Nano), EndedAt: at,
		Result: "/holdfast/v1/jobs/" + job.ID + "/result"}}
}

// OnCallback has f told of every callback that this log has written, when it is durable. f must not block.
func (g *Log) OnCallback(f func(*ledger.Record)) { g.called.Store(&f) }

// told announces the callback that went with a write that has landed.
func (g *Log) told(b *ledger.Write) {
	g.observe(Change{Head: b.Insert, To: ledger.Created, Outcome: ledger.OutcomePending})
	if f := g.called.Load(); f != nil {
		(*f)(&ledger.Record{Intent: *b.Insert, Status: b.Status})
	}
}
