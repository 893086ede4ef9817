package sim

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCounters: per operation and in all, with keys and concurrency.
func TestCounters(t *testing.T) {
	s := start(t, Config{})
	script(t, s, Rule{Match: Match{Op: "par"}, Steps: []Step{{Hold: "door", HoldAt: AtRequest}}, Times: -1})
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if _, _, err := try(s, "POST", "/charges", `{"note":"op=par"}`, "Idempotency-Key", "k-par"); err != nil {
				t.Error(err)
			}
		})
	}
	if err := s.WaitHeld(t.Context(), "door", 5); err != nil {
		t.Fatal(err)
	}
	if n := s.Release("door"); n != 5 {
		t.Errorf("released %d", n)
	}
	all.Wait()
	for range 20 { // one after the other never looks like two at once
		send(t, s, "POST", chatPath, chatBody("op=seq "+strings.Repeat("long ", 2000), true))
	}
	want := Stats{
		Total: Counts{Calls: 25, Effects: 25, MaxInFlight: 5, Keys: []string{"k-par"}},
		Ops: map[string]Counts{
			"par": {Calls: 5, Effects: 5, MaxInFlight: 5, Keys: []string{"k-par"}},
			"seq": {Calls: 20, Effects: 20, MaxInFlight: 1},
		},
	}
	wait(t, s, "", func(n Counts) bool { return n.InFlight == 0 })
	got := s.Stats()
	if got.Total.BytesIn == 0 || got.Total.BytesOut == 0 {
		t.Errorf("no bytes counted: %+v", got.Total)
	}
	noBytes := func(n Counts) Counts { n.BytesIn, n.BytesOut = 0, 0; return n }
	got.Total = noBytes(got.Total)
	for op, n := range got.Ops {
		got.Ops[op] = noBytes(n)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestOpMarker: header, text, query, the last one in a conversation; and none.
func TestOpMarker(t *testing.T) {
	s := start(t, Config{})
	send(t, s, "POST", chatPath, `{"model":"m","messages":[{"role":"user","content":"op=old"},{"role":"assistant","content":"x"},{"role":"user","content":"now op=new."}]}`)
	send(t, s, "POST", "/x?op=query", `{}`)
	send(t, s, "POST", "/x", `{}`, "Sim-Op", "header")
	send(t, s, "POST", "/x", `{"stop=":"shop=1"}`)
	got := []string{}
	for _, c := range s.Calls("") {
		got = append(got, c.Op)
	}
	if diff := cmp.Diff([]string{"new", "query", "header", ""}, got); diff != "" {
		t.Error(diff)
	}
}

// TestCallLog shows what arrived, without credentials.
func TestCallLog(t *testing.T) {
	s := start(t, Config{})
	send(t, s, "POST", "/v1beta/models/gemini-2.5-flash:generateContent?key=secret-key", `{`+gemHello+`}`,
		"Authorization", "Bearer secret-token", "X-Other", "seen")
	c := s.Calls("")[0]
	if c.Headers["Authorization"] != Fingerprint("Bearer secret-token") || c.Headers["X-Other"] != "seen" ||
		c.Body != `{`+gemHello+`}` || c.Model != "gemini-2.5-flash" || c.Wire != wireGemini || c.Status != 200 || c.End != endDone {
		t.Errorf("%+v", c)
	}
	if b, _ := json.Marshal(c); bytes.Contains(b, []byte("secret")) {
		t.Errorf("a credential is in the log: %s", b)
	}
	if c.BytesOut == 0 || len(c.Executions) != 1 {
		t.Errorf("outcome: %+v", c)
	}
}

// TestCallLogIsBounded: the oldest calls go, the counters stay.
func TestCallLogIsBounded(t *testing.T) {
	s := start(t, Config{MaxCalls: 3})
	for range 5 {
		send(t, s, "POST", "/x", `{}`)
	}
	calls := s.Calls("")
	if len(calls) != 3 || calls[0].N != 3 || s.Counts("").Calls != 5 {
		t.Errorf("%d calls from %d, %d counted", len(calls), calls[0].N, s.Counts("").Calls)
	}
}

// TestEffectsFile: the line is on the disk before the answer, and a restart goes on where it ended, whatever a crash
// tore off.
func TestEffectsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "effects.jsonl")
	s := start(t, Config{Effects: file, Dedup: time.Hour})
	script(t, s, Rule{Match: Match{Op: "lost"}, Steps: []Step{Named("reply_lost")}})
	send(t, s, "POST", "/charges?op=a", `{"customer":"c-1"}`, "Idempotency-Key", "k-a")
	if _, _, err := try(s, "POST", "/charges?op=lost", `{}`); err == nil {
		t.Fatal("the lost reply arrived")
	}
	lines := readEffects(t, file)
	if len(lines) != 2 || lines[0].Op != "a" || lines[0].Key != "k-a" || lines[1].Op != "lost" || lines[1].Execution != 2 {
		t.Fatalf("file: %+v", lines)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"execution":3,"id":"torn`); err != nil {
		t.Fatal(err)
	}
	f.Close()

	s = start(t, Config{Effects: file, Dedup: time.Hour})
	_, again := send(t, s, "POST", "/charges?op=a", `{"customer":"c-1"}`, "Idempotency-Key", "k-a")
	if !bytes.Contains(again, []byte(`"execution":1,`)) {
		t.Errorf("the key's effect was forgotten: %s", again)
	}
	_, fresh := send(t, s, "POST", "/charges?op=b", `{}`)
	if !bytes.Contains(fresh, []byte(`"execution":3,`)) {
		t.Errorf("numbering after the restart: %s", fresh)
	}
	if lines := readEffects(t, file); len(lines) != 3 {
		t.Errorf("file after the restart: %+v", lines)
	}
}

func readEffects(t *testing.T, file string) []Effect {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []Effect
	for line := range bytes.Lines(b) {
		var e Effect
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		out = append(out, e)
	}
	return out
}

// TestEffectsFileIsNotOurs: a file that holds something else is not cut or continued.
func TestEffectsFileIsNotOurs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes.txt")
	const text = "dear diary\nsecond line\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := New(Config{Effects: file}).Start(); err == nil {
		t.Error("a file without effects was accepted")
	}
	if b, _ := os.ReadFile(file); string(b) != text {
		t.Errorf("the file is now %q", b)
	}
}

// TestDedup: same key, same answer, one effect; another body is refused; after the expiry it is new.
func TestDedup(t *testing.T) {
	now := fixed()
	var mu sync.Mutex
	s := start(t, Config{Dedup: time.Minute, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}})
	post := func(body string) (int, string) {
		resp, b := send(t, s, "POST", "/charges?op=x", body, "Idempotency-Key", "k")
		return resp.StatusCode, string(b)
	}
	_, one := post(`{"amount":10}`)
	if _, two := post(`{"amount":10}`); one != two {
		t.Errorf("second answer %s, want %s", two, one)
	}
	if status, _ := post(`{"amount":999}`); status != 422 {
		t.Errorf("another body: %d, want 422", status)
	}
	mu.Lock()
	now = now.Add(time.Minute)
	mu.Unlock()
	if _, late := post(`{"amount":10}`); late == one {
		t.Error("the key outlived its expiry")
	}
	if n := s.Counts("x"); n.Effects != 2 || n.Suppressed != 1 {
		t.Errorf("counts %+v", n)
	}
}

// TestLookups: what reconcilers ask, and an answer that comes to light late.
func TestLookups(t *testing.T) {
	now := fixed()
	var mu sync.Mutex
	s := start(t, Config{Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}})
	script(t, s, Rule{Match: Match{Method: "POST", Op: "late"}, Steps: []Step{{VisibleAfterMS: 5000}}})
	send(t, s, "POST", "/charges?op=a", `{"customer":"c-9","amount":5}`, "Idempotency-Key", "k-1")
	send(t, s, "POST", "/charges?op=late", `{"customer":"c-8"}`, "Idempotency-Key", "k-2")
	count := func(query string) string {
		_, b := send(t, s, "GET", "/charges?"+query, "")
		return field(&Effect{Body: b}, "count")
	}
	for query, want := range map[string]string{
		"ref=k-1": "1", "key=k-1": "1", "op=a": "1", "customer=c-9": "1", "customer=c-9&amount=5": "1",
		"customer=c-9&amount=6": "0", "ref=k-2": "0", "ref=none": "0",
	} {
		if got := count(query); got != want {
			t.Errorf("GET /charges?%s: %s effects, want %s", query, got, want)
		}
	}
	mu.Lock()
	now = now.Add(5 * time.Second)
	mu.Unlock()
	if got := count("ref=k-2"); got != "1" {
		t.Errorf("the late effect: %s", got)
	}
	if resp, b := send(t, s, "GET", "/charges/k-1", ""); resp.StatusCode != 200 || !bytes.Contains(b, []byte("c-9")) {
		t.Errorf("by path: %s %s", resp.Status, b)
	}
	if resp, _ := send(t, s, "GET", "/charges/none", ""); resp.StatusCode != 404 {
		t.Errorf("unknown: %s", resp.Status)
	}
}

// TestReset forgets all but the numbers.
func TestReset(t *testing.T) {
	s := start(t, Config{Script: Script{Rules: []Rule{{Steps: []Step{Named("503")}}}}})
	post := func() int { resp, _ := send(t, s, "POST", "/x", `{}`); return resp.StatusCode }
	if a, b := post(), post(); a != 503 || b != 200 {
		t.Errorf("%d then %d", a, b)
	}
	script(t, s)
	s.Reset()
	if n := s.Counts(""); n.Calls != 0 || len(s.Calls("")) != 0 || len(s.Effects("")) != 0 {
		t.Errorf("after a reset: %+v", n)
	}
	if a := post(); a != 503 {
		t.Errorf("Config.Script is not back: %d", a)
	}
	if _, b := send(t, s, "POST", "/x", `{}`); !bytes.Contains(b, []byte(`"execution":2,`)) {
		t.Errorf("numbers began anew: %s", b)
	}
}

// TestResetWithCallsInFlight: what began before a reset does not count after it.
func TestResetWithCallsInFlight(t *testing.T) {
	s := start(t, Config{})
	script(t, s, Rule{Steps: []Step{{Hold: "g", HoldAt: AtRequest}}})
	done := make(chan error)
	go func() {
		_, _, err := try(s, "POST", "/charges?op=old", `{}`)
		done <- err
	}()
	if err := s.WaitHeld(t.Context(), "g", 1); err != nil {
		t.Fatal(err)
	}
	s.Reset() // also lets it go
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := s.Counts(""); n.Calls != 0 || n.Effects != 0 || n.InFlight != 0 {
		t.Errorf("counts %+v", n)
	}
}
