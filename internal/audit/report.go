package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// Verdict is what the audit says of a tool, or of one of its probes.
type Verdict string

// The verdicts, the worst first. CannotTell is no finding: it says what is missing.
const (
	WrongRecord     Verdict = "wrong record"     // the repeat touched, or named, another record than the first call
	DuplicateEffect Verdict = "duplicate effect" // the repeat had an effect of its own
	LostWrite       Verdict = "lost write"       // a call that was answered well has left nothing
	ErrorOnRepeat   Verdict = "error on repeat"  // the effect took place once, and a caller is told that it failed
	AnswerDiffers   Verdict = "answer differs"   // one effect, and two answers that do not say the same
	CannotTell      Verdict = "cannot tell"
	Safe            Verdict = "safe"
)

var severity = []Verdict{WrongRecord, DuplicateEffect, LostWrite, ErrorOnRepeat, AnswerDiffers, CannotTell, Safe}

// Bad reports whether a verdict is a finding.
func (v Verdict) Bad() bool { return slices.Index(severity, v) < slices.Index(severity, CannotTell) }

func worse(a, b Verdict) bool { return slices.Index(severity, a) < slices.Index(severity, b) }

// The probes.
const (
	InSequence = "twice in sequence"
	AtOnce     = "twice at once"
	LostReply  = "reply lost, then again"
	GivenUp    = "given up while it ran, then again"
	LateRepeat = "late repeat"
	ManyAtOnce = "four different calls at once"
	WriteAgain = "one value, another, the first again"
	Unhurried  = "twice, with a long wait after each"
)

// What the audit does beside probes, for the ends of a server that come then.
const (
	idleWatch = "before the first write"
	firstCall = "first calls, for arguments that work"
)

// Finding is what one probe showed.
type Finding struct {
	Probe    string   `json:"probe"`
	Verdict  Verdict  `json:"verdict"`
	Says     string   `json:"says"`               // in a sentence
	Evidence []string `json:"evidence,omitempty"` // what the reads and the answers showed
	Args     Args     `json:"arguments,omitempty"`

	undone bool // the verdict rests on something that is gone
}

// ToolReport is the outcome for one write tool.
type ToolReport struct {
	Name     string    `json:"name"`
	Verdict  Verdict   `json:"verdict"`
	Also     []Verdict `json:"also,omitempty"` // lesser findings of other probes
	Says     string    `json:"says"`
	Hints    Hints     `json:"hints"`
	Notes    []string  `json:"notes,omitempty"`
	Findings []Finding `json:"findings"` // one for each probe that was made
	Calls    int       `json:"calls"`
}

// Report is the outcome of an audit.
type Report struct {
	Server  string       `json:"server"`
	Target  string       `json:"target"`
	Started time.Time    `json:"started"`
	Seconds float64      `json:"seconds"`
	Late    float64      `json:"late_seconds"`      // at least, before a late repeat: what is deduplicated for longer is not told from what always is
	Readers []string     `json:"read_by"`           // the reads that states were compared by
	Moving  []string     `json:"changes_by_itself"` // parts of them that differ although nobody writes, and were left out
	Tools   []ToolReport `json:"tools"`
	Through *Report      `json:"through_proxy,omitempty"` // of the same server behind the proxy
	Ended   []Ended      `json:"server_ended,omitempty"`  // times that the server ended by itself, and was started again
	Left    []string     `json:"left_behind"`             // what the audit's writes left on the server, as far as reads show it
}

// Mended lists the tools that have a finding here and none in Through; Still those that have one there too.
func (r *Report) Mended() (mended, still []string) {
	if r.Through == nil {
		return nil, nil
	}
	for _, t := range r.Tools {
		after, ok := r.Through.find(t.Name)
		switch {
		case !ok || !t.Verdict.Bad():
		case after.Verdict.Bad():
			still = append(still, t.Name)
		default:
			mended = append(mended, t.Name)
		}
	}
	return mended, still
}

func (r *Report) find(tool string) (ToolReport, bool) {
	i := slices.IndexFunc(r.Tools, func(t ToolReport) bool { return t.Name == tool })
	if i < 0 {
		return ToolReport{}, false
	}
	return r.Tools[i], true
}

// Failed reports whether any tool has a finding.
func (r *Report) Failed() bool {
	return slices.ContainsFunc(r.Tools, func(t ToolReport) bool { return t.Verdict.Bad() })
}

// nothing says why nothing came of the audit of a server with so many tools; nil: something did.
func (r *Report) nothing(tools int) error {
	switch {
	case len(r.Tools) == 0 && tools == 0:
		return fmt.Errorf("%w: the server lists no tool", ErrNothing)
	case len(r.Tools) == 0:
		return fmt.Errorf("%w: the server's %s all say readOnlyHint: true, and none was seen to write", ErrNothing, plural(tools, "tool"))
	case r.Count(CannotTell) == len(r.Tools):
		return fmt.Errorf("%w: no tool could be judged; the report says of each what is missing", ErrNothing)
	}
	return nil
}

// Count is how many tools have a verdict.
func (r *Report) Count(v Verdict) int {
	n := 0
	for _, t := range r.Tools {
		if t.Verdict == v {
			n++
		}
	}
	return n
}

// conclude makes the report of a tool out of its probes.
func (s *subject) conclude() ToolReport {
	t := ToolReport{Name: s.t.name, Verdict: CannotTell, Says: "no probe came to an end", Hints: s.t.hints, Notes: s.notes, Findings: s.findings, Calls: s.calls}
	conclusive := slices.ContainsFunc(s.findings, func(f Finding) bool { return f.Verdict != CannotTell })
	first := true
	for _, f := range s.findings {
		if conclusive && f.Verdict == CannotTell {
			continue // another probe could tell
		}
		if first || worse(f.Verdict, t.Verdict) {
			t.Verdict, t.Says, first = f.Verdict, f.Says, false
		}
	}
	if t.Verdict == Safe && !s.judgedLate() && !mutant.On("audit-safe-without-late") {
		t.Verdict, t.Says = CannotTell, "a repeat soon after changes nothing, and no late one could be judged; "+s.lateSays()
	}
	for _, v := range severity {
		if v.Bad() && v != t.Verdict && s.bad(v) {
			t.Also = append(t.Also, v)
		}
	}
	if t.Hints.Idempotent == HintTrue && (t.Verdict == DuplicateEffect || t.Verdict == WrongRecord) {
		t.Notes = append(t.Notes, "idempotentHint: true is wrong")
	}
	if s.t.lies {
		t.Notes = append(t.Notes, "readOnlyHint: true is wrong: other reads show that it writes")
	}
	if t.Hints.ReadOnly == HintAbsent {
		t.Notes = append(t.Notes, "readOnlyHint is absent, which means that it writes")
	}
	if t.Findings == nil {
		t.Findings = []Finding{}
	}
	return t
}

// judgedLate reports whether the late repeat was made and came to a verdict: without it a deduplication that is soon
// forgotten looks like one that holds.
func (s *subject) judgedLate() bool {
	return slices.ContainsFunc(s.findings, func(f Finding) bool { return f.Probe == LateRepeat && f.Verdict != CannotTell })
}

func (s *subject) lateSays() string {
	for _, f := range s.findings {
		if f.Probe == LateRepeat {
			return f.Says
		}
	}
	return "audit the tool alone with --tool, or give arguments with --args"
}

// unseen is what is missing for a tool whose effect nothing shows.
func unseen(readers int) string {
	if readers == 0 {
		return "the server has no read tool and no resource that can be called; nothing shows what a call does"
	}
	return "no read tool and no resource shows an effect of it; add one that does, or give arguments that have an effect with --args"
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strings.TrimSpace(strings.Join([]string{itoa(n), what + "s"}, " "))
}
