package cli

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/sim"
)

// simOptions are the flags of `holdfast sim`.
type simOptions struct {
	cfg    sim.Config
	script string   // file
	def    sim.Step // what the default step's flags say
	bench  bool
	writes int
}

// simCommand is `holdfast sim`.
func simCommand() *cobra.Command {
	var o simOptions
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Run the provider simulator: OpenAI, Anthropic and Gemini on one port, with scripted faults",
		Long: `Run a simulated provider that answers as OpenAI, Anthropic and Gemini do, fails as it is told to, and counts
every call and every effect. Scripts, counters and the call log are at /sim/v1/… on the same port; docs/sim.md
describes them. Point a client's base URL at it: http://ADDRESS/v1 for OpenAI, http://ADDRESS for the others.`,
		Example: `  # a far side whose effects survive any crash of the caller
  holdfast sim --listen 127.0.0.1:9797 --effects effects.jsonl

  # the first call of each operation has its effect and loses its reply, the second is answered
  curl -X PUT http://127.0.0.1:9797/sim/v1/script -d '{"rules":[{"per_op":true,"steps":["reply_lost"]}]}'
  curl http://127.0.0.1:9797/sim/v1/stats

  # as fast as it can, for measurements
  holdfast sim --listen 127.0.0.1:9797 --bench --chunks 32`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := o.config()
			if err != nil {
				return err
			}
			return runSim(cmd, cfg)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.cfg.Listen, "listen", "127.0.0.1:9797", "address; port 0 takes a free one")
	f.StringVar(&o.cfg.Effects, "effects", "", "file that gets one synced JSON line per effect, before the answer")
	f.StringVar(&o.cfg.Streams, "streams", "", "folder of recorded streams with an index.json, beside the built-in ones")
	f.StringVar(&o.cfg.Signals, "signals", "", "signals.jsonl of recorded failures, beside the built-in ones")
	f.StringVar(&o.script, "script", "", "JSON file with the script to begin with")
	f.DurationVar(&o.cfg.Dedup, "dedup", 0, "answer an Idempotency-Key from its first effect for this long (0: never)")
	f.IntVar(&o.def.Size, "size", 0, "bytes of text in an answer")
	f.IntVar(&o.def.Chunks, "chunks", 0, "pieces of content in a stream (default 5)")
	f.IntVar(&o.def.DelayMS, "delay-ms", 0, "wait before each answer")
	f.IntVar(&o.def.EventMS, "event-ms", 0, "wait between two events of a stream")
	f.BoolVar(&o.bench, "bench", false, "serve prepared answers only: no script, no call log, no effects, but a count")
	f.IntVar(&o.writes, "bench-writes", 1, "writes per stream with --bench")
	return cmd
}

// check refuses values that cannot be.
func (o *simOptions) check() error {
	if err := checkAddress("listen", o.cfg.Listen); err != nil {
		return err
	}
	for _, n := range []struct {
		flag  string
		value int
	}{{"size", o.def.Size}, {"chunks", o.def.Chunks}, {"delay-ms", o.def.DelayMS}, {"event-ms", o.def.EventMS}, {"bench-writes", o.writes - 1}} {
		if n.value < 0 {
			return usagef("--%s must not be negative, and --bench-writes is at least 1", n.flag)
		}
	}
	if o.cfg.Dedup < 0 {
		return usagef("--dedup must not be negative; 0 never answers from an earlier effect")
	}
	return nil
}

// config puts the script's file and the flags together; a flag wins over the file.
func (o *simOptions) config() (sim.Config, error) {
	cfg := o.cfg
	if err := o.check(); err != nil {
		return cfg, err
	}
	if o.script != "" {
		b, err := os.ReadFile(o.script)
		if err != nil {
			return cfg, fmt.Errorf("--script: %w", wanted("it takes a JSON file such as {\"rules\":[{\"steps\":[\"reply_lost\"]}]} (docs/sim.md)", err))
		}
		if cfg.Script, err = sim.ParseScript(b); err != nil {
			return cfg, fmt.Errorf("--script %s: %w", o.script, err)
		}
	}
	def := &cfg.Script.Default
	for _, flag := range []struct {
		to    *int
		value int
	}{{&def.Size, o.def.Size}, {&def.Chunks, o.def.Chunks}, {&def.DelayMS, o.def.DelayMS}, {&def.EventMS, o.def.EventMS}} {
		if flag.value != 0 {
			*flag.to = flag.value
		}
	}
	if o.bench {
		cfg.Bench = &sim.Bench{Size: def.Size, Chunks: def.Chunks, Writes: o.writes,
			Latency: time.Duration(def.DelayMS) * time.Millisecond, Pause: time.Duration(def.EventMS) * time.Millisecond}
	}
	return cfg, nil
}

// runSim serves until the process is asked to end.
func runSim(cmd *cobra.Command, cfg sim.Config) (err error) {
	s := sim.New(cfg)
	if err := s.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	fmt.Fprintf(cmd.OutOrStdout(), "simulator on %s (OpenAI: %s/v1), control on %s%s, since %s\n",
		s.URL(), s.URL(), s.URL(), sim.ControlPrefix, time.Now().UTC().Format(time.RFC3339))
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(end)
	select {
	case <-end:
	case <-cmd.Context().Done():
	}
	return nil
}
