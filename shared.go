package holdfast

import (
	"context"
	"crypto/rand"
	"strings"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/bulkhead"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/shared"
	"github.com/holdfast-ai/holdfast/internal/shared/postgres"
	"github.com/holdfast-ai/holdfast/internal/shared/redis"
)

// openShared looks for the store that replicas share. One that is not there is waited for in the background: the engine starts with its
// part of every limit.
func (e *Engine) openShared(ctx context.Context) {
	conf := e.config().SharedState
	if conf == nil {
		return
	}
	env := e.config().Env
	open := func(ctx context.Context) (shared.Driver, error) { // a nil pointer would be a driver
		d, err := redis.Open(ctx, redis.Config{URL: conf.URL.Reveal(), Env: env})
		if err != nil {
			return nil, err
		}
		return d, nil
	}
	if strings.HasPrefix(conf.URL.Scheme(), "postgres") {
		open = func(ctx context.Context) (shared.Driver, error) {
			d, err := postgres.Open(ctx, postgres.Config{URL: conf.URL.Reveal(), Env: env})
			if err != nil {
				return nil, err
			}
			return d, nil
		}
	}
	e.shared = shared.New(ctx, shared.Config{Open: open, Name: conf.URL.String(), Holder: rand.Text(), Timeout: conf.Timeout,
		Replicas: replicas(e.config()), Logger: e.logger, Observer: e.meter})
}

// replicas is how many processes share a limit where each counts for itself: the most that any workflow says.
func replicas(c *policy.Config) int {
	n := 1
	for i := range c.Workflows {
		n = max(n, c.Workflows[i].Breaker.Replicas)
	}
	return n
}

// breakers gives routes the state that replicas share; nil where they do not.
func (e *Engine) breakers() func(string) breaker.Store {
	if e.shared == nil {
		return nil
	}
	return func(route string) breaker.Store { return e.shared.Breaker(route) }
}

// sharedState is what the gateway shares; nil where it does not.
func (e *Engine) sharedState() gateway.Shared {
	if e.shared == nil {
		return nil
	}
	return sharedSlots{e.shared}
}

type sharedSlots struct{ *shared.State }

// Semaphore implements gateway.Shared.
func (f sharedSlots) Semaphore(name string, size bulkhead.Config) gateway.Slots {
	return f.State.Semaphore(name, size)
}
