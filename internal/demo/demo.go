// Package demo lets one client suffer what clients suffer, with and without Holdfast, and counts what happened.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/proc"
)

// Config says how to run the demo.
type Config struct {
	Exe string    // the holdfast executable
	Out io.Writer // where the story goes; nil: nowhere
}

// Report is what happened.
type Report struct {
	Operations []Operation `json:"operations"`
	// Store is the complaints of `holdfast store verify` about the log that all this left.
	Store     string `json:"store_verify"`
	AsPromise bool   `json:"as_promised"`
	TookMS    int64  `json:"took_ms"`
}

// Operation is one intention of the client and what became of it.
type Operation struct {
	Name string `json:"name"`
	// Calls are requests that reached the provider, Effects what it did: charges made, generations run.
	Calls       int64  `json:"calls"`
	WantCalls   int64  `json:"calls_promised"`
	Effects     int64  `json:"effects"`
	WantEffects int64  `json:"effects_promised"`
	Client      string `json:"client"`           // what the client was told in the end
	Without     string `json:"without_holdfast"` // the same client straight at the provider
	// Broken lists what was not as promised.
	Broken []string `json:"broken,omitempty"`
}

// config is the gateway's. SIM is the provider.
const config = `env: demo
providers:
  openai: {type: openai, base_url: "SIM/v1", api_key: demo}
  spare: {type: openai, base_url: "SIM/v1", api_key: demo}        # stands for another provider
  shop: {type: openai, base_url: "SIM/tools", api_key: demo}   # charges cards
workflows:
  payments: {match: {paths: [/charges]}, effect: external}       # changes the world: on_unknown is hold
  support:                                                       # another tier answers when the first is down
    match: {models: [gpt-4o]}
    retry: {max_attempts: 1}
    timeouts: {first_token: 5s, attempt: 10s, total: 30s, request: 35s}
    tiers: [{name: first, provider: openai, model: gpt-4o}, {name: second, provider: spare, model: gpt-4o-mini}]
  default: {retry: {base: 10ms, max: 20ms}, breaker: {failure_threshold: 10, reset_timeout: 1s}}
`

// stage is what the scenes play on.
type stage struct {
	ctx     context.Context
	exe     string
	dir     string
	out     io.Writer
	sim     *proc.Process
	gateway *proc.Process
	client  *http.Client
}

// Run plays every scene. The error says that it could not; a broken promise is in the report. Every process that
// it started has ended when it returns.
func Run(ctx context.Context, c Config) (_ *Report, err error) {
	began := time.Now()
	s := &stage{ctx: ctx, exe: c.Exe, out: c.Out, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}}
	if s.out == nil {
		s.out = io.Discard
	}
	if s.dir, err = os.MkdirTemp("", "holdfast-demo-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	defer s.end()
	if err := s.begin(); err != nil {
		return nil, err
	}
	r := &Report{AsPromise: true}
	for _, scene := range scenes {
		op, err := s.play(scene)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", scene.title, err)
		}
		r.Operations = append(r.Operations, *op)
		r.AsPromise = r.AsPromise && op.Broken == nil
	}
	if err := s.verify(r); err != nil {
		return nil, err
	}
	r.TookMS = time.Since(began).Milliseconds()
	s.sum(r)
	return r, nil
}

// begin starts the provider and the gateway.
func (s *stage) begin() (err error) {
	if s.sim, err = proc.Sim(proc.Command{Exe: s.exe, Dir: s.dir, Args: []string{"--effects", "effects.jsonl"}}); err != nil {
		return err
	}
	text := strings.ReplaceAll(config, "SIM", s.sim.URL)
	if err := os.WriteFile(filepath.Join(s.dir, "holdfast.yaml"), []byte(text), 0o600); err != nil {
		return err
	}
	if err := s.serve(); err != nil {
		return err
	}
	s.say("%s\n", bold(s.out, "Holdfast demo"))
	s.say("One client, the gateway and a provider that keeps count, as real processes on this machine: no keys, no network.\n")
	s.say("  client ─► gateway, process %d ─► provider, process %d\n", s.gateway.ID(), s.sim.ID())
	return nil
}

func (s *stage) serve() (err error) {
	s.gateway, err = proc.Serve(proc.Command{Exe: s.exe, Dir: s.dir,
		Args: []string{"--config", "holdfast.yaml", "--store", "sqlite:holdfast.db"}})
	return err
}

// end leaves no process behind, however the demo ended.
func (s *stage) end() {
	s.client.CloseIdleConnections()
	for _, p := range []*proc.Process{s.gateway, s.sim} {
		if p != nil {
			p.Kill()
		}
	}
}

// verify ends the gateway in order and has its log checked.
func (s *stage) verify(r *Report) error {
	s.client.CloseIdleConnections()
	if err := s.gateway.Stop(10 * time.Second); err != nil {
		return fmt.Errorf("the gateway did not end well: %w", err)
	}
	out, err := s.command("store", "verify", "--store", "sqlite:holdfast.db")
	if err != nil {
		r.Store, r.AsPromise = strings.TrimSpace(out+"\n"+err.Error()), false
	}
	return nil
}

// command runs one of holdfast's own commands, as an operator does, and returns what it printed.
func (s *stage) command(args ...string) (string, error) {
	cmd := exec.CommandContext(s.ctx, s.exe, args...)
	cmd.Dir, cmd.WaitDelay = s.dir, time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}
