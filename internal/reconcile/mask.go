package reconcile

import (
	"context"
	"net/http"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/redact"
	"github.com/holdfast-ai/holdfast/ledger"
)

// masking takes out of what is kept of a read, and given to whoever asks again, the secrets that the far side is sent (semantics 45).
// The read is judged before, on what the far side said: a secret may be a word that happened: looks for.
type masking struct {
	intent.Reconciler
	s  *Set
	at place
}

// Check implements intent.Reconciler.
func (m *masking) Check(ctx context.Context, r *ledger.Record) (intent.Finding, error) {
	f, err := m.Reconciler.Check(ctx, r)
	hidden := m.hidden(r)
	if hidden == nil || mutant.On("secret-in-read") {
		return f, err
	}
	f.Reason, f.Evidence, f.Read = hidden.Text(f.Reason), hidden.Of(f.Evidence), hidden.Of(f.Read)
	if f.Answer != nil {
		a := *f.Answer
		a.Header, f.Answer = hidden.Header(http.Header(a.Header)), &a
	}
	if f.Body != nil {
		b := *f.Body
		b.ContentType, b.Data, f.Body = hidden.Text(b.ContentType), hidden.Of(b.Data), &b
	}
	return f, err
}

// hidden are the secrets of the far side of an operation.
func (m *masking) hidden(r *ledger.Record) *redact.Words {
	switch {
	case m.at.tool != nil:
		return redact.New(m.at.tool.Hidden()...)
	case m.at.server != "":
		for i := range m.s.c.Policy.MCP.Servers {
			if srv := &m.s.c.Policy.MCP.Servers[i]; srv.Name == m.at.server {
				return redact.New(srv.Hidden()...)
			}
		}
		return nil
	}
	if p := m.s.c.Policy.Provider(r.Provider); p != nil {
		return redact.New(p.Hidden()...)
	}
	return nil
}
