// Package bench measures the gateway and its log beside the references that their targets are ratios to.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// Config says what to measure. Exe and OpenLedger are needed; the zero value of the rest is its documented default.
type Config struct {
	// Exe is the holdfast executable, of which all processes are made; Env goes to them beside this process's own.
	Exe string
	Env []string
	// OpenLedger opens the store to measure, creating it.
	OpenLedger func(path string) (ledger.Ledger, error)
	// Dir is where stores and files are made, in a folder that is removed again. The disk beneath it is measured
	// too. Default: the system's folder for temporary files.
	Dir string

	// Duration is how long each contender is measured for each figure, in slices that alternate. Default 3 s.
	Duration time.Duration
	// Connections is the number of clients at full load. Default 64.
	Connections int
	// Rate is the fixed rate, in requests per second. Default 1000.
	Rate int
	// IdleStreams is how many open streams wait at the same time. Default 10,000.
	IdleStreams int
	// History is the number of settled intents that the full store holds. Default 100,000.
	History int
	// Only names what to measure (see Names); empty: everything.
	Only []string
	// Unpinned lets the processes run on any core, where otherwise the one in the middle has a core of its own.
	Unpinned bool
	// ProfileGateway is a file that gets a CPU profile of the gateway, the last one that ran; only full load is
	// then measured.
	ProfileGateway string

	// Progress gets a line for each thing that begins. Default: none.
	Progress io.Writer
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		to    *int
		value int
	}{{&c.Connections, 64}, {&c.Rate, 1000}, {&c.IdleStreams, 10_000}, {&c.History, 100_000}} {
		if *d.to <= 0 {
			*d.to = d.value
		}
	}
	if c.Duration <= 0 {
		c.Duration = 3 * time.Second
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	if len(c.Only) == 0 {
		c.Only = Names()
	}
	return c
}

// slice is how long one contender is measured before the next one has its turn: short, so that what else the
// machine does meets them all, and long enough for the 10 ms in which Linux counts processor time.
const (
	slice     = 500 * time.Millisecond
	minRounds = 3
)

// run is one run under way.
type run struct {
	cfg    Config
	dir    string
	where  *placement
	rounds int
	slice  time.Duration
	report *Report
	// commit is the median of one commit by one caller in this run; the targets of latencies rest on it.
	commit time.Duration
}

// Run measures, which takes a few minutes, and leaves neither a process nor a file behind. When ctx ends, it
// returns the cause.
func Run(ctx context.Context, cfg Config) (_ *Report, err error) {
	cfg = cfg.withDefaults()
	for _, name := range cfg.Only {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("bench: there is nothing called %q; choose from %v", name, Names())
		}
	}
	r := &run{cfg: cfg, rounds: max(minRounds, int(cfg.Duration/slice)), report: newReport(cfg)}
	r.slice = cfg.Duration / time.Duration(r.rounds)
	if r.dir, err = os.MkdirTemp(cfg.Dir, "holdfast-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	if r.wants(Store) || r.needsCommit() {
		if err := r.store(ctx); err != nil {
			return nil, fmt.Errorf("bench: store: %w", err)
		}
	}
	if !cfg.Unpinned {
		var back func()
		r.where, back = place()
		defer back()
	}
	r.report.Pinned = r.where != nil
	for _, part := range []func(context.Context) error{r.scenarios, r.bulk, r.idle} {
		if err := part(ctx); err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
	}
	return r.report, nil
}

func (r *run) wants(name string) bool { return slices.Contains(r.cfg.Only, name) }

// needsCommit says that a target rests on how long a commit takes.
func (r *run) needsCommit() bool {
	return r.cfg.ProfileGateway == "" && slices.ContainsFunc(scenarios(), func(s *scenario) bool { return r.wants(s.name) && s.commits > 0 })
}

func (r *run) progress(format string, args ...any) {
	fmt.Fprintf(r.cfg.Progress, format+"\n", args...)
}
