package gateway

import (
	"log/slog"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// Observer is told what happens, for telemetry. Its methods must not block.
type Observer interface {
	Request(Request)
	Lookup(workflow string)
	// Duplicate is a request that repeats one that is settled, in_flight or unknown.
	Duplicate(workflow, of string)
	StoreError(workflow string)
	Attempt(Attempt)
	// Retry is a further attempt, with what made it follow: an HTTP status, connection_error or timeout.
	Retry(workflow, trigger string)
	// Bulkhead is a call that asked for a slot of its tier.
	Bulkhead(workflow, tier string, accepted bool)
	// CacheHit is a request that was answered in the place of a provider: by a template, semantic, or default.
	CacheHit(workflow, kind string)
	// CacheMiss is a look-up of one kind that found nothing, with what came nearest.
	CacheMiss(workflow, kind, reason string)
	// Unkept is an answer that others will not find by its meaning, and why.
	Unkept(workflow, reason string)
	// Fallback is a step of a call from one tier to another, with the failure or the refusal that made it follow.
	Fallback(workflow, from, to, reason string)
}

// Request is one request that was answered.
type Request struct {
	Workflow string
	Effect   ledger.Effect
	Source   string // tier, replay, cache:template, cache:semantic, default, none
	Code     Code   // of the gateway's own error
	Status   int
	Took     time.Duration
}

// Attempt is one upstream call that ended.
type Attempt struct {
	Workflow string
	Tier     string
	End      ledger.AttemptEnd
	Error    string
	Took     time.Duration
}

type silent struct{}

func (silent) Request(Request)          {}
func (silent) Lookup(string)            {}
func (silent) Duplicate(string, string) {}
func (silent) StoreError(string)        {}
func (silent) Attempt(Attempt)          {}
func (silent) Retry(string, string)     {}

func (silent) Bulkhead(string, string, bool)    {}
func (silent) CacheHit(string, string)          {}
func (silent) CacheMiss(string, string, string) {}
func (silent) Unkept(string, string)            {}

func (silent) Fallback(string, string, string, string) {}

func (c *call) observe() {
	source := c.source
	if source == "" {
		source = "none"
	}
	took := time.Since(c.began)
	if c.g.logger.Enabled(c.r.Context(), slog.LevelDebug) {
		id := ""
		if c.exec != nil {
			id = c.exec.opID()
		}
		c.g.logger.Debug("request", "intent", id, "workflow", c.workflow(), "method", c.r.Method, "path", c.path, "status", c.status,
			"source", source, "code", string(c.code), "took", took)
	}
	c.g.observer.Request(Request{Workflow: c.workflow(), Effect: c.effect, Source: source, Code: c.code, Status: c.status,
		Took: took})
}

// attempted reports the end of an upstream call.
func (e *execution) attempted(end ledger.AttemptEnd, kind string) {
	e.g.observer.Attempt(Attempt{Workflow: e.wf.Name, Tier: e.source(), End: end, Error: kind, Took: time.Since(e.sent)})
}
