package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/internal/filewatch"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/telemetry"
)

// reloads is which configuration runs since when, and which one was refused.
type reloads struct {
	one sync.Mutex // one at a time

	mu      sync.Mutex
	since   time.Time
	refused *admin.RefusedConfiguration
}

// invalidRevision stands for the revision of what is no configuration.
const invalidRevision = "invalid"

// config is the configuration in force.
func (e *Engine) config() *policy.Config { return e.policy.Load() }

// inForceSince notes the start of the first one.
func (e *Engine) inForceSince() {
	e.meter.Watch(watched(e.config()))
	e.meter.Applied(e.config().Revision, true)
	e.reloads.mu.Lock()
	defer e.reloads.mu.Unlock()
	e.reloads.since = e.ledger.Now()
}

// watched are those whose calls telemetry counts.
func watched(c *policy.Config) []telemetry.Watched {
	var providers []string
	for i := range c.Providers {
		providers = append(providers, c.Providers[i].Name)
	}
	var all []telemetry.Watched
	for i := range c.Workflows {
		w := telemetry.Watched{Workflow: c.Workflows[i].Name}
		for j := range c.Workflows[i].Tiers {
			w.Tiers = append(w.Tiers, c.Workflows[i].Tiers[j].Name)
		}
		if w.Tiers == nil {
			w.Tiers = providers
		}
		all = append(all, w)
	}
	for i := range c.Tools {
		all = append(all, telemetry.Watched{Workflow: c.Tools[i].Name, Tiers: []string{c.Tools[i].Name}})
	}
	for i := range c.MCP.Servers {
		all = append(all, telemetry.Watched{Workflow: c.MCP.Servers[i].Name})
	}
	return all
}

// configuration is what the admin API shows.
func (e *Engine) configuration() admin.Configuration {
	e.reloads.mu.Lock()
	defer e.reloads.mu.Unlock()
	return admin.Configuration{File: e.conf.File, Revision: e.config().Revision, Since: e.reloads.since, Refused: e.reloads.refused}
}

// Reload reads the configuration again and puts it in force for what comes from now on; what is in progress ends by the
// one that it began with. Breakers, cool-downs, bulkheads and their lines live on. A configuration that is refused changes
// nothing: *ConfigError, with the words of holdfast check, also where a field differs that takes a restart. Any other
// error says that the store could not be told of it, and changes nothing either. One that says what is in force already
// is put in force no second time. It may be called at any time between Start and Stop.
func (e *Engine) Reload(ctx context.Context) error {
	if e.reconcilers.Load() == nil {
		return errors.New("the engine is not running")
	}
	e.reloads.one.Lock()
	defer e.reloads.one.Unlock()
	next, faults := servable(e.conf)
	if next == nil && mutant.On("broken-file-is-defaults") {
		next, faults = policy.Default(e.conf.Getenv), nil
	}
	if faults == nil && !mutant.On("restart-fields-ignored") {
		faults = e.config().Reloadable(next)
	}
	if faults != nil {
		err := configError(faults)
		e.refuse(next, err.Faults)
		return err
	}
	if next.Same(e.config()) {
		e.restored()
		return nil
	}
	if err := e.apply(ctx, next); err != nil {
		e.refuse(next, []string{err.Error()})
		return err
	}
	return nil
}

// apply puts a configuration in force. All that can fail comes first.
func (e *Engine) apply(ctx context.Context, next *policy.Config) error {
	if err := e.ledger.PutPolicy(ctx, next.Revision, next.Print()); err != nil {
		return fmt.Errorf("the log cannot be told of the changed configuration: %w; it is read again when it changes, and on SIGHUP", err)
	}
	set, err := e.newReconcilers(ctx, next)
	if err != nil {
		return err
	}
	if err := e.gateway.Reload(next); err != nil {
		return err
	}
	before := e.policy.Swap(next)
	if e.shared != nil {
		e.shared.SetReplicas(replicas(next))
	}
	e.putReconcilers(set)
	e.functions.reload()
	e.mcp.proxy.Reload(next)
	e.log.Reconsider()
	e.meter.Watch(watched(next))
	e.meter.Applied(next.Revision, false)
	e.reloads.mu.Lock()
	e.reloads.since, e.reloads.refused = e.ledger.Now(), nil
	e.reloads.mu.Unlock()
	e.logger.Info("the changed configuration is in force", "revision", next.Revision, "before", before.Revision)
	return nil
}

// refuse keeps what runs, and says why. next is nil where there is no configuration to speak of.
func (e *Engine) refuse(next *policy.Config, faults []string) {
	revision := invalidRevision
	if next != nil {
		revision = next.Revision
	}
	e.meter.Refused(revision)
	e.reloads.mu.Lock()
	e.reloads.refused = &admin.RefusedConfiguration{Revision: revision, At: e.ledger.Now(), Faults: faults}
	e.reloads.mu.Unlock()
	for _, f := range faults {
		e.logger.Error("the changed configuration is refused, and the running one kept", "fault", f, "running", e.config().Revision)
	}
}

// restored notes that what was written is what runs.
func (e *Engine) restored() {
	e.reloads.mu.Lock()
	was := e.reloads.refused
	e.reloads.refused = nil
	e.reloads.mu.Unlock()
	if was != nil {
		e.meter.Restored()
		e.logger.Info("the configuration says again what is in force", "revision", e.config().Revision)
	}
}

// watchAgain is after how long a configuration is read again that only the store kept from being put in force.
const watchAgain = 5 * time.Second

// watch has the file's changes put in force until ctx ends.
func (e *Engine) watch(ctx context.Context) error {
	if !e.conf.Watch || e.conf.File == "" {
		return nil
	}
	w, err := filewatch.New()
	if err != nil {
		return err
	}
	if err := w.Watch(e.config().Sources()); err != nil {
		return errors.Join(err, w.Close())
	}
	e.background.Go(func() {
		defer func() { _ = w.Close() }()
		e.follow(ctx, w)
	})
	return nil
}

func (e *Engine) follow(ctx context.Context, w *filewatch.Watcher) {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.Changed():
		case <-again:
		}
		var refused *ConfigError
		again = nil
		if err := e.Reload(ctx); err != nil && !errors.As(err, &refused) {
			again = time.After(watchAgain)
		}
		if err := w.Watch(e.config().Sources()); err != nil {
			e.logger.Warn("some changes of the configuration will not be noticed; send SIGHUP after them", "error", err)
		}
	}
}
