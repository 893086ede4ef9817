package sim

import (
	"net/http"
	"path"
	"slices"

	"github.com/tidwall/gjson"
)

// tool answers everything that is no provider's path: writes have an effect, reads look effects up.
func (s *Server) tool(x *exchange, n int64) *reply {
	rep := s.toolReply(x.q, n)
	x.q.commonHeaders(rep.header, s.cfg.Now())
	return rep
}

func (s *Server) toolReply(q *request, n int64) *reply {
	if q.generates() {
		return plain(http.StatusOK, toolBody(q, n))
	}
	if len(q.query) > 0 {
		found := s.effects.find(func(e *Effect) bool { return q.asksFor(e) })
		items := make(list, len(found))
		for i := range found {
			items[i] = found[i].body()
		}
		return plain(http.StatusOK, doc{"items", items, "count", len(found)}.bytes())
	}
	id := path.Base(q.path)
	found := s.effects.find(func(e *Effect) bool { return id == e.ID || id == e.Key || id == e.Op })
	if len(found) == 0 {
		return q.notFound("nothing is known by the key " + id)
	}
	return plain(http.StatusOK, found[0].body().bytes())
}

// toolBody is the answer to a write: the number of the execution and what was received.
func toolBody(q *request, n int64) []byte {
	received := any(string(q.body[:min(len(q.body), maxLogBody)]))
	if len(q.body) <= maxLogBody && gjson.ValidBytes(q.body) {
		received = raw(q.body)
	}
	return doc{"id", ident("eff_", 16, n), "object", "effect", "status", "done", "execution", n,
		"op", orNull(q.op), "key", orNull(q.key), "path", q.path, "received", received}.bytes()
}

// asksFor reports whether every parameter of the query is true of the effect: key, ref, op and id name it, any other
// name is a field of the request's body.
func (q *request) asksFor(e *Effect) bool {
	for name, values := range q.query {
		if len(values) == 0 {
			continue
		}
		want := values[0]
		switch name {
		case "key", "ref", "op", "id", "idempotency_key":
			if !slices.Contains([]string{e.Key, e.Op, e.ID}, want) && field(e, name) != want {
				return false
			}
		default:
			if field(e, name) != want {
				return false
			}
		}
	}
	return true
}

func field(e *Effect, name string) string {
	return gjson.GetBytes(e.Body, gjson.Escape(name)).String()
}

func (e *Effect) body() doc {
	d := doc{"id", e.ID, "object", "effect", "status", "done", "execution", e.Execution, "op", orNull(e.Op), "key", orNull(e.Key),
		"path", e.Path, "time", e.Time.UTC()}
	if len(e.Body) > 0 {
		d = append(d, "received", raw(e.Body))
	}
	return d
}
