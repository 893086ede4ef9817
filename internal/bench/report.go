package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"time"
)

// Value is a measured quantity; what could not be measured is NaN, and null in JSON.
type Value float64

var unknown = math.NaN()

// MarshalJSON writes null for NaN, which JSON lacks.
func (v Value) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(v), 'g', 6, 64), nil
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (v *Value) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*v = Value(unknown)
		return nil
	}
	return json.Unmarshal(b, (*float64)(v))
}

// Figure is one quantity, beside its reference of the same run.
type Figure struct {
	Part string `json:"part"` // one of Names
	Name string `json:"figure"`
	Unit string `json:"unit"`
	// Direct is the same without anything in the middle.
	Direct Value `json:"direct"`
	// Reference is what ReferenceName did: ReverseProxy, or the raw synced append.
	Reference     Value  `json:"reference"`
	ReferenceName string `json:"reference_name"`
	Holdfast      Value  `json:"holdfast"`
	Ratio         Value  `json:"ratio"` // Holdfast to Reference, the median over the rounds where there are some
	// Target is what was promised, empty where nothing was; Met says whether this run kept it, null where it
	// could not be told.
	Target string `json:"target,omitempty"`
	Met    *bool  `json:"met"`
	Note   string `json:"note,omitempty"`
}

// Report is a run's outcome.
type Report struct {
	Go          string    `json:"go"`
	Platform    string    `json:"platform"`
	Cores       int       `json:"cores"`
	Pinned      bool      `json:"pinned"` // the process in the middle had a core of its own
	Began       time.Time `json:"began"`
	DurationMS  int64     `json:"duration_ms"`
	Connections int       `json:"connections"`
	Figures     []Figure  `json:"figures"`

	titles map[string]string
}

func newReport(c Config) *Report {
	return &Report{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Began: time.Now().UTC(),
		DurationMS: c.Duration.Milliseconds(), Connections: c.Connections, titles: map[string]string{}}
}

// add completes f and keeps it.
func (r *Report) add(f Figure) {
	if f.Ratio == 0 {
		f.Ratio = f.Holdfast / f.Reference
	}
	if f.Reference <= 0 || f.Holdfast <= 0 {
		f.Ratio = Value(unknown) // what was added is less than what the machine's noise took
	}
	r.Figures = append(r.Figures, f)
}

// atLeast and atMost make v's target; a v that is unknown neither meets nor misses it.
func (f Figure) atLeast(v Value, bound float64, text string) Figure {
	return f.target(text, v, float64(v) >= bound)
}

func (f Figure) atMost(v Value, bound float64, text string) Figure {
	return f.target(text, v, float64(v) <= bound)
}

func (f Figure) target(text string, v Value, met bool) Figure {
	if text == "" {
		return f
	}
	f.Target = text
	if !math.IsNaN(float64(v)) {
		f.Met = &met
	}
	return f
}

// Bounds that the targets name.
const (
	addedAlone    = 50 * time.Microsecond // beyond the reference and the commits, on one connection
	addedRate     = 100 * time.Microsecond
	addedFirst    = 100 * time.Microsecond
	memoryMB      = 60
	bulkCPU       = 2.0
	idleMB        = 600
	idleAt        = 10_000 // streams
	commitRaw     = 1.5
	intentsPerSec = 30_000
	historyRate   = 0.8
	listing       = time.Millisecond
	busyEnough    = 0.85
)

// scenario turns what the loads showed into figures.
func (r *Report) scenario(run *run, s *scenario, l loads) {
	r.titles[s.name] = s.title
	r.throughput(run, s, l.full)
	r.add(cpuFigure(s.name, "CPU per request", l.full))
	r.latencies(run, s, l)
	r.add(memoryFigure(s.name, fmt.Sprintf("memory, %d connections", run.clients(s)), l.full, memoryMB, "≤ 60 MB"))
}

// latencies are what each contender adds to a direct call.
func (r *Report) latencies(run *run, s *scenario, l loads) {
	if l.alone == nil {
		return
	}
	alone := func(what string) string { return "added " + what + ", one connection" }
	paced := func(what string) string { return fmt.Sprintf("added %s, %d/s", what, run.cfg.Rate) }
	p50 := func(s *series) []float64 { return s.p50 }
	p99 := func(s *series) []float64 { return s.p99 }
	r.add(s.promised(added(s.name, alone("p50"), l.alone, p50), time.Duration(s.commits)*run.commit+addedAlone,
		fmt.Sprintf("≤ reference + commit (%d µs) + 50 µs", run.commit.Microseconds())))
	r.add(added(s.name, alone("p99"), l.alone, p99))
	r.add(s.promised(added(s.name, paced("p50"), l.paced, p50), addedRate, "≤ reference + 100 µs"))
	r.add(added(s.name, paced("p99"), l.paced, p99))
	if s.stream {
		first := added(s.name, "added first chunk p50", l.alone, func(s *series) []float64 { return s.first })
		r.add(s.promised(first, addedFirst, "≤ reference + 100 µs"))
	}
}

func added(part, name string, from result, of func(*series) []float64) Figure {
	d, p, g := of(from[direct]), of(from[reverseProxy]), of(from[gateway])
	return Figure{Part: part, Name: name, Unit: "µs", ReferenceName: reverseProxy, Direct: micros(median(d)),
		Reference: micros(pairwise(p, d, difference)), Holdfast: micros(pairwise(g, d, difference))}
}

// promised holds what the gateway adds beyond the reference against its target, if the scenario has one.
func (s *scenario) promised(f Figure, beyond time.Duration, text string) Figure {
	if s.commits < 0 {
		return f
	}
	return f.atMost(f.Holdfast-f.Reference, float64(beyond)/1e3, text)
}

// throughput judges by the rates, or by processor time where the load could not keep the gateway's core busy: the
// rate is then the load generator's.
func (r *Report) throughput(run *run, s *scenario, full result) {
	d, p, g := full[direct], full[reverseProxy], full[gateway]
	f := Figure{Part: s.name, Name: fmt.Sprintf("requests/s, %d connections", run.clients(s)), Unit: "/s", ReferenceName: reverseProxy,
		Direct: Value(median(d.rate)), Reference: Value(median(p.rate)), Holdfast: Value(median(g.rate)),
		Ratio: Value(pairwise(g.rate, p.rate, quotient))}
	judged := f.Ratio
	if byCPU := Value(p.perRequest() / g.perRequest()); r.Pinned && g.load() < busyEnough && byCPU > judged {
		f.Note = fmt.Sprintf("its core was busy for %.0f %% only; by processor time %.2f", 100*g.load(), float64(byCPU))
		judged = byCPU
	}
	if s.rate > 0 {
		f = f.atLeast(judged, s.rate, fmt.Sprintf("≥ %.2f", s.rate))
	}
	r.add(f)
}

// perRequest is processor time, in µs.
func (s *series) perRequest() float64 {
	if s.unmeasured || s.requests == 0 {
		return unknown
	}
	return float64(s.cpu) / 1e3 / float64(s.requests)
}

// load is how busy the process kept one core.
func (s *series) load() float64 { return float64(s.cpu) / float64(s.busy) }

func (s *series) memory() Value {
	if s.unmeasured {
		return Value(unknown)
	}
	return megabytes(s.rss)
}

func cpuFigure(part, name string, full result) Figure {
	return Figure{Part: part, Name: name, Unit: "µs", ReferenceName: reverseProxy, Direct: Value(unknown),
		Reference: Value(full[reverseProxy].perRequest()), Holdfast: Value(full[gateway].perRequest())}
}

func memoryFigure(part, name string, full result, bound float64, text string) Figure {
	f := Figure{Part: part, Name: name, Unit: "MB", ReferenceName: reverseProxy, Direct: Value(unknown),
		Reference: full[reverseProxy].memory(), Holdfast: full[gateway].memory()}
	return f.atMost(f.Holdfast, bound, text)
}

func micros(ns float64) Value     { return Value(ns / 1e3) }
func megabytes(bytes int64) Value { return Value(float64(bytes) / 1e6) }
