package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
)

// openAIResponse reads a stored response by the id that was recorded of it, or a stored chat completion by the metadata
// that was written into it.
type openAIResponse struct {
	s    *Set
	conf *policy.Reconcile
}

// responseID is an id as OpenAI's answers and events hold it.
var responseID = regexp.MustCompile(`"id"\s*:\s*"(resp_[A-Za-z0-9_-]{1,200})"`)

// Check implements intent.Reconciler.
func (o *openAIResponse) Check(ctx context.Context, r *ledger.Record) (intent.Finding, error) {
	if r.Endpoint == "chat.completions" {
		return o.checkStored(ctx, r)
	}
	e := readEvidence{Get: "/responses/{id}"}
	id, err := o.recorded(ctx, r)
	if err != nil {
		return intent.Finding{}, err
	}
	if id == "" {
		return cannotTell("no id of the response was recorded", e), nil
	}
	e.ID = id
	p := o.s.c.Policy.Provider(sentTo(r))
	if p == nil || p.APIKey.IsZero() {
		return cannotTell(noOwnKey, e), nil
	}
	a, body, err := o.read(ctx, p, "/responses/"+id)
	if err != nil {
		return intent.Finding{Reason: "the provider could not be read" + unreadable(err), Evidence: encode(e)}, err
	}
	e.Status, e.Bytes, e.SHA256 = a.Status, len(body), digest(body)
	if a.Status != http.StatusOK {
		return cannotTell(fmt.Sprintf("the provider answered %d: it may not have stored the response", a.Status), e), nil
	}
	if a.Fault != nil || gjson.GetBytes(body, "id").Str != id {
		return cannotTell("what the provider answered is not this response, or cannot be read in one way alone", e), nil
	}
	e.State = gjson.GetBytes(body, "status").Str
	f := intent.Finding{Evidence: encode(e)}
	switch e.State {
	case "completed", "incomplete":
		f.Found, f.Reason, f.Read = intent.Happened, "the response is "+e.State, body
		f.Answer, f.Body = answerOf(a, body)
	case "queued", "in_progress":
		f.Reason = "the response is still " + e.State
	default:
		f.Reason = "the response ended without an answer; whether its tools acted is for a person"
	}
	return f, nil
}

const noOwnKey = "the provider has no api_key of its own here to read with"

// read makes one request of the provider's API.
func (o *openAIResponse) read(ctx context.Context, p *policy.Provider, path string) (answer, []byte, error) {
	base := strings.TrimSuffix(p.BaseURL, "/")
	if !strings.HasSuffix(base, "/v1") {
		base += "/v1"
	}
	target, err := url.Parse(base + path)
	if err != nil {
		return answer{}, nil, err
	}
	header := providerHeaders(p)
	header.Set("Accept-Encoding", "identity")
	return o.s.read(ctx, &upstream.Request{Method: http.MethodGet, Target: target, Header: header})
}

// recorded finds the id in the history, where it was noted as soon as it came, and in what is left of the answer.
func (o *openAIResponse) recorded(ctx context.Context, r *ledger.Record) (string, error) {
	events, err := o.s.c.Ledger.History(ctx, r.ID)
	if err != nil {
		return "", err
	}
	id := ""
	for i := range events {
		var noted struct {
			ID string `json:"response_id"`
		}
		if json.Unmarshal(events[i].Evidence, &noted) == nil && responseID.MatchString(`"id":"`+noted.ID+`"`) {
			id = noted.ID // the last attempt's
		}
	}
	if id != "" {
		return id, nil
	}
	for _, kind := range []ledger.BodyKind{ledger.BodyLate, ledger.BodyPartial, ledger.BodyAnswer} {
		b, err := o.s.c.Ledger.Body(ctx, r.ID, kind)
		if err != nil {
			continue
		}
		if m := responseID.FindSubmatch(b.Data); m != nil {
			return string(m[1]), nil
		}
	}
	return "", nil
}

// sentTo is the provider of the last attempt: another tier's than the one that the path named, where such a one was asked.
func sentTo(r *ledger.Record) string {
	name, _, routed := strings.Cut(r.RouteKey, "/")
	if !routed {
		return r.Provider
	}
	return name
}
