package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Call is one HTTP call as it was seen.
type Call struct {
	N        int64             `json:"n"`
	Op       string            `json:"op,omitempty"`
	Key      string            `json:"idempotency_key,omitempty"`
	Method   string            `json:"method"`
	Path     string            `json:"path"`
	Query    string            `json:"query,omitempty"`
	Wire     string            `json:"wire"`
	Endpoint string            `json:"endpoint,omitempty"`
	Model    string            `json:"model,omitempty"`
	Stream   bool              `json:"stream,omitempty"`
	Headers  map[string]string `json:"headers"` // credentials as Fingerprint
	Body     string            `json:"body,omitempty"`
	BodySize int64             `json:"body_bytes"` // bytes of the body that were read
	BodyHash string            `json:"body_sha256,omitempty"`

	Rule       string    `json:"rule,omitempty"`  // what decided: a rule's name, inline, default
	Fault      string    `json:"fault,omitempty"` // the step's fault name
	Executions []int64   `json:"executions,omitempty"`
	Effects    int       `json:"effects"`
	Suppressed int       `json:"suppressed,omitempty"` // deliveries answered from an earlier effect of the key
	Status     int       `json:"status,omitempty"`     // 0: no head was sent
	BytesOut   int64     `json:"bytes_out"`            // of the body
	EventsOut  int       `json:"events_out,omitempty"`
	End        string    `json:"end,omitempty"` // done, cut:HOW, peer_closed, aborted; "" while it runs
	Phase      Point     `json:"phase,omitempty"`
	Start      time.Time `json:"start"`
	Ended      time.Time `json:"ended,omitzero"`
	DurationMS int64     `json:"duration_ms"`

	epoch int // of the recorder when the call began
}

// Counts are the counters of one operation, or of all.
type Counts struct {
	Calls       int64    `json:"calls"`
	Effects     int64    `json:"effects"`
	Suppressed  int64    `json:"suppressed"`
	InFlight    int64    `json:"in_flight"`
	MaxInFlight int64    `json:"max_in_flight"`
	PeerClosed  int64    `json:"peer_closed"` // calls whose caller left before the end
	Cut         int64    `json:"cut"`         // calls that the script cut
	BytesIn     int64    `json:"bytes_in"`
	BytesOut    int64    `json:"bytes_out"`
	Keys        []string `json:"idempotency_keys,omitempty"` // distinct ones, in order of arrival; at most 1,000
}

// Stats is everything that is counted.
type Stats struct {
	Total Counts            `json:"total"`
	Ops   map[string]Counts `json:"ops"`
}

const (
	maxOps     = 100_000
	maxOpKeys  = 1_000
	maxLogBody = 16 << 10
)

// recorder keeps the call log and the counters.
type recorder struct {
	mu      sync.Mutex
	max     int
	next    int64
	epoch   int // resets so far; calls from before one no longer count
	calls   []*Call
	total   Counts
	ops     map[string]*Counts
	changed chan struct{} // closed at the next change; nil while nobody waits
}

func newRecorder(maxCalls int) *recorder {
	return &recorder{max: maxCalls, ops: map[string]*Counts{}}
}

func (rec *recorder) reset() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.epoch++
	rec.calls, rec.ops, rec.total = nil, map[string]*Counts{}, Counts{}
	rec.notify()
}

func (rec *recorder) notify() {
	if rec.changed != nil {
		close(rec.changed)
		rec.changed = nil
	}
}

// begin counts a call on arrival, before its body is read.
func (rec *recorder) begin(q *request, r *http.Request, now time.Time) *Call {
	c := &Call{Op: q.op, Key: q.key, Method: q.method, Path: q.path, Query: maskQuery(r), Wire: q.wire,
		Endpoint: q.endpoint, Model: q.model, Stream: q.stream, Headers: maskHeaders(r.Header), Start: now, Phase: AtArrival}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.next++
	c.N, c.epoch = rec.next, rec.epoch
	if len(rec.calls) >= rec.max {
		rec.calls = slices.Delete(rec.calls, 0, len(rec.calls)-rec.max+1)
	}
	rec.calls = append(rec.calls, c)
	rec.total.enter(c.Key)
	if c.Op != "" {
		rec.op(c.Op).enter(c.Key)
	}
	rec.notify()
	return c
}

// parsed files the call under its operation once the body is known.
func (rec *recorder) parsed(c *Call, q *request) {
	hash := sha256.Sum256(q.body)
	rec.update(func() {
		c.Model, c.Stream, c.BodySize = q.model, q.stream, int64(len(q.body))
		c.BodyHash = hex.EncodeToString(hash[:])
		c.Body = string(q.body[:min(len(q.body), maxLogBody)])
		c.Phase = AtRequest
		if c.Op == "" && q.op != "" {
			c.Op = q.op
			if c.epoch == rec.epoch {
				rec.op(c.Op).enter(c.Key)
			}
		}
		for _, n := range rec.of(c) {
			n.BytesIn += c.BodySize
		}
	})
}

// update changes a call or its counters and wakes those who wait.
func (rec *recorder) update(f func()) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	f()
	rec.notify()
}

// delivered counts an execution's effect.
func (rec *recorder) delivered(c *Call, execution int64, effect, suppressed bool) {
	rec.update(func() {
		c.Executions = append(c.Executions, execution)
		for _, n := range rec.of(c) {
			if effect {
				n.Effects++
			}
			if suppressed {
				n.Suppressed++
			}
		}
		if effect {
			c.Effects++
		}
		if suppressed {
			c.Suppressed++
		}
	})
}

func (rec *recorder) end(c *Call, end string, now time.Time) {
	rec.update(func() {
		c.End, c.Ended, c.DurationMS = end, now, now.Sub(c.Start).Milliseconds()
		for _, n := range rec.of(c) {
			n.leave(c)
		}
	})
}

// of is what a call counts for: all calls and its operation.
func (rec *recorder) of(c *Call) []*Counts {
	switch {
	case c.epoch != rec.epoch:
		return nil
	case c.Op == "":
		return []*Counts{&rec.total}
	}
	return []*Counts{&rec.total, rec.op(c.Op)}
}

// op is called with the lock held. Operations beyond the bound share one row.
func (rec *recorder) op(name string) *Counts {
	n := rec.ops[name]
	if n == nil {
		if len(rec.ops) >= maxOps {
			name = "(more)"
		}
		if n = rec.ops[name]; n == nil {
			n = &Counts{}
			rec.ops[name] = n
		}
	}
	return n
}

func (n *Counts) enter(key string) {
	n.Calls++
	n.InFlight++
	n.MaxInFlight = max(n.MaxInFlight, n.InFlight)
	if key != "" && len(n.Keys) < maxOpKeys && !slices.Contains(n.Keys, key) {
		n.Keys = append(n.Keys, key)
	}
}

func (n *Counts) leave(c *Call) {
	n.InFlight--
	n.BytesOut += c.BytesOut
	switch {
	case c.End == endPeer:
		n.PeerClosed++
	case strings.HasPrefix(c.End, "cut:"):
		n.Cut++
	}
}

func (rec *recorder) stats() Stats {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	s := Stats{Total: rec.total.copy(), Ops: make(map[string]Counts, len(rec.ops))}
	for name, n := range rec.ops {
		s.Ops[name] = n.copy()
	}
	return s
}

func (rec *recorder) counts(op string) Counts {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if op == "" {
		return rec.total.copy()
	}
	if n := rec.ops[op]; n != nil {
		return n.copy()
	}
	return Counts{}
}

func (n Counts) copy() Counts {
	n.Keys = slices.Clone(n.Keys)
	return n
}

func (rec *recorder) list(op string, after int64) []Call {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	out := []Call{}
	for _, c := range rec.calls {
		if c.N > after && (op == "" || op == c.Op) {
			copied := *c
			copied.Executions = slices.Clone(c.Executions)
			out = append(out, copied)
		}
	}
	return out
}

// wait blocks until ok holds for the counters of op.
func (rec *recorder) wait(ctx context.Context, op string, ok func(Counts) bool) error {
	for {
		rec.mu.Lock()
		if rec.changed == nil {
			rec.changed = make(chan struct{})
		}
		changed := rec.changed
		rec.mu.Unlock()
		if ok(rec.counts(op)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// Fingerprint is how the call log shows a credential: enough to tell which of two it was.
func Fingerprint(credential string) string {
	sum := sha256.Sum256([]byte(credential))
	return "sha256:" + hex.EncodeToString(sum[:6])
}

func maskHeaders(h http.Header) map[string]string {
	out := make(map[string]string, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		v := strings.Join(h[name], ", ")
		switch name {
		case "Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key", "Cookie", "Proxy-Authorization":
			v = Fingerprint(v)
		}
		out[name] = v
	}
	return out
}

func maskQuery(r *http.Request) string {
	query := r.URL.Query()
	masked := false
	for _, name := range [...]string{"key", "access_token"} {
		if v := query.Get(name); v != "" && !strings.HasPrefix(r.URL.Path, "/tools/") {
			query.Set(name, Fingerprint(v))
			masked = true
		}
	}
	if !masked {
		return r.URL.RawQuery
	}
	return query.Encode()
}
