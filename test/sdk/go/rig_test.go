package sdk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// rig is what a run of the suite talks to. Both addresses come from the environment, so that the same tests prove
// first the simulator (HOLDFAST_URL equal to SIM_URL) and then the gateway in front of it.
type rig struct {
	url string // what the clients take as their base URL
	sim string // the simulator: its control API, and calls without a gateway between
	// A second gateway, which knows none of the clients' credentials; "" without.
	guarded string
	cutter  string // a breaking network in front of the gateway; "" without
	nest    string // a gateway that retries; "" without
	// A gateway whose answers come from another API than the client's; "" without.
	translate string
	exe       string // the holdfast program, for gateways of a test's own
	run       string // tells this run's operations from those of an earlier one on the same processes
	seq       atomic.Int64
}

var theRig rig

func TestMain(m *testing.M) {
	theRig.url = strings.TrimSuffix(os.Getenv("HOLDFAST_URL"), "/")
	theRig.sim = strings.TrimSuffix(os.Getenv("SIM_URL"), "/")
	theRig.guarded = strings.TrimSuffix(os.Getenv("HOLDFAST_GUARDED_URL"), "/")
	theRig.cutter = strings.TrimSuffix(os.Getenv("HOLDFAST_CUT_URL"), "/")
	theRig.nest = strings.TrimSuffix(os.Getenv("HOLDFAST_NEST_URL"), "/")
	theRig.translate = strings.TrimSuffix(os.Getenv("HOLDFAST_TRANSLATE_URL"), "/")
	theRig.exe = os.Getenv("HOLDFAST")
	theRig.run = fmt.Sprintf("go%x", time.Now().UnixNano())
	for _, u := range []string{theRig.url, theRig.sim} {
		if err := loopback(u); err != nil {
			fmt.Fprintf(os.Stderr, "%v; run ../run.sh, or set HOLDFAST_URL and SIM_URL to running processes\n", err)
			os.Exit(2)
		}
	}
	os.Exit(m.Run())
}

// loopback refuses every address that is not this machine: the suite sends faults and floods.
func loopback(raw string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return err
	}
	if host := u.Hostname(); host != "127.0.0.1" && host != "localhost" && host != "::1" {
		return fmt.Errorf("base URL %q is not a loopback address", raw)
	}
	return nil
}

// direct reports whether there is no gateway between the clients and the simulator.
func (r *rig) direct() bool { return r.url == r.sim }

// op names a new operation; the simulator counts calls and effects by it.
func (r *rig) op() string { return fmt.Sprintf("%s-%d", r.run, r.seq.Add(1)) }

// needGateway skips what only a gateway can do.
func needGateway(t *testing.T) {
	t.Helper()
	if theRig.direct() {
		t.Skip("without a gateway between")
	}
}

// counts is what the simulator counted of one operation.
type counts struct {
	Calls    int `json:"calls"`
	InFlight int `json:"in_flight"`
	Effects  int `json:"effects"`
}

func (r *rig) counts(t *testing.T, op string) counts {
	t.Helper()
	var n counts
	r.control(t, http.MethodGet, "ops/"+url.PathEscape(op), &n)
	return n
}

// seen is one call as it reached the simulator.
type seen struct {
	Key     string            `json:"idempotency_key"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

func (r *rig) calls(t *testing.T, op string) []seen {
	t.Helper()
	var list []seen
	r.control(t, http.MethodGet, "calls?op="+url.QueryEscape(op), &list)
	return list
}

// waitCounts blocks until the counters of the operation have reached what the query asks for, docs/sim.md.
func (r *rig) waitCounts(t *testing.T, op, query string) {
	t.Helper()
	r.control(t, http.MethodGet, "wait?op="+url.QueryEscape(op)+"&"+query, nil)
}

// release lets the calls go that stand at the simulator's gate.
func (r *rig) release(t *testing.T, gate string) {
	t.Helper()
	r.control(t, http.MethodPost, "gates/"+url.PathEscape(gate), nil)
}

func (r *rig) control(t *testing.T, method, path string, into any) {
	t.Helper()
	fetch(t, method, r.sim+"/sim/v1/"+path, into)
}

// fetch asks one of the rig's processes for a JSON document.
func fetch(t *testing.T, method, url string, into any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode/100 != 2 {
		t.Fatalf("%s %s: status %d, %v: %s", method, url, res.StatusCode, err, out)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%s %s: %v in %s", method, url, err, out)
	}
}

// waitHeld blocks until a call of the operation stands at the gate of the same name.
func (r *rig) waitHeld(t *testing.T, gate string) {
	t.Helper()
	r.waitAllHeld(t, gate, 1)
}

// waitAllHeld blocks until n calls stand there.
func (r *rig) waitAllHeld(t *testing.T, gate string, n int) {
	t.Helper()
	r.control(t, http.MethodGet, fmt.Sprintf("wait?timeout_ms=20000&held=%d&gate=%s", n, url.QueryEscape(gate)), nil)
}

// fingerprint is how the simulator's call log shows a credential.
func fingerprint(credential string) string {
	sum := sha256.Sum256([]byte(credential))
	return "sha256:" + hex.EncodeToString(sum[:6])
}
