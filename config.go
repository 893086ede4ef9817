package holdfast

import (
	"strings"

	"github.com/holdfast-ai/holdfast/internal/policy"
)

// ConfigError lists what keeps a configuration from being served, one fault a line.
type ConfigError struct {
	Faults []string
	// Flags says that all of them are about Listen, Admin, Store, Env or Upstreams, and none about the file.
	Flags bool
}

func (e *ConfigError) Error() string {
	if e.Flags {
		return strings.Join(e.Faults, "\n")
	}
	return "the configuration is refused:\n" + strings.Join(e.Faults, "\n")
}

// servable reads the configuration that c names, and says in the log what check warns of. Faults keep it from being served.
func servable(c Config) (*policy.Config, []policy.Fault) {
	cfg, faults := load(c)
	var refused []policy.Fault
	for _, f := range faults {
		if policy.Unservable([]policy.Fault{f}) {
			refused = append(refused, f)
		} else {
			c.Logger.Warn("configuration", "warning", f.String())
		}
	}
	return cfg, refused
}

func configError(faults []policy.Fault) *ConfigError {
	e := &ConfigError{Flags: policy.InFlags(faults)}
	for _, f := range faults {
		e.Faults = append(e.Faults, f.String())
	}
	return e
}

func load(c Config) (*policy.Config, []policy.Fault) {
	var cfg *policy.Config
	var faults []policy.Fault
	if c.File == "" {
		cfg = policy.Default(c.Getenv)
	} else if cfg, faults = policy.Load(c.File, c.Getenv); cfg == nil {
		return nil, faults
	}
	over := policy.Overrides{Env: c.Env, Listen: c.Listen, Admin: c.Admin, Store: c.Store, Upstreams: c.Upstreams}
	if c.Env != "" || c.Listen != "" || c.Admin != "" || c.Store != "" || len(c.Upstreams) > 0 {
		return cfg, cfg.Override(over)
	}
	return cfg, faults
}
