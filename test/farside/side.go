// Package farside stands outside of the gateways under test: a provider in a process of its own whose log of effects is synced
// before it answers anybody, the clients that ask, and what that log, the clients and the store must agree on. test/crash kills
// the one gateway of a store, test/replicas several on one.
package farside

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/proc"
)

// Side is the far side of one test, which ends with it, and a client.
type Side struct {
	T      *testing.T
	Dir    string // of the test's files
	Sim    *proc.Process
	Client *http.Client
	// Away says that the store may be away where a gateway lives: a failure that a client was told of may not be on record then, and its
	// intent waits for whoever asks again.
	Away bool
}

const effectsFile = "effects.jsonl"

// New starts a far side; binary is the holdfast program.
func New(t *testing.T, binary string) *Side {
	t.Helper()
	s := &Side{T: t, Dir: t.TempDir(), Client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	sim, err := proc.Sim(proc.Command{Exe: binary, Args: []string{"--effects", s.Path(effectsFile)}})
	if err != nil {
		t.Fatal(err)
	}
	s.Sim = sim
	t.Cleanup(func() {
		s.Client.CloseIdleConnections()
		if err := sim.Stop(10 * time.Second); err != nil {
			t.Errorf("the far side did not end well: %v", err)
		}
	})
	return s
}

// Path is a file of the test's.
func (s *Side) Path(name string) string { return filepath.Join(s.Dir, name) }

// Send is one request of a client. The error says that no whole answer came.
func (s *Side) Send(base, path string, body []byte, header map[string]string) (*Answer, error) {
	req, err := http.NewRequestWithContext(s.T.Context(), http.MethodPost, base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := s.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a := &Answer{Status: resp.StatusCode, Header: resp.Header}
	if a.Body, err = io.ReadAll(resp.Body); err != nil {
		return nil, err
	}
	a.Pending = resp.Header.Get("Holdfast-Stored") != "" || resp.Trailer.Get("Holdfast-Stored") != ""
	return a, nil
}

// Answer is one whole answer.
type Answer struct {
	Status  int
	Header  http.Header
	Body    []byte
	Pending bool // not yet durable, says the gateway
}

// Code is the gateway's own error code.
func (a *Answer) Code() string { return a.Header.Get("Holdfast-Error") }

// Intent is the id of the operation that answered.
func (a *Answer) Intent() string { return a.Header.Get("Holdfast-Intent") }

// Replayed says that nothing was executed for this answer.
func (a *Answer) Replayed() bool { return a.Header.Get("Idempotency-Replayed") == "true" }

// String is for complaints.
func (a *Answer) String() string {
	if a == nil {
		return "no answer"
	}
	return fmt.Sprintf("%d %s intent %s: %.200s", a.Status, a.Code(), a.Intent(), a.Body)
}

// GetJSON reads a control or admin API.
func (s *Side) GetJSON(url string, into any) {
	s.T.Helper()
	resp, err := s.Client.Get(url)
	if err != nil {
		s.T.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode != http.StatusOK {
		s.T.Fatalf("GET %s: %d %v", url, resp.StatusCode, err)
	}
}

// Control gives an order to a control or admin API.
func (s *Side) Control(method, url, body string) {
	s.T.Helper()
	req, err := http.NewRequestWithContext(s.T.Context(), method, url, strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	resp, err := s.Client.Do(req)
	if err != nil {
		s.T.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		s.T.Fatalf("%s %s: %s", method, url, resp.Status)
	}
}

// Script gives the first calls of an operation their steps.
func (s *Side) Script(op string, steps ...string) {
	s.T.Helper()
	s.Rule(fmt.Sprintf(`{"match":{"op":%q},"steps":[%s]}`, op, strings.Join(steps, ",")))
}

// Rule adds a rule.
func (s *Side) Rule(rule string) {
	s.T.Helper()
	s.Control(http.MethodPost, s.Sim.URL+"/sim/v1/rules", rule)
}

// Await blocks until the far side's counters are there.
func (s *Side) Await(query string) {
	s.T.Helper()
	var n Counts
	s.GetJSON(s.Sim.URL+"/sim/v1/wait?timeout_ms=60000&"+query, &n)
}

// Release lets the calls go that wait at a gate.
func (s *Side) Release(gate string) {
	s.T.Helper()
	s.Control(http.MethodPost, s.Sim.URL+"/sim/v1/gates/"+gate, "")
}

// Counts are the far side's counters of an operation.
type Counts struct {
	Calls    int64 `json:"calls"`
	InFlight int64 `json:"in_flight"`
}

// Calls are the counters by operation.
func (s *Side) Calls() map[string]Counts {
	var all struct {
		Ops map[string]Counts `json:"ops"`
	}
	s.GetJSON(s.Sim.URL+"/sim/v1/stats", &all)
	return all.Ops
}

// CallsOf is how often the far side was asked for one operation.
func (s *Side) CallsOf(op string) int64 {
	var n Counts
	s.GetJSON(s.Sim.URL+"/sim/v1/ops/"+op, &n)
	return n.Calls
}

// Effects reads the far side's own log, by operation: it is synced before any answer, whatever became of anybody.
func (s *Side) Effects() map[string]int {
	s.T.Helper()
	b, err := os.ReadFile(s.Path(effectsFile))
	if err != nil {
		s.T.Fatal(err)
	}
	n := map[string]int{}
	for line := range bytes.Lines(b) {
		var e struct {
			Op string `json:"op"`
		}
		if !bytes.HasSuffix(line, []byte("\n")) {
			continue // being written: not synced, so nobody was told
		}
		if err := json.Unmarshal(line, &e); err != nil {
			s.T.Fatalf("effects: %v: %s", err, line)
		}
		n[e.Op]++
	}
	return n
}
