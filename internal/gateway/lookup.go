package gateway

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/cache"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/ledger"
)

// hit is an earlier answer that stands for this call's.
type hit struct {
	entry      *cache.Entry
	similarity float64
	record     *ledger.Record
	body       []byte
	age        time.Duration
}

// cached answers a call that is to be answered by an earlier answer first (cache.first). It leaves no row. Whoever holds the
// key answers for it instead: the cache is no second answer to a request that has one, or of which the outcome is not known.
func (c *call) cached() *Error {
	conf := c.caching()
	if !c.leader || c.fresh || c.resume || c.waiting != nil || conf == nil || !conf.first {
		return nil
	}
	a := c.asks()
	if a == nil || a.why != provider.Cacheable && !conf.sampled && !mutant.On("cache-first-without-temperature") {
		return nil
	}
	if c.holder() != nil {
		return nil
	}
	h := c.find(a, c.tierScopes(true))
	if h == nil || c.r.Context().Err() != nil {
		return nil
	}
	c.stand(h.canned("cache.first"))
	c.standDown()
	return nil
}

// tierScopes are the tiers whose answers stand for this call's: those that might have answered it; first: those that are equal
// to the one that would be tried first.
func (c *call) tierScopes(first bool) []tierScope {
	var list []tierScope
	for i := range c.course.legs {
		l := &c.course.legs[i]
		if class := l.conf.QualityClass; !first || i == 0 || class != "" && class == c.course.legs[0].conf.QualityClass {
			list = append(list, c.original().scopeOf(l))
		}
	}
	return list
}

// find looks by template, then by meaning.
func (c *call) find(a *asked, tiers []tierScope) *hit {
	if h := c.byTemplate(a, tiers); h != nil {
		return h
	}
	return c.byMeaning(a, tiers)
}

func (c *call) byTemplate(a *asked, tiers []tierScope) *hit {
	if len(a.conf.templates) == 0 {
		return nil
	}
	m, ttl := a.match()
	if m == nil {
		c.g.observer.CacheMiss(c.wf.Name, string(cache.Template), "no_template")
		return nil
	}
	return c.look(a, cache.Template, tiers, ttl, func(q *cache.Question) cache.Key { return q.TemplateKey(m) },
		func(e *cache.Entry) (float64, cache.Reason) { return cache.Confirm(e, cache.Vector{}, 0) })
}

func (c *call) byMeaning(a *asked, tiers []tierScope) *hit {
	s := a.conf.semantic
	if s == nil {
		return nil
	}
	now := c.g.ledger.Now()
	return c.look(a, cache.Semantic, tiers, s.ttl, func(q *cache.Question) cache.Key { return q.SemanticKey(s.embedder.Space(), now) },
		func(e *cache.Entry) (float64, cache.Reason) {
			return cache.Confirm(e, c.vector(a), s.threshold)
		})
}

// vector is that of the question, none where it cannot be had in time.
func (c *call) vector(a *asked) (v cache.Vector) {
	ctx, stop := c.patience()
	defer stop()
	err := errBusyEmbedder
	if c.g.answers.embedding.Add(1) <= maxEmbeddings {
		v, err = a.embed(ctx, a.conf.semantic.embedder)
	}
	c.g.answers.embedding.Add(-1)
	if err != nil {
		c.g.logger.Debug("no vector of a question: the cache is passed over", "workflow", c.wf.Name, "error", err)
	}
	return v
}

// maxEmbeddings bounds the vectors that are made at once for look-ups: as the last resort calls look that found no place here.
const maxEmbeddings = 64

var errBusyEmbedder = errors.New("limit of vectors that are made at once")

// worse orders the reasons of misses: the one that came nearest to a hit is told.
var worse = map[cache.Reason]int{cache.Empty: 0, cache.Differs: 1, cache.Expired: 2, cache.NoVector: 3, cache.Dissimilar: 4, answerGone: 5}

// answerGone says that the answer that an entry leads to is not to be had any more.
const answerGone cache.Reason = "answer_gone"

// look asks for one kind of entry, tier by tier.
func (c *call) look(a *asked, kind cache.Kind, tiers []tierScope, ttl time.Duration, key func(*cache.Question) cache.Key,
	confirm func(*cache.Entry) (float64, cache.Reason)) *hit {
	now, nearest := c.g.ledger.Now(), cache.Empty
	for _, t := range tiers {
		q := a.in(t)
		e, why := c.g.answers.index.Candidate(a.scope.Tenant, a.scope.Workflow, q.Partition, key(&q), now)
		if e != nil && now.Sub(e.Made) >= ttl { // shorter than when it was written
			e, why = nil, cache.Expired
		}
		var near float64
		if e != nil {
			near, why = confirm(e)
		}
		if why == cache.Found {
			h, err := c.g.fetch(e, c.tenant)
			if err == nil {
				h.similarity, h.age = near, max(now.Sub(e.Made), 0)
				c.g.observer.CacheHit(c.wf.Name, string(kind))
				return h
			}
			c.g.logger.Debug("an entry of the cache leads to no answer", "intent", e.Intent, "error", err)
			why = answerGone
		}
		if worse[why] > worse[nearest] {
			nearest = why
		}
	}
	c.g.observer.CacheMiss(c.wf.Name, string(kind), string(nearest))
	return nil
}

// fetchWait bounds the reading of an answer.
const fetchWait = 2 * time.Second

var errNoAnswer = errors.New("it is no answer to give to another request")

// fetch reads the answer that an entry leads to. The log decides, not the index: whether its row still stands, whose it is, and
// that it was a success.
func (g *Gateway) fetch(e *cache.Entry, tenant string) (*hit, error) {
	ctx, stop := context.WithTimeout(context.Background(), fetchWait)
	defer stop()
	h, err := g.recorded(ctx, e, tenant)
	if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, errNoAnswer) {
		g.answers.gone(e)
	}
	return h, err
}

func (g *Gateway) recorded(ctx context.Context, e *cache.Entry, tenant string) (*hit, error) {
	rows, err := g.ledger.Cached(ctx, ledger.CachedFilter{Intent: e.Intent})
	if err != nil {
		return nil, err
	}
	listed := false
	for i := range rows {
		listed = listed || rows[i].Kind == cachedKinds[e.Kind]
	}
	if !listed {
		return nil, ledger.ErrNotFound
	}
	r, err := g.ledger.Get(ctx, e.Intent)
	if err != nil {
		return nil, err
	}
	if r.State != ledger.Settled || r.Outcome != ledger.OutcomeSuccess || r.Effect != ledger.EffectGeneration || r.Answer == nil ||
		r.Answer.HTTPStatus != 200 || shelved(r.Tenant) != shelved(tenant) {
		return nil, errNoAnswer
	}
	b, err := g.ledger.Body(ctx, e.Intent, ledger.BodyAnswer)
	if err != nil {
		return nil, err
	}
	return &hit{entry: e, record: r, body: b.Data}, nil
}

// canned is the hit as an answer to a client.
func (h *hit) canned(reason string) *canned {
	return &canned{source: "cache:" + string(h.entry.Kind), reason: reason, body: h.body, contentType: strings.Join(h.record.Answer.Header["Content-Type"], ""),
		served: h.record.ServedModel, hit: h}
}
