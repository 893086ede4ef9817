package sim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// maxScript bounds a script that is put over HTTP.
const maxScript = 8 << 20

// SetScript replaces the script and starts its rules anew.
func (s *Server) SetScript(script Script) error {
	if err := errors.Join(s.load(), script.check(s.corpus)); err != nil {
		return err
	}
	s.script.set(script)
	return nil
}

// AddRules appends rules; the ones before them still come first.
func (s *Server) AddRules(rules ...Rule) error {
	script := Script{Rules: rules}
	if err := errors.Join(s.load(), script.check(s.corpus)); err != nil {
		return err
	}
	s.script.add(rules)
	return nil
}

// Stats reads all counters.
func (s *Server) Stats() Stats { return s.record.stats() }

// Counts reads the counters of one operation, or of all calls for "".
func (s *Server) Counts(op string) Counts { return s.record.counts(op) }

// Calls reads the call log, of one operation or of all.
func (s *Server) Calls(op string) []Call { return s.record.list(op, 0) }

// Effects reads the effects since the last reset, of one operation or of all.
func (s *Server) Effects(op string) []Effect { return s.effects.all(op) }

// Release lets the calls go that wait at a gate now (Step.Hold) and returns how many there were.
func (s *Server) Release(gate string) int {
	n := s.gates.release(gate)
	s.record.update(func() {}) // who waits for a held call looks again
	return n
}

// Wait blocks until ok holds for the counters of op ("" for all calls), so that a test needs no sleep.
func (s *Server) Wait(ctx context.Context, op string, ok func(Counts) bool) error {
	return s.record.wait(ctx, op, ok)
}

// WaitHeld blocks until n calls wait at a gate.
func (s *Server) WaitHeld(ctx context.Context, gate string, n int) error {
	return s.record.wait(ctx, "", func(Counts) bool { return s.gates.waiting()[gate] >= n })
}

func (s *Server) controlMux() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, f func(*http.Request) (any, error)) {
		method, path, _ := cutSpace(pattern)
		mux.HandleFunc(method+" "+ControlPrefix+path, func(w http.ResponseWriter, r *http.Request) { answerControl(w, r, f) })
	}
	handle("POST reset", func(*http.Request) (any, error) { s.Reset(); return doc{"reset", true}, nil })
	handle("GET script", func(*http.Request) (any, error) { return s.script.get(), nil })
	handle("PUT script", s.putScript)
	handle("DELETE script", func(*http.Request) (any, error) { s.script.set(Script{}); return Script{}, nil })
	handle("POST rules", s.postRules)
	handle("GET stats", func(*http.Request) (any, error) { return s.Stats(), nil })
	handle("GET ops/{op}", func(r *http.Request) (any, error) { return s.Counts(r.PathValue("op")), nil })
	handle("GET calls", s.getCalls)
	handle("GET effects", func(r *http.Request) (any, error) { return s.Effects(r.URL.Query().Get("op")), nil })
	handle("GET wait", s.getWait)
	handle("GET gates", func(*http.Request) (any, error) { return s.gates.waiting(), nil })
	handle("POST gates/{gate}", func(r *http.Request) (any, error) {
		return doc{"released", s.Release(r.PathValue("gate"))}, nil
	})
	handle("GET faults", func(*http.Request) (any, error) { return faultNames(), nil })
	handle("GET streams", func(*http.Request) (any, error) { return values(s.corpus.streams), nil })
	handle("GET signals", func(*http.Request) (any, error) { return values(s.corpus.signals), nil })
	return mux
}

func cutSpace(s string) (before, after string, ok bool) {
	for i := range s {
		if s[i] == ' ' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

func values[V any](m map[string]V) []V {
	out := make([]V, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[name])
	}
	return out
}

func answerControl(w http.ResponseWriter, r *http.Request, f func(*http.Request) (any, error)) {
	v, err := f(r)
	status := http.StatusOK
	if err != nil {
		status, v = http.StatusBadRequest, doc{"error", err.Error()}
		if errors.Is(err, context.DeadlineExceeded) {
			status = http.StatusRequestTimeout
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(appendJSON(nil, v), '\n')) // a caller that left needs no answer
}

// putScript replaces the script as a whole: either all of it is good or nothing changes.
func (s *Server) putScript(r *http.Request) (any, error) {
	b, err := io.ReadAll(io.LimitReader(r.Body, maxScript))
	if err != nil {
		return nil, err
	}
	script, err := ParseScript(b)
	if err != nil {
		return nil, err
	}
	if err := s.SetScript(script); err != nil {
		return nil, err
	}
	return script, nil
}

// postRules appends one rule or a list of them.
func (s *Server) postRules(r *http.Request) (any, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxScript))
	if err != nil {
		return nil, err
	}
	if body = bytes.TrimSpace(body); !bytes.HasPrefix(body, []byte("[")) {
		body = slices.Concat([]byte("["), body, []byte("]"))
	}
	var rules []Rule
	if err := strict(body, &rules); err != nil {
		return nil, badScript(err)
	}
	if err := s.AddRules(rules...); err != nil {
		return nil, err
	}
	return s.script.get(), nil
}

func (s *Server) getCalls(r *http.Request) (any, error) {
	query := r.URL.Query()
	after := int64(0)
	if v := query.Get("after"); v != "" {
		var err error
		if after, err = strconv.ParseInt(v, 10, 64); err != nil {
			return nil, err
		}
	}
	return s.record.list(query.Get("op"), after), nil
}

// getWait answers when the counters of op have reached what the query asks for.
func (s *Server) getWait(r *http.Request) (any, error) {
	query := r.URL.Query()
	timeout := 10 * time.Second
	want := map[string]int64{}
	for _, name := range [...]string{"calls", "effects", "ended", "peer_closed", "held", "timeout_ms"} {
		v := query.Get(name)
		if v == "" {
			continue
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return nil, err
		}
		want[name] = n
	}
	if n, ok := want["timeout_ms"]; ok {
		timeout = time.Duration(n) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	op := query.Get("op")
	err := s.Wait(ctx, op, func(c Counts) bool {
		return c.Calls >= want["calls"] && c.Effects >= want["effects"] && c.Calls-c.InFlight >= want["ended"] &&
			c.PeerClosed >= want["peer_closed"] && int64(s.gates.waiting()[query.Get("gate")]) >= want["held"]
	})
	if err != nil {
		return nil, err
	}
	return s.Counts(op), nil
}
