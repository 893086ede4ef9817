package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// mode is one way to load a contender.
type mode struct {
	name string
	load func(context.Context, *line) (sample, error)
}

// modes are those of every scenario, in the order of loads. A profile is of full load alone: everything else would
// blur it.
func (r *run) modes() []mode {
	all := []mode{
		{"at full load", func(ctx context.Context, l *line) (sample, error) { return l.closed(ctx, len(l.conns), r.slice) }},
		{"on one connection", func(ctx context.Context, l *line) (sample, error) { return l.closed(ctx, 1, r.slice) }},
		{"at a fixed rate", func(ctx context.Context, l *line) (sample, error) { return l.paced(ctx, r.cfg.Rate, r.slice) }},
	}
	if r.cfg.ProfileGateway != "" {
		return all[:1]
	}
	return all
}

// loads are the results of the modes.
type loads struct{ full, alone, paced result }

// scenarios measures those wanted on one rig, so that they share a gateway as real traffic would.
func (r *run) scenarios(ctx context.Context) (err error) {
	var wanted []*scenario
	for _, s := range scenarios() {
		if r.wants(s.name) {
			wanted = append(wanted, s)
		}
	}
	if wanted == nil {
		return nil
	}
	g, err := r.newRig("gateway", simArgs()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	for _, s := range wanted {
		if err := r.scenario(ctx, g, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (r *run) scenario(ctx context.Context, g *rig, s *scenario) error {
	if s.replays {
		if err := r.seed(ctx, g, s); err != nil {
			return fmt.Errorf("settle the keys that are asked for again: %w", err)
		}
	}
	var out loads
	into := [...]*result{&out.full, &out.alone, &out.paced}
	for i, m := range r.modes() {
		r.progress("%s %s", s.name, m.name)
		var err error
		if *into[i], err = r.alternate(ctx, g, s, m); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	r.report.scenario(r, s, out)
	return nil
}

// seedKeys is how many keys are settled for ReplayFile per second of a slice: more than can be replayed.
const seedKeys = 30_000

// seed sends every key once, as load on all connections, so that later ones are replays.
func (r *run) seed(ctx context.Context, g *rig, s *scenario) error {
	keys := uint64(1)
	if s.restarts {
		keys = warmUp*uint64(r.cfg.Connections) + uint64(r.slice.Seconds()*seedKeys) + 1
	}
	r.progress("%s: %d keys are settled", s.name, keys)
	l, err := openLine(host(g.serve.URL), r.cfg.Connections, s.request, &numbers{end: keys})
	if err != nil {
		return err
	}
	defer l.close()
	_, err = l.closed(ctx, len(l.conns), time.Hour)
	if s.restarts {
		s.numbers.end = keys
	}
	return err
}

// result is what the rounds of one mode showed, per contender.
type result map[string]*series

// series has one value per round.
type series struct {
	rate, p50, p99, first []float64 // requests/s; ns
	requests              int64
	cpu                   time.Duration // of the process in the middle, over all rounds
	busy                  time.Duration // the time over which it was counted
	rss                   int64         // the most that was seen after a slice
	unmeasured            bool          // cpu and rss are not known on this system
}

// alternate gives every contender its slice in turn, round by round: whatever else the machine does then meets
// them all. The round before the first only warms up.
func (r *run) alternate(ctx context.Context, g *rig, s *scenario, m mode) (result, error) {
	lines, out := map[string]*line{}, result{}
	defer func() {
		for _, l := range lines {
			l.close()
		}
	}()
	for round := -1; round < r.rounds; round++ {
		for _, c := range g.contenders() {
			if s.restarts && c.name == gateway {
				var err error
				if c, err = r.emptied(g, lines); err != nil {
					return nil, err
				}
			}
			l, err := lineTo(lines, c, s, r.clients(s))
			if err != nil {
				return nil, err
			}
			if s.restarts {
				if err := l.warmUp(ctx); err != nil {
					return nil, fmt.Errorf("%s: %w", c.name, err)
				}
			}
			if round < 0 {
				out[c.name] = &series{}
			}
			if err := out[c.name].slice(ctx, c, l, m, round >= 0); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	return out, nil
}

// clients is how many connections load s at full load.
func (r *run) clients(s *scenario) int { return cmp.Or(s.conns, r.cfg.Connections) }

// emptied is the gateway after a restart; what was connected to the one before is gone.
func (r *run) emptied(g *rig, lines map[string]*line) (contender, error) {
	if l := lines[gateway]; l != nil {
		l.close()
		delete(lines, gateway)
	}
	err := g.restart()
	if err != nil {
		return contender{}, err
	}
	all := g.contenders()
	return all[slices.IndexFunc(all, func(c contender) bool { return c.name == gateway })], nil
}

func lineTo(lines map[string]*line, c contender, s *scenario, conns int) (*line, error) {
	if l := lines[c.name]; l != nil {
		return l, nil
	}
	l, err := openLine(c.addr, conns, s.request, &s.numbers)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	l.replays = s.replays && c.name == gateway
	lines[c.name] = l
	return l, nil
}

// warmUp is the number of requests that each connection sends to a process that has just begun.
const warmUp = 5

// warmUp begins the numbers anew and sends the first ones.
func (l *line) warmUp(ctx context.Context) error {
	l.numbers.next.Store(0)
	all := l.numbers.end
	l.numbers.end = warmUp * uint64(len(l.conns))
	_, err := l.closed(ctx, len(l.conns), time.Minute)
	l.numbers.end = all
	l.numbers.next.Store(warmUp * uint64(len(l.conns))) // those that found no number left have counted too
	return err
}

// slice loads c once and, if it counts, keeps what it saw.
func (s *series) slice(ctx context.Context, c contender, l *line, m mode, counts bool) error {
	before, err := cpuOf(c.pid)
	s.unmeasured = c.pid == 0 || errors.Is(err, errors.ErrUnsupported)
	if err != nil && !s.unmeasured {
		return err
	}
	got, err := m.load(ctx, l)
	if err != nil || !counts {
		return err
	}
	s.requests += got.requests
	s.rate = append(s.rate, float64(got.requests)/got.elapsed.Seconds())
	if got.latency != nil && got.requests > 0 {
		s.p50 = append(s.p50, float64(got.latency.ValueAtPercentile(50)))
		s.p99 = append(s.p99, float64(got.latency.ValueAtPercentile(99)))
		s.first = append(s.first, float64(got.first.ValueAtPercentile(50)))
	}
	if s.unmeasured {
		return nil
	}
	after, err := cpuOf(c.pid)
	if err != nil {
		return err
	}
	rss, err := rssOf(c.pid)
	s.cpu += after - before
	s.busy += got.elapsed
	s.rss = max(s.rss, rss)
	return err
}

// median of the rounds; NaN of none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return unknown
	}
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// pairwise is the median over the rounds of f of two contenders' values in the same round.
func pairwise(a, b []float64, f func(a, b float64) float64) float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = f(a[i], b[i])
	}
	return median(out)
}

func quotient(a, b float64) float64   { return a / b }
func difference(a, b float64) float64 { return a - b }
