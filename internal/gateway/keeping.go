package gateway

import (
	"context"
	"time"

	"github.com/holdfast-ai/holdfast/cache"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
)

// keeping is an answer on its way to those who ask the same. It holds nothing of the request but its last text: it may wait.
type keeping struct {
	*meaning
	conf             *caching
	id               string // whose answer it is
	tenant, workflow string
	question         cache.Question
	form             provider.Form
	entries          []*cache.Entry // what goes with the settlement: at most one of a kind
	unmeant          bool           // its vector takes a call, which is made behind the answer
}

// keepable is nil for an answer that is for its own request alone: one that is not whole, or not an answer, would be given
// again and again (BR-066).
func (e *execution) keepable(resp *upstream.Response, s *success) *keeping {
	if e.asks == nil || s.unrecorded || resp.Status != 200 || !e.answers(resp, s) && !mutant.On("cache-serves-partial") {
		return nil
	}
	a := e.asks
	k := &keeping{meaning: a.meaning, conf: a.conf, id: e.op.ID(), tenant: a.scope.Tenant, workflow: a.scope.Workflow,
		question: a.in(a.from.scopeOf(e.course.leg())), form: a.forms[0]}
	now := e.g.ledger.Now()
	if m, ttl := a.match(); m != nil {
		t := k.entry(cache.Template, k.question.TemplateKey(m), now, ttl)
		t.Template = m.Template
		k.entries = append(k.entries, t)
	}
	switch s := a.conf.semantic; {
	case s == nil:
	case !s.embedder.Local() && !k.made():
		k.unmeant = true
	default:
		if t := e.g.meant(context.Background(), k, now); t != nil {
			k.entries = append(k.entries, t)
		}
	}
	return k
}

// answers says that the body is an answer, and a whole one. Of a tier of another API a stream has ended in the client's words, a document
// in the tier's.
func (e *execution) answers(resp *upstream.Response, s *success) bool {
	whole := provider.Keepable(&e.spec, s.finish, s.tool, s.hosted) || provider.Keepable(e.asked(), s.finish, s.tool, s.hosted)
	return whole && !provider.HoldsRefusal(s.body) && provider.Says(&e.spec, header(resp, "Content-Type"), s.body)
}

func (k *keeping) entry(kind cache.Kind, key cache.Key, now time.Time, ttl time.Duration) *cache.Entry {
	return &cache.Entry{Intent: k.id, Tenant: k.tenant, Workflow: k.workflow, Kind: kind, Key: formed(key, k.form), Partition: k.question.Partition,
		Made: now, Expires: now.Add(ttl)}
}

// meant is the entry by which the answer is found by its question's meaning, nil where that has no vector.
func (g *Gateway) meant(ctx context.Context, k *keeping, now time.Time) *cache.Entry {
	s := k.conf.semantic
	v, err := k.embed(ctx, s.embedder)
	if err != nil {
		g.observer.Unkept(k.workflow, "no_vector")
		g.logger.Debug("an answer is not found by its meaning: its question has no vector", "intent", k.id, "error", err)
		return nil
	}
	e := k.entry(cache.Semantic, k.question.SemanticKey(s.embedder.Space(), k.at), now, s.ttl)
	e.Vector = v
	return e
}

// rows are what goes with the settlement.
func (k *keeping) rows() []ledger.Cached {
	if k == nil {
		return nil
	}
	var rows []ledger.Cached
	for _, e := range k.entries {
		rows = append(rows, row(e))
	}
	return rows
}

// offer has an answer found that is on record. A vector that takes a call comes behind the answer, and is left out where too
// many wait for theirs.
func (g *Gateway) offer(k *keeping) {
	g.answers.put(k.conf.bounds, k.entries...)
	if !k.unmeant {
		return
	}
	purges := g.answers.purges.Load()
	if !g.answers.later(len(k.text), func(ctx context.Context) { g.keepMeaning(ctx, k, purges) }) {
		g.observer.Unkept(k.workflow, "too_many_waiting")
	}
}

// keepMeaning adds the row of an answer that was settled when there had been so many purges.
func (g *Gateway) keepMeaning(ctx context.Context, k *keeping, purges int64) {
	e := g.meant(ctx, k, g.ledger.Now())
	if e == nil {
		return
	}
	g.answers.commit(func() {
		if g.answers.purges.Load() != purges {
			g.observer.Unkept(k.workflow, "purged")
			return
		}
		r := row(e)
		if err := g.log.Cache(k.id, r); err != nil {
			g.observer.Unkept(k.workflow, "not_on_record")
			g.logger.Debug("an answer is not found by its meaning: that is not on record", "intent", k.id, "error", err)
			return
		}
		if g.answers.purges.Load() != purges { // it may have passed by before the row was there
			g.observer.Unkept(k.workflow, "purged")
			g.answers.unlist([]*cache.Entry{e})
			return
		}
		g.answers.put(k.conf.bounds, e)
	})
}
