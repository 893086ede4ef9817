package gateway

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/cache"
	"github.com/holdfast-ai/holdfast/internal/embed"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/ledger"
)

// caching is a workflow's cache as its policy makes it.
type caching struct {
	first     bool // look before calling
	sampled   bool // … also for what is drawn
	templates []template
	semantic  *semantic
	bounds    cache.Bounds
	text      string // cache.default
}

type template struct {
	*cache.Pattern
	ttl time.Duration
}

type semantic struct {
	embedder  embed.Embedder
	threshold float64
	ttl       time.Duration
}

// caches compiles the caches of a configuration, by workflow.
func caches(cfg *policy.Config) (map[string]*caching, error) {
	embedders, err := embed.Open(cfg)
	if err != nil {
		return nil, err
	}
	byName := map[string]*caching{}
	for i := range cfg.Workflows {
		w := &cfg.Workflows[i]
		c, err := newCaching(&w.Cache, embedders)
		if err != nil {
			return nil, fmt.Errorf("workflows.%s.cache: %w", w.Name, err)
		}
		if c != nil {
			byName[w.Name] = c
		}
	}
	return byName, nil
}

// newCaching is nil where there is nothing to find.
func newCaching(p *policy.Cache, embedders map[string]embed.Embedder) (*caching, error) {
	c := &caching{first: p.First, sampled: p.Sampled, text: p.Default}
	for i := range p.Template {
		t := &p.Template[i]
		pattern, err := cache.ParsePattern(t.Name, t.Pattern)
		if err != nil {
			return nil, fmt.Errorf("template[%d].pattern: %w", i, err)
		}
		c.templates = append(c.templates, template{pattern, t.TTL})
	}
	if s := p.Semantic; s != nil {
		c.bounds.Entries = s.MaxEntries
		c.semantic = &semantic{embedders[s.Embedder], s.Threshold, s.TTL} // check has looked for the name
	}
	if len(c.templates) == 0 && c.semantic == nil && c.text == "" {
		return nil, nil
	}
	return c, nil
}

// finds says that there is more than a fixed text.
func (c *caching) finds() bool { return len(c.templates) > 0 || c.semantic != nil }

// asked is what a request asks, for as long as it or its answer is looked for.
type asked struct {
	*meaning
	conf  *caching
	scope cache.Scope       // without a tier
	rest  [sha256.Size]byte // of all else than the text
	forms []provider.Form   // in which an answer may stand, that of the request first
	why   provider.NoCache  // Cacheable, Drawn or NoTemper
	from  *original
}

// formed is the place of answers in a form among those to a question: who asks finds the answer of its own form as it stands, and
// one of another form to be said anew.
func formed(key cache.Key, form provider.Form) cache.Key {
	return sha256.Sum256(append(key[:], form...))
}

// meaning is a text and its vector.
type meaning struct {
	text string
	at   time.Time // ledger time

	mu     sync.Mutex
	vector cache.Vector // once it is made
	failed error        // … or could not be
}

// shelved is the tenant under which an entry stands.
func shelved(tenant string) string {
	if mutant.On("cache-key-without-tenant") {
		return ""
	}
	return tenant
}

// caching is the call's cache, nil where it is to have none: what acts, or only observes, is done or fails, and a job waits in
// its lane (interface.md §5).
func (c *call) caching() *caching {
	if c.wf == nil || c.tool != nil || c.job != nil || c.by != nil || c.hold || c.effect != ledger.EffectGeneration || c.wf.Mode == policy.Observe || !c.spec.Known || c.approves() {
		return nil
	}
	return c.g.caches[c.wf.Name]
}

// asks is the call's question, nil where no earlier answer can stand for its own.
func (c *call) asks() *asked {
	conf := c.caching()
	if c.looked || conf == nil || !conf.finds() {
		return c.question
	}
	c.looked = true
	r := c.keyed()
	q := provider.Ask(&c.spec, c.keyer().Canonical(nil, &r))
	if q.Rest == nil || several(c.body) {
		return nil
	}
	c.question = &asked{meaning: &meaning{text: q.Text, at: c.g.ledger.Now()}, conf: conf, rest: sha256.Sum256(q.Rest), forms: provider.Forms(&c.spec, c.body), why: q.Why, from: c.original(),
		scope: cache.Scope{Env: c.g.policy.Env, Tenant: shelved(c.tenant), Workflow: c.wf.Name}}
	return c.question
}

// several says that more than one answer is wanted: each would have to be whole, and which are is not told.
func several(body []byte) bool {
	_, answers := bounds(body)
	return answers > 1
}

// tierScope is a tier as far as it makes the answer another one.
type tierScope struct{ class, provider, model, prompt string }

// scopeOf is the scope of a tier as a request goes there. What its prompt makes of the request is a part of it, with the number
// of examples that the client says it has.
func (o *original) scopeOf(l *leg) tierScope {
	t := &l.conf
	s := tierScope{class: t.QualityClass + "/" + t.DataBoundary + "/" + t.SafetyClass, provider: l.to.conf.Name, model: l.sends}
	if l.prompt != nil {
		s.prompt = fmt.Sprintf("%d %#v", o.shots, *l.prompt)
	}
	return s
}

// in is the question to a tier.
func (a *asked) in(t tierScope) cache.Question {
	s := a.scope
	s.Class, s.Provider, s.Model, s.Prompt = t.class, t.provider, t.model, t.prompt
	return cache.Ask(&s, a.rest[:], a.text)
}

// match is the first of the workflow's templates that the text is.
func (a *asked) match() (*cache.Match, time.Duration) {
	for i := range a.conf.templates {
		t := &a.conf.templates[i]
		if m, ok := t.Match(a.text); ok {
			return m, t.ttl
		}
	}
	return nil, 0
}

// made says that the vector is there: a look-up has made it. It waits for none that is being made.
func (m *meaning) made() bool {
	if !m.mu.TryLock() {
		return false
	}
	defer m.mu.Unlock()
	return m.vector.Steps != nil
}

// embed is the text's vector, made once.
func (m *meaning) embed(ctx context.Context, by embed.Embedder) (cache.Vector, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.vector.Steps != nil || m.failed != nil {
		return m.vector, m.failed
	}
	v, err := by.Embed(ctx, m.text)
	if err == nil {
		m.vector, err = cache.Quantize(v)
	}
	if err != nil && ctx.Err() == nil {
		m.failed = err
	}
	return m.vector, err
}

// cacheBounds are those of a workflow, also of one that is there no more.
func (g *edition) cacheBounds(workflow string) cache.Bounds {
	if c := g.caches[workflow]; c != nil {
		return c.bounds
	}
	return cache.Bounds{}
}
