package postgres

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// lives writes an intent that is open and one that is settled, both lawful and claimed, and returns their ids.
func lives(t testing.TB, l *Ledger) (open, settled string) {
	t.Helper()
	now := l.Now()
	begin := func(key string) *ledger.Write {
		w := &ledger.Write{ClaimKey: key,
			Insert: &ledger.Intent{ID: newID(now), Tenant: "main", Effect: ledger.EffectExternal, Key: key, CreatedAt: now, MaxAttempts: 3},
			Status: ledger.Status{Version: 1, State: ledger.Dispatched, Outcome: ledger.OutcomePending, Attempt: 1, UpdatedAt: now},
			Events: []ledger.Event{{At: now, Kind: "transition", To: ledger.Created}, {At: now, Kind: "transition", From: ledger.Created, To: ledger.Dispatched},
				{At: now, Kind: "attempt", Attempt: 1, Route: "r"}}}
		return mustCommit(t, l, w)
	}
	w, open := begin("settled-key"), begin("open-key").Insert.ID
	c := &ledger.Write{ID: w.Insert.ID, Version: 1, HeldKey: w.ClaimKey, Status: w.Status, Events: []ledger.Event{
		{At: now, Kind: "attempt_end", Attempt: 1, End: ledger.AttemptSuccess, Status: 200}, {At: now, Kind: "transition", From: ledger.Dispatched, To: ledger.Confirmed}}}
	c.Status.Version, c.Status.State, c.Status.Outcome = 2, ledger.Confirmed, ledger.OutcomeSuccess
	mustCommit(t, l, c)
	s := &ledger.Write{ID: c.ID, Version: 2, HeldKey: w.ClaimKey, Status: c.Status, Settle: true, Claim: ledger.ClaimKeep, ClaimUntil: now.Add(time.Hour),
		Answer: &ledger.Answer{HTTPStatus: 200, HasBody: true}, Bodies: []ledger.Body{{Kind: ledger.BodyAnswer, Data: []byte("answer")}},
		Events: []ledger.Event{{At: now, Kind: "transition", From: ledger.Confirmed, To: ledger.Settled}}}
	s.Status.Version, s.Status.State = 3, ledger.Settled
	mustCommit(t, l, s)
	return open, c.ID
}

func mustCommit(t testing.TB, l *Ledger, w *ledger.Write) *ledger.Write {
	t.Helper()
	if <-l.Enqueue(w); w.Err != nil {
		t.Fatal(w.Err)
	}
	return w
}

// TestVerifyFinds breaks each invariant with a hand on the tables, and expects Verify to name it and the row.
func TestVerifyFinds(t *testing.T) {
	url := emptyStore(t)
	l := open(t, Config{URL: url})
	defer l.Close()
	opened, settled := lives(t, l)
	if found, err := Verify(t.Context(), url); err != nil || len(found) != 0 {
		t.Fatalf("Verify of a sound store = %v, %v", found, err)
	}
	words := strings.NewReplacer("OPEN", "'"+opened+"'", "SETTLED", "'"+settled+"'", "NOBODY", "'0190a1b2-0000-7000-8000-000000000000'")
	for name, c := range map[string]struct{ rule, sql, detail string }{
		"open and settled":      {"one_status", `INSERT INTO open (id, version, state) VALUES (SETTLED, 1, 2)`, "at once"},
		"no status":             {"one_status", `DELETE FROM open`, "neither"},
		"open without head":     {"one_status", `INSERT INTO open (id, version, state) VALUES (NOBODY, 1, 2)`, "without a head"},
		"settled without head":  {"one_status", `INSERT INTO result (id, version, state, outcome, settled_at) VALUES (NOBODY, 1, 5, 2, 1)`, "without a head"},
		"settled, still open":   {"state", `UPDATE open SET state = 5`, "open in state 5"},
		"result not settled":    {"state", `UPDATE result SET state = 2`, "settled in state 2"},
		"half settled":          {"version", `UPDATE open SET version = 0`, "open in version 0"},
		"pending for ever":      {"outcome", `UPDATE result SET outcome = 1`, "pending"},
		"version from nowhere":  {"version", `INSERT INTO event VALUES (OPEN, 9, 0, '[]')`, "beyond version"},
		"stray events":          {"event", `INSERT INTO event VALUES (NOBODY, 2, 0, '[]')`, "without a head"},
		"events damaged":        {"event", `UPDATE intent SET events = '{}' WHERE id = OPEN`, "damaged"},
		"claim of nobody":       {"claim", `INSERT INTO claim VALUES ('k', NOBODY)`, "no intent"},
		"claim lost while open": {"claim", `DELETE FROM claim WHERE id = OPEN`, "does not hold"},
		"claim stolen":          {"claim", `UPDATE claim SET id = SETTLED`, "does not hold"},
		"claim that ends":       {"claim", `UPDATE claim SET until = 1 WHERE id = OPEN`, "has an end"},
		"replay lost":           {"claim", `DELETE FROM claim WHERE id = SETTLED`, "still replays"},
		"replay cut":            {"claim", `UPDATE claim SET until = 1 WHERE id = SETTLED`, "another time"},
		"claim never released":  {"claim", `UPDATE result SET claim_until = NULL, claim_due = NULL`, "released"},
		"claim of another key":  {"claim", `UPDATE claim SET key = '\x00' WHERE id = OPEN`, "another key"},
		"stray body":            {"body", `INSERT INTO body VALUES (NOBODY, 2, '', false, 0, 0, '')`, "without a head"},
		"answer lost":           {"body", `UPDATE result SET body_data = NULL`, "lost its body"},
		"answer cut":            {"body", `UPDATE result SET body_data = '\x00'`, "not as long"},
		"answer changed":        {"body", `UPDATE result SET body_data = 'ansver'`, "not those that were kept"},
		"type changed":          {"body", `UPDATE result SET body_type = 'text/html'`, "not those that were kept"},
		"answer damaged":        {"body", `UPDATE result SET body_packed = true`, "damaged"},
		"env lost":              {"meta", `DELETE FROM meta WHERE name = 'env'`, "not in the store"},
		"salt lost":             {"secret", `DELETE FROM secret WHERE name = 'salt'`, "lost or cut"},
		"hmac cut":              {"secret", `UPDATE secret SET value = '\x00' WHERE name = 'hmac'`, "lost or cut"},
		"settled too soon":      {"time", `UPDATE result SET settled_at = 1`, "before it was created"},
		"derived elsewhere":     {"derived", `INSERT INTO derived VALUES ('\x00', OPEN, 1)`, "another derived key"},
		"derived of nobody":     {"derived", `INSERT INTO derived VALUES ('d', NOBODY, 1)`, "without a head"},
		"unknown is pending":    {"outcome", `UPDATE open SET state = 3`, "says otherwise"},
		"no sweep for claim":    {"due", `DELETE FROM due`, "no sweep will find it"},
		"no sweep for bodies":   {"due", `UPDATE result SET body_due = 1`, "no sweep will find them"},
		"version lost":          {"version", `DELETE FROM event`, "version 3 where 2 was due"},
		"last version lost":     {"version", `UPDATE open SET version = 2`, "ends with version 1"},
		"first version lost":    {"version", `UPDATE intent SET events = NULL WHERE id = OPEN`, "ends with version 0"},
		"success from nowhere":  {"attempt", `UPDATE event SET events = replace(events::text, '"end":"success"', '"end":"failed"')::json`, "no attempt of it succeeded"},
		"discarded, and sent":   {"attempt", `UPDATE result SET outcome = 5`, "discarded"},
		"waits, and runs":       {"attempt", `UPDATE open SET ready_at = 1`, "waits for its next"},
		"attempt not logged":    {"attempt", `UPDATE open SET attempt = 2`, "1 attempts are logged"},
		"called too often": {"law", `INSERT INTO event VALUES (OPEN, 1, 1, '[{"at":"2026-01-01T00:00:00Z","kind":"attempt_end","attempt":1,"end":"unknown"},
			{"kind":"attempt","attempt":2}]'); UPDATE open SET attempt = 2`, "2 calls"},
		"chain broken":         {"transition", `UPDATE intent SET events = replace(events::text, '"from":"intent_created"', '"from":"unknown"')::json WHERE id = OPEN`, "leaves unknown"},
		"history elsewhere":    {"transition", `UPDATE open SET state = 3`, "its status says unknown"},
		"found without answer": {"cached", cachedRow("SETTLED") + `UPDATE result SET body_data = NULL, claim_due = NULL`, "answer is not kept"},
		"found unsettled":      {"cached", cachedRow("OPEN"), "answer is not kept"},
		"found of nobody":      {"cached", cachedRow("NOBODY"), "answer is not kept"},
		"found, and acted":     {"cached", cachedRow("SETTLED"), "more than generate"},
		"partition cut":        {"cached", cachedRow("SETTLED") + `UPDATE cached SET partition = '\x00'`, "damaged"},
		"cooldown without end": {"cooldown", `INSERT INTO cooldown VALUES ('r', 0, '')`, "without an end"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range damaged(t, l, words.Replace(c.sql)) {
				if v.Rule == c.rule && strings.Contains(v.String(), c.detail) {
					return
				}
				t.Logf("also: %s", v)
			}
			t.Errorf("nothing says %s: … %s", c.rule, c.detail)
		})
	}
}

// cachedRow leads other requests to an intent.
func cachedRow(id string) string {
	return `INSERT INTO cached VALUES (` + id + `, 1, decode(repeat('00', 32), 'hex'), '', 4000000000000000);`
}

// damaged is what Verify finds after sql, which is then undone.
func damaged(t *testing.T, l *Ledger, sql string) []Violation {
	t.Helper()
	c, err := l.connectLong(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	v := &verifier{now: l.Now().UnixMicro()}
	if err := v.run(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	return v.Found
}

func TestExportCompactMigrate(t *testing.T) {
	url := emptyStore(t)
	if from, to, err := Migrate(t.Context(), Config{URL: url, Env: "prod"}); err != nil || from != 0 || to != SchemaVersion() {
		t.Errorf("Migrate of nothing = %d, %d, %v", from, to, err)
	}
	if from, to, err := Migrate(t.Context(), Config{URL: url}); err != nil || from != to {
		t.Errorf("Migrate of the newest = %d, %d, %v", from, to, err)
	}
	if _, _, err := Migrate(t.Context(), Config{URL: url, Env: "test"}); !errors.Is(err, ledger.ErrForeignEnv) {
		t.Errorf("Migrate of another env's: %v", err)
	}
	l := open(t, Config{URL: url})
	defer l.Close()
	opened, settled := lives(t, l)
	var out bytes.Buffer
	if err := Export(t.Context(), url, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	states := map[string]string{}
	for _, line := range lines {
		var got struct {
			ID, State string
			History   []ledger.Event
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil || len(got.History) == 0 {
			t.Errorf("%s: %v", line, err)
		}
		states[got.ID] = got.State
	}
	if states[opened] != "dispatched" || states[settled] != "settled" {
		t.Errorf("exported %v", states)
	}
	compacts(t, l, url, opened)
}

func compacts(t *testing.T, l *Ledger, url, opened string) {
	if err := l.Beat(t.Context(), ledger.Owner{ID: "gw-1", Until: l.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Compact(t.Context(), url); !errors.Is(err, ledger.ErrLocked) || !strings.Contains(err.Error(), "gw-1") {
		t.Errorf("Compact beside a replica: %v", err)
	}
	if err := l.Beat(t.Context(), ledger.Owner{ID: "gw-1", Until: l.Now().Add(-time.Hour)}); err != nil {
		t.Fatal(err)
	}
	before, after, err := Compact(t.Context(), url)
	if err != nil || before <= 0 || after <= 0 {
		t.Errorf("Compact = %d, %d, %v", before, after, err)
	}
	if rec, err := l.Get(t.Context(), opened); err != nil || rec.ID != opened {
		t.Errorf("after Compact: %v, %v", rec, err)
	}
}
