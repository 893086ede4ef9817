package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Bounds of what is read of a list. Metadata is a filter, so that one page is the rule.
const (
	storedPages = 20
	storedLimit = 20
)

// checkStored looks for a stored chat completion (OpenAI, List Chat Completions). One that is not in the list proves
// nothing: an organisation can switch storing off, and the list may lag behind.
func (o *openAIResponse) checkStored(ctx context.Context, r *ledger.Record) (intent.Finding, error) {
	e := readEvidence{Get: "/chat/completions?metadata[" + provider.MarkName + "]={id}"}
	if !o.conf.Metadata {
		return cannotTell("a chat completion is found by its metadata only (reconcile.metadata)", e), nil
	}
	mark, err := o.written(ctx, r)
	if err != nil {
		return intent.Finding{}, err
	}
	if mark == "" {
		return cannotTell("nothing was written into its metadata: it was not asked for with store: true, or had no room", e), nil
	}
	p := o.s.c.Policy.Provider(r.Provider)
	if p == nil || p.APIKey.IsZero() {
		return cannotTell(noOwnKey, e), nil
	}
	query := url.Values{"metadata[" + provider.MarkName + "]": {mark}, "limit": {fmt.Sprint(storedLimit)}}
	for range storedPages {
		a, body, err := o.read(ctx, p, "/chat/completions?"+query.Encode())
		if err != nil {
			return intent.Finding{Reason: "the provider could not be read" + unreadable(err), Evidence: encode(e)}, err
		}
		e.Status, e.Bytes, e.SHA256 = a.Status, len(body), digest(body)
		if a.Status != http.StatusOK || a.Fault != nil || !gjson.GetBytes(body, "data").IsArray() {
			return cannotTell(fmt.Sprintf("the provider answered %d, and no list", a.Status), e), nil
		}
		if one := marked(body, mark); one.Exists() {
			e.ID = one.Get("id").String()
			f := intent.Finding{Found: intent.Happened, Reason: "the completion is stored", Evidence: encode(e), Read: []byte(one.Raw)}
			f.Answer, f.Body = answerOf(a, []byte(one.Raw))
			return f, nil
		}
		last := gjson.GetBytes(body, "last_id").String()
		if !gjson.GetBytes(body, "has_more").Bool() || last == "" || last == query.Get("after") {
			return cannotTell("the provider has stored no completion with this metadata; it may not store any", e), nil
		}
		query.Set("after", last)
	}
	return cannotTell("the provider lists more completions than are read", e), nil
}

// marked is the completion of a page that bears the mark: not every far side that speaks this API filters.
func marked(page []byte, mark string) (found gjson.Result) {
	gjson.GetBytes(page, "data").ForEach(func(_, one gjson.Result) bool {
		if one.Get("metadata."+provider.MarkName).Str == mark {
			found = one
			return false
		}
		return true
	})
	return found
}

// written is what the history says was written into the request; empty: nothing.
func (o *openAIResponse) written(ctx context.Context, r *ledger.Record) (string, error) {
	events, err := o.s.c.Ledger.History(ctx, r.ID)
	if err != nil {
		return "", err
	}
	want := idempotency.OutboundKey(o.s.secret, r.ID)
	for i := range events {
		var written struct {
			Metadata map[string]string `json:"metadata"`
		}
		if json.Unmarshal(events[i].Evidence, &written) == nil && written.Metadata[provider.MarkName] == want {
			return want, nil
		}
	}
	return "", nil
}
