package policy

import (
	"strconv"
	"time"
)

// resolve applies the defaults that follow from other fields of the workflow.
func (w *Workflow) resolve(c *Config) {
	path := w.Path()
	written := func(field string) bool { return c.Written(path + "." + field) }
	w.Timeouts.resolve(func(field string) bool { return written("timeouts." + field) })
	w.Idempotency.resolve(w.Effect, written)
	if w.Durability == "" {
		w.Durability = durability(w.Effect)
	}
	w.Lanes.resolve(w.Retry)
	for i := range w.Tiers {
		if w.Tiers[i].Name == "" {
			w.Tiers[i].Name = "tier" + strconv.Itoa(i+1)
		}
	}
	if s := w.Cache.Semantic; s != nil && s.Embedder == "" && len(c.Embedders) == 1 {
		s.Embedder = c.Embedders[0].Name
	}
	w.Reconcile.resolve(w.Timeouts.Attempt)
	w.matcher = compileMatch(w.Match)
}

func (l *Lanes) resolve(r Retry) {
	if l.InteractiveAdmission.MaxAttempts == 0 {
		l.InteractiveAdmission.MaxAttempts = r.MaxAttempts
	}
}

func durability(e Effect) Durability {
	if e == External {
		return Strict
	}
	return Relaxed
}

// Defaults of interface.md §5 that depend on the effect.
const (
	generationWindow = 5 * time.Minute
	generationTTL    = 30 * time.Minute
	externalWindow   = 24 * time.Hour
	keylessWindow    = 10 * time.Minute // semantics 41
	externalTTL      = 24 * time.Hour
)

func (id *Idempotency) resolve(effect Effect, written func(string) bool) {
	external := effect == External
	if id.Derive == "" {
		id.Derive = DeriveRetries
		if external {
			id.Derive = DeriveAlways
		}
	}
	if !written("idempotency.window") {
		id.Window = generationWindow
		switch {
		case external && id.Key != "":
			id.Window = externalWindow
		case external:
			id.Window = keylessWindow
		}
	}
	if !written("idempotency.ttl") {
		id.TTL = generationTTL
		if external {
			id.TTL = externalTTL
		}
		id.TTL = max(id.TTL, id.Window)
	}
}

// Defaults of interface.md §5: wide, so that a drop-in breaks nobody.
const (
	defaultFirstToken = 300 * time.Second
	defaultAttempt    = 590 * time.Second
	defaultTotal      = 590 * time.Second
	defaultRequest    = 600 * time.Second
)

// resolve lets bounds that were left out follow their written neighbours, so that first_token ≤ attempt ≤ total <
// request holds unless what was written breaks it.
func (t *Timeouts) resolve(written func(string) bool) {
	if !written("request") {
		t.Request = defaultRequest
		if floor := max(t.Total, t.Attempt, t.FirstToken); floor >= t.Request {
			t.Request = floor + floor/60 + time.Second
		}
	}
	if !written("total") {
		t.Total = min(defaultTotal, t.Request-min(t.Request/6, 10*time.Second))
		t.Total = max(t.Total, min(max(t.Attempt, t.FirstToken), t.Request-1))
	}
	if !written("attempt") {
		t.Attempt = max(min(defaultAttempt, t.Total), min(t.FirstToken, t.Total))
	}
	if !written("first_token") {
		t.FirstToken = min(defaultFirstToken, t.Attempt)
	}
}

func (r *Reconcile) resolve(attempt time.Duration) {
	if r != nil && r.Quiet == 0 {
		r.Quiet = max(time.Minute, 2*attempt)
	}
}

func (s *ToolServer) resolve() {
	for i := range s.Routes {
		s.Routes[i].resolve(s.Mode)
	}
}

func (s *MCPServer) resolve() {
	for i := range s.Tools {
		s.Tools[i].resolve(s.Mode)
	}
}

func (p *CallPolicy) resolve(server Mode) {
	if p.Mode == "" {
		p.Mode = server
	}
	if p.OnUnknown == "" {
		p.OnUnknown = HoldUnknown
		if p.Effect == Generation {
			p.OnUnknown = RetryUnknown
		}
	}
	if p.Durability == "" {
		p.Durability = Strict
		if p.Effect != External {
			p.Durability = Relaxed
		}
	}
	if p.Window == 0 {
		p.Window = keylessWindow
		if p.Key != "" {
			p.Window = externalWindow
		}
	}
	if p.TTL == 0 {
		p.TTL = max(externalTTL, p.Window)
	}
	p.Reconcile.resolve(p.Timeout)
}
