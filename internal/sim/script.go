package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
)

// Script says how calls are answered: the first rule that matches and has a step left decides, else Default.
type Script struct {
	Seed    uint64 `json:"seed,omitempty"` // of Rule.Probability
	Rules   []Rule `json:"rules,omitempty"`
	Default Step   `json:"default,omitzero"` // its sizes and times also hold where a rule's step names none
}

// Rule gives the calls it matches its steps, one after the other.
type Rule struct {
	Name        string  `json:"name,omitempty"`
	Match       Match   `json:"match,omitzero"`
	Steps       []Step  `json:"steps"`
	Times       int     `json:"times,omitempty"`       // rounds through Steps; default 1, -1 for ever
	Then        *Step   `json:"then,omitempty"`        // after the rounds; default: the rule no longer matches
	PerOp       bool    `json:"per_op,omitempty"`      // each operation begins with the first step
	Probability float64 `json:"probability,omitempty"` // of taking part in a call; 0 and 1 are always
}

// Match names calls. Empty fields match everything; Path and Model are patterns as in path.Match, where a pattern
// that ends in ** matches every path with that beginning.
type Match struct {
	Method   string            `json:"method,omitempty"`
	Path     string            `json:"path,omitempty"`
	Wire     string            `json:"wire,omitempty"`     // openai, anthropic, gemini, tool
	Endpoint string            `json:"endpoint,omitempty"` // chat.completions, responses, messages, …
	Model    string            `json:"model,omitempty"`
	Header   map[string]string `json:"header,omitempty"` // a substring of the value
	Body     string            `json:"body,omitempty"`   // a substring
	Op       string            `json:"op,omitempty"`
	Key      string            `json:"key,omitempty"` // Idempotency-Key; * for any
	Stream   *bool             `json:"stream,omitempty"`
}

// ParseScript reads a script in JSON and refuses fields that do not exist. Names of recordings are checked when a
// Server takes the script.
func ParseScript(b []byte) (Script, error) {
	var s Script
	if err := strict(b, &s); err != nil {
		return Script{}, badScript(err)
	}
	return s, nil
}

func (s *Script) check(c *corpus) error {
	for i := range s.Rules {
		if err := s.Rules[i].check(c); err != nil {
			return fmt.Errorf("%s: %w", s.Rules[i].label(i), err)
		}
	}
	if err := s.Default.check(c); err != nil {
		return fmt.Errorf("default: %w", err)
	}
	if s.Default.early() {
		return fmt.Errorf("default: %w: %s, and so before any rule is chosen; write a rule with times: -1", ErrScript, arrivesFirst)
	}
	return nil
}

func (r *Rule) check(c *corpus) error {
	if len(r.Steps) == 0 && r.Then == nil {
		return fmt.Errorf("%w: no steps", ErrScript)
	}
	for _, pattern := range []string{r.Match.Path, r.Match.Model} {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("%w: pattern %q: %w", ErrScript, pattern, err)
		}
	}
	for i := range r.Steps {
		if err := r.Steps[i].check(c); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if r.Steps[i].early() && r.Match.needsBody() {
			return fmt.Errorf("step %d: %w: %s; match by path, header or method", i, ErrScript, arrivesFirst)
		}
	}
	switch {
	case r.Then == nil:
		return nil
	case r.Then.early() && r.Match.needsBody():
		return fmt.Errorf("then: %w: %s; match by path, header or method", ErrScript, arrivesFirst)
	}
	return r.Then.check(c)
}

// early says that one of the rule's steps is played before the body is read.
func (r *Rule) early() bool {
	return slices.ContainsFunc(r.Steps, Step.early) || r.Then != nil && r.Then.early()
}

func (st Step) early() bool { return st.Cut != nil && st.Cut.At == AtArrival }

// arrivesFirst is why a cut at arrival cannot depend on what the body says.
const arrivesFirst = "a cut at arrival happens before the body is read"

func (m *Match) needsBody() bool { return m.Body != "" || m.Model != "" || m.Stream != nil }

func (m *Match) head(q *request) bool {
	for name, want := range m.Header {
		if !strings.Contains(strings.Join(q.header.Values(name), ", "), want) {
			return false
		}
	}
	return (m.Method == "" || strings.EqualFold(m.Method, q.method)) &&
		glob(m.Path, q.path) &&
		(m.Wire == "" || m.Wire == q.wire) &&
		(m.Endpoint == "" || m.Endpoint == q.endpoint) &&
		(m.Key == "" || m.Key == q.key || m.Key == "*" && q.key != "")
}

func (m *Match) whole(q *request) bool {
	return m.head(q) && glob(m.Model, q.model) &&
		(m.Op == "" || m.Op == q.op) &&
		(m.Stream == nil || *m.Stream == q.stream) &&
		(m.Body == "" || strings.Contains(string(q.body), m.Body))
}

func glob(pattern, s string) bool {
	if pattern == "" {
		return true
	}
	if prefix, ok := strings.CutSuffix(pattern, "**"); ok {
		return strings.HasPrefix(s, prefix)
	}
	ok, _ := path.Match(pattern, s) // checked when the script was put
	return ok
}

// maxCounters bounds the per-operation and per-marker counters of an engine; a test suite has far fewer operations.
const maxCounters = 100_000

// engine hands out the steps of a script.
type engine struct {
	mu     sync.Mutex
	script Script
	rng    *rand.Rand
	used   map[string]int // steps taken, by rule or marker and operation
}

func newEngine(s Script) *engine {
	e := &engine{}
	e.set(s)
	return e
}

func (e *engine) set(s Script) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.Rules = slices.Clone(s.Rules)
	e.script, e.used = s, map[string]int{}
	e.rng = rand.New(rand.NewPCG(s.Seed, s.Seed^0x9e3779b97f4a7c15))
}

func (e *engine) add(rules []Rule) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.script.Rules = append(slices.Clone(e.script.Rules), rules...)
}

func (e *engine) get() Script {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.script
	s.Rules = slices.Clone(s.Rules)
	return s
}

// early returns the step of a rule that cuts a call before its body is read.
func (e *engine) early(q *request) (Step, string, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.script.Rules {
		r := &e.script.Rules[i]
		if !r.early() || !r.Match.head(q) || r.Match.Op != "" && r.Match.Op != q.op {
			continue
		}
		// The operation is not known yet, so such a rule counts all its calls together. A step that needs the
		// body is left for choose.
		id := r.id(i, "")
		if st, ok := r.at(e.used[id]); ok && st.early() && e.roll(r) {
			e.used[id]++
			return st, r.label(i), true
		}
	}
	return Step{}, "", false
}

// choose takes the step for a call whose body was read: from the request itself, from a rule, else the default.
func (e *engine) choose(q *request) (Step, string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if q.inline != nil {
		id := "inline\x00" + q.inlineText + "\x00" + q.op
		if st, ok := q.inline.at(e.used[id]); ok {
			e.count(id)
			return st.over(e.script.Default), "inline"
		}
		return e.script.Default, "default"
	}
	for i := range e.script.Rules {
		r := &e.script.Rules[i]
		if !r.Match.whole(q) {
			continue
		}
		op := ""
		if r.PerOp {
			op = q.op
		}
		id := r.id(i, op)
		st, ok := r.at(e.used[id])
		if ok && st.early() && r.Match.Op != "" && q.header.Get("Sim-Op") == "" {
			return st, r.label(i) // too late, which the call is told
		}
		if !ok || st.early() || !e.roll(r) {
			continue
		}
		e.count(id)
		return st.over(e.script.Default), r.label(i)
	}
	return e.script.Default, "default"
}

func (e *engine) count(id string) {
	if len(e.used) < maxCounters {
		e.used[id]++
		return
	}
	if _, seen := e.used[id]; seen {
		e.used[id]++
	}
}

func (e *engine) roll(r *Rule) bool {
	return r.Probability <= 0 || r.Probability >= 1 || e.rng.Float64() < r.Probability
}

func (r *Rule) id(i int, op string) string { return fmt.Sprintf("rule %d\x00%s", i, op) }

func (r *Rule) label(i int) string {
	if r.Name != "" {
		return r.Name
	}
	return fmt.Sprintf("rule %d", i)
}

// at is the n-th step that the rule gives.
func (r *Rule) at(n int) (Step, bool) {
	rounds := max(r.Times, 1)
	if k := len(r.Steps); k > 0 && (r.Times < 0 || n < rounds*k) {
		return r.Steps[n%k], true
	}
	if r.Then != nil {
		return *r.Then, true
	}
	return Step{}, false
}

// headers applies a step's extra headers.
func (st *Step) headers(h http.Header) {
	for _, name := range slices.Sorted(maps.Keys(st.Headers)) {
		if v := st.Headers[name]; v != "" {
			h.Set(name, v)
		} else {
			h.Del(name)
		}
	}
}
