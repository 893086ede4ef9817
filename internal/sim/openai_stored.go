package sim

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// Stored chat completions (https://platform.openai.com/docs/api-reference/chat/list): those that were asked for with store: true.

// storedChat is a chat.completion as reading it again shows it, with its metadata.
func (a *answer) storedChat() doc {
	var metadata any = doc{}
	if m := gjson.GetBytes(a.q.body, "metadata"); m.IsObject() {
		metadata = json.RawMessage(m.Raw)
	}
	return append(a.chatDoc(), "metadata", metadata)
}

const (
	listLimit    = 20
	maxListLimit = 100
)

// listChats is GET /v1/chat/completions: a page of those whose model and metadata are the ones asked for, oldest first.
func (s *Server) listChats(q *request) *reply {
	var all []*answer
	for _, a := range s.stored.all() {
		if a.q.endpoint == "chat.completions" && q.wants(a) {
			all = append(all, a)
		}
	}
	if q.query.Get("order") == "desc" {
		slices.Reverse(all)
	}
	if after := q.query.Get("after"); after != "" {
		at := slices.IndexFunc(all, func(a *answer) bool { return a.chatID() == after })
		if at < 0 {
			return q.notFound("Chat completion with id '" + after + "' not found.")
		}
		all = all[at+1:]
	}
	limit, err := strconv.Atoi(q.query.Get("limit"))
	if err != nil || limit < 1 || limit > maxListLimit {
		limit = listLimit
	}
	more := len(all) > limit
	all = all[:min(len(all), limit)]
	page, first, last := make(list, len(all)), any(nil), any(nil)
	for i, a := range all {
		page[i], last = a.storedChat(), a.chatID()
	}
	if len(all) > 0 {
		first = all[0].chatID()
	}
	return plain(http.StatusOK, doc{"object", "list", "data", page, "first_id", first, "last_id", last, "has_more", more}.bytes())
}

// wants says that a has the model and every pair of metadata, metadata[name]=value, that q asks for.
func (q *request) wants(a *answer) bool {
	if model := q.query.Get("model"); model != "" && model != a.q.model {
		return false
	}
	for name, values := range q.query {
		name, is := strings.CutPrefix(name, "metadata[")
		name, closed := strings.CutSuffix(name, "]")
		if !is || !closed {
			continue
		}
		if v := gjson.GetBytes(a.q.body, "metadata."+gjson.Escape(name)); v.Type != gjson.String || v.Str != values[0] {
			return false
		}
	}
	return true
}
