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
	age        time.Duration

	body        []byte
	contentType string
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
	ctx, stop := c.patience()
	defer stop()
	h := c.find(ctx, a, c.tierScopes(true))
	if h == nil || c.r.Context().Err() != nil || !c.mayStand(h.contentType) {
		return nil
	}
	c.standDown() // first: a client that reads slowly holds neither its followers nor a place
	c.stand(h.canned("cache.first"))
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

// search is one look for an earlier answer.
type search struct {
	*asked
	ctx   context.Context // of whoever waits for the question's vector
	tiers []tierScope
	left  time.Duration // for reads of the store: it may be slow, and is asked for each kind and tier
}

// find looks by template, then by meaning.
func (c *call) find(ctx context.Context, a *asked, tiers []tierScope) *hit {
	s := &search{a, ctx, tiers, fetchWait}
	if h := c.byTemplate(s); h != nil {
		return h
	}
	return c.byMeaning(s)
}

func (c *call) byTemplate(a *search) *hit {
	if len(a.conf.templates) == 0 {
		return nil
	}
	m, ttl := a.match()
	if m == nil {
		c.g.observer.CacheMiss(c.wf.Name, string(cache.Template), "no_template")
		return nil
	}
	return c.look(a, cache.Template, ttl, func(q *cache.Question) cache.Key { return q.TemplateKey(m) },
		func(e *cache.Entry) (float64, cache.Reason) { return cache.Confirm(e, cache.Vector{}, 0) })
}

func (c *call) byMeaning(a *search) *hit {
	s := a.conf.semantic
	if s == nil {
		return nil
	}
	now := c.g.ledger.Now()
	return c.look(a, cache.Semantic, s.ttl, func(q *cache.Question) cache.Key { return q.SemanticKey(s.embedder.Space(), now) },
		func(e *cache.Entry) (float64, cache.Reason) {
			return cache.Confirm(e, c.vector(a), s.threshold)
		})
}

// vector is that of the question, none where it cannot be had in time.
func (c *call) vector(a *search) (v cache.Vector) {
	err := errBusyEmbedder
	if c.g.answers.embedding.Add(1) <= maxEmbeddings {
		v, err = a.embed(a.ctx, a.conf.semantic.embedder)
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
var worse = map[cache.Reason]int{cache.Empty: 0, cache.Differs: 1, cache.Expired: 2, cache.NoVector: 3, cache.Dissimilar: 4, otherForm: 5, answerGone: 6,
	storeSilent: 7}

// What an entry can be passed over for beside the reasons of package cache.
const (
	answerGone  cache.Reason = "answer_gone" // the answer that it leads to is not to be had any more
	storeSilent cache.Reason = "store_away"  // the store did not say what stands there, or not in time
	otherForm   cache.Reason = "other_form"  // the answer stands in another form, and holds what cannot be said in this one
)

// look asks for one kind of entry, tier by tier: in the form that the request asks for, then in the others.
func (c *call) look(a *search, kind cache.Kind, ttl time.Duration, key func(*cache.Question) cache.Key,
	confirm func(*cache.Entry) (float64, cache.Reason)) *hit {
	nearest := cache.Empty
	for _, t := range a.tiers {
		q := a.in(t)
		at := key(&q)
		for i, form := range a.forms {
			h, why := c.candidate(a, q.Partition, formed(at, form), ttl, confirm)
			if h != nil && i > 0 && !mutant.On("cache-form-as-stored") && !h.retell(c) {
				h, why = nil, otherForm
			}
			if h != nil {
				c.g.observer.CacheHit(c.wf.Name, string(kind))
				return h
			}
			if worse[why] > worse[nearest] {
				nearest = why
			}
		}
	}
	c.g.observer.CacheMiss(c.wf.Name, string(kind), string(nearest))
	return nil
}

// candidate is what stands at one place of the index, or why that is no answer.
func (c *call) candidate(a *search, partition [32]byte, key cache.Key, ttl time.Duration, confirm func(*cache.Entry) (float64, cache.Reason)) (*hit, cache.Reason) {
	now := c.g.ledger.Now()
	e, why := c.g.answers.index.Candidate(a.scope.Tenant, a.scope.Workflow, partition, key, now)
	if e == nil {
		return nil, why
	}
	if now.Sub(e.Made) >= ttl { // shorter than when it was written
		return nil, cache.Expired
	}
	near, why := confirm(e)
	if why != cache.Found {
		return nil, why
	}
	h, err := c.g.fetch(e, c.tenant, &a.left)
	switch {
	case noAnswer(err):
		c.g.logger.Debug("an entry of the cache leads to no answer", "intent", e.Intent, "error", err)
		return nil, answerGone
	case err != nil:
		c.g.logger.Debug("what an entry of the cache leads to is not known", "intent", e.Intent, "error", err)
		return nil, storeSilent
	}
	h.similarity, h.age = near, max(now.Sub(e.Made), 0)
	return h, cache.Found
}

// retell says the answer anew in the form that the call asks for.
func (h *hit) retell(c *call) bool {
	told, ok := provider.Retell(&c.spec, c.body, h.contentType, h.body)
	if ok {
		h.contentType, h.body = told.ContentType, told.Body
	}
	return ok
}

// fetchWait bounds the reading of answers in one look for one.
const fetchWait = 2 * time.Second

var errNoAnswer = errors.New("it is no answer to give to another request")

// noAnswer says that the log knows of no answer, not that the log is away.
func noAnswer(err error) bool {
	return errors.Is(err, ledger.ErrNotFound) || errors.Is(err, errNoAnswer)
}

// fetch reads the answer that an entry leads to. The log decides, not the index: whether its row still stands, whose it is, and
// that it was a success. It takes no longer than what is left, and takes that from it.
func (g *Gateway) fetch(e *cache.Entry, tenant string, left *time.Duration) (*hit, error) {
	began := time.Now()
	ctx, stop := context.WithTimeout(context.Background(), *left)
	defer stop()
	if ctx.Err() != nil { // nothing is left: the store is not asked for what it cannot say in time
		return nil, ctx.Err()
	}
	h, err := g.recorded(ctx, e, tenant)
	*left -= time.Since(began)
	if noAnswer(err) {
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
	return &hit{entry: e, record: r, body: b.Data, contentType: strings.Join(r.Answer.Header["Content-Type"], "")}, nil
}

// canned is the hit as an answer to a client.
func (h *hit) canned(reason string) *canned {
	return &canned{source: "cache:" + string(h.entry.Kind), reason: reason, body: h.body, contentType: h.contentType,
		served: h.record.ServedModel, hit: h}
}
