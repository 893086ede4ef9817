package sqlite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// TestVerifyFinds breaks each invariant with a hand on the file, and expects Verify to name it and the row.
func TestVerifyFinds(t *testing.T) {
	for name, c := range map[string]struct {
		rule, sql, detail string
	}{
		"open and settled":      {"one_status", `INSERT INTO open (seq, version, state) SELECT seq, 1, 2 FROM intent WHERE id = 'settled'`, "at once"},
		"no status":             {"one_status", `DELETE FROM open WHERE seq = 1`, "neither"},
		"open without head":     {"one_status", `INSERT INTO open (seq, version, state) VALUES (99, 1, 2)`, "without a head"},
		"settled without head":  {"one_status", `INSERT INTO result (seq, version, state, outcome, settled_at) VALUES (99, 1, 5, 2, 1)`, "without a head"},
		"settled, still open":   {"state", `UPDATE open SET state = 5 WHERE seq = 1`, "open in state 5"},
		"result not settled":    {"state", `UPDATE result SET state = 2`, "settled in state 2"},
		"pending for ever":      {"outcome", `UPDATE result SET outcome = 1`, "pending"},
		"version from nowhere":  {"version", `INSERT INTO event SELECT seq, 9, 0, '[]' FROM intent WHERE id = 'open'`, "beyond version"},
		"stray events":          {"event", `INSERT INTO event VALUES (99, 2, 0, '[]')`, "without a head"},
		"events damaged":        {"event", `UPDATE intent SET events = '[{' WHERE id = 'open'`, "damaged"},
		"claim of nobody":       {"claim", `INSERT INTO claim VALUES ('k', 99)`, "no intent"},
		"claim lost while open": {"claim", `DELETE FROM claim WHERE seq = 1`, "does not hold"},
		"claim stolen":          {"claim", `UPDATE claim SET seq = 2 WHERE seq = 1`, "does not hold"},
		"replay lost":           {"claim", `DELETE FROM claim WHERE seq = 2`, "still replays"},
		"claim never released":  {"claim", `UPDATE result SET claim_until = NULL, claim_due = NULL`, "released"},
		"stray body":            {"body", `INSERT INTO body VALUES (800, '', 0, 0, 0, x'')`, "without a head"},
		"answer lost":           {"body", `UPDATE result SET body_data = NULL`, "lost its body"},
		"answer cut":            {"body", `UPDATE result SET body_data = x'00'`, "not as long"},
		"answer changed":        {"body", `UPDATE result SET body_data = CAST('ansver' AS BLOB)`, "not those that were kept"},
		"type changed":          {"body", `UPDATE result SET body_type = 'text/html'`, "not those that were kept"},
		"env lost":              {"meta", `DELETE FROM meta WHERE name = 'env'`, "not in the store"},
		"date lost":             {"meta", `UPDATE meta SET value = NULL WHERE name = 'created'`, "not in the store"},
		"salt lost":             {"secret", `DELETE FROM secret WHERE name = 'salt'`, "lost or cut"},
		"hmac cut":              {"secret", `UPDATE secret SET value = x'00' WHERE name = 'hmac'`, "lost or cut"},
		"moved elsewhere":       {"place", `UPDATE intent SET seq = 999 WHERE id = 'open'; UPDATE open SET seq = 999`, "does not lead"},
		"there twice":           {"place", `INSERT INTO intent (seq, id, created_at) SELECT 9, id, created_at FROM intent WHERE seq = 1`, "twice"},
		"settled too soon":      {"time", `UPDATE result SET settled_at = 1`, "before it was created"},
		"claim of another key":  {"claim", `UPDATE claim SET key = x'00' WHERE seq = 1`, "another key"},
		"derived elsewhere":     {"derived", `INSERT INTO derived VALUES (x'00', 1, 1)`, "another derived key"},
		"unknown is pending":    {"outcome", `UPDATE open SET state = 3`, "says otherwise"},
		"no sweep for claim":    {"due", `DELETE FROM due`, "no sweep will find it"},
		"no sweep for bodies":   {"due", `UPDATE result SET body_due = 1`, "no sweep will find them"},
		"list damaged":          {"due", `UPDATE due SET more = x'ff'`, "cannot be read"},
		"version lost":          {"version", `DELETE FROM event`, "version 3 where 2 was due"},
		"last version lost":     {"version", `UPDATE open SET version = 2`, "ends with version 1"},
		"first version lost":    {"version", `UPDATE intent SET events = NULL WHERE id = 'open'`, "ends with version 0"},
		"success from nowhere":  {"attempt", `UPDATE event SET events = replace(events, '"end":"success"', '"end":"failed"')`, "no attempt of it succeeded"},
		"discarded, and sent":   {"attempt", `UPDATE result SET outcome = 5`, "discarded"},
		"created, and sent":     {"attempt", `UPDATE open SET state = 1`, "is created"},
		"never ended":           {"attempt", `UPDATE event SET events = replace(events, '"kind":"attempt_end"', '"kind":"note"')`, "never ended"},
		"dispatched, not sent":  {"attempt", `UPDATE intent SET events = replace(events, '"kind":"attempt"', '"kind":"note"') WHERE id = 'open'`, "has no attempt"},
		"waits, and runs":       {"attempt", `UPDATE open SET ready_at = 1`, "waits for its next"},
		"unknown, not sent":     {"attempt", `UPDATE open SET state = 3, outcome = 4; UPDATE intent SET events = replace(events, '"kind":"attempt"', '"kind":"note"') WHERE id = 'open'`, "no attempt of it can"},
		"answer damaged":        {"body", `UPDATE result SET body_packed = 1`, "damaged"},
		"body cut":              {"body", `INSERT INTO body VALUES (11, '', NULL, 2, 0, x'00')`, "not as long"},
		"body damaged":          {"body", `INSERT INTO body VALUES (11, '', 1, 2, 0, x'00')`, "damaged"},
		"chain broken":          {"transition", `UPDATE intent SET events = replace(events, '"from":"intent_created"', '"from":"unknown"') WHERE id = 'open'`, "leaves unknown"},
		"history elsewhere":     {"transition", `UPDATE open SET state = 3 WHERE seq = 1`, "its status says unknown"},
		"attempt not logged":    {"attempt", `UPDATE open SET attempt = 2 WHERE seq = 1`, "1 attempts are logged"},
		"attempt from nowhere":  {"attempt", `UPDATE intent SET events = replace(events, '"attempt":1,"route":"r"', '"attempt":3') WHERE id = 'open'`, "3 is logged"},
		"end without begin":     {"attempt", `INSERT INTO event SELECT seq, 1, 1, '[{"at":"2026-01-01T00:00:00Z","kind":"attempt_end","attempt":2}]' FROM intent WHERE id = 'open'`, "never began"},
		"called too often":      {"law", secondCall(""), "2 calls"},
		"mark not counted":      {"law", secondCall(`,"possibly_billed":true`), "status counts 0"},
		"derived of nobody":     {"derived", `INSERT INTO derived VALUES ('d', 99, 1)`, "without a head"},
		"found without answer":  {"cached", cachedRow(2) + `UPDATE result SET body_data = NULL, claim_due = NULL WHERE seq = 2`, "answer is not kept"},
		"found unsettled":       {"cached", cachedRow(1), "answer is not kept"},
		"found of nobody":       {"cached", cachedRow(99), "answer is not kept"},
		"found, and failed":     {"cached", cachedRow(2) + `UPDATE result SET outcome = 3`, "answer is not kept"},
		"found, and acted":      {"cached", cachedRow(2) + `UPDATE intent SET effect = 3`, "more than generate"},
		"found for ever":        {"cached", cachedRow(2) + `UPDATE cached SET expires_at = 0`, "damaged"},
		"partition cut":         {"cached", cachedRow(2) + `UPDATE cached SET partition = x'00'`, "damaged"},
		"cooldown without end":  {"cooldown", `INSERT INTO cooldown VALUES ('r', 0, '')`, "without an end"},
	} {
		t.Run(name, func(t *testing.T) {
			path := twoIntents(t)
			damage(t, path, c.sql)
			found, err := Verify(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range found {
				if v.Rule == c.rule && strings.Contains(v.String(), c.detail) {
					return
				}
			}
			t.Errorf("found %v; want %s: … %s", found, c.rule, c.detail)
		})
	}
}

// secondCall logs a call after one whose end says nothing that excuses it, but for the mark.
func secondCall(mark string) string {
	return `INSERT INTO event SELECT seq, 1, 1, '[{"at":"2026-01-01T00:00:00Z","kind":"attempt_end","attempt":1,"end":"unknown"` + mark + `},
		{"at":"2026-01-01T00:00:00Z","kind":"attempt","attempt":2}]' FROM intent WHERE id = 'open';
		UPDATE open SET attempt = 2 WHERE seq = 1`
}

// cachedRow leads other requests to an intent that generated.
func cachedRow(seq int) string {
	return fmt.Sprintf(`UPDATE intent SET effect = 2; INSERT INTO cached VALUES (8 * %d + 1, zeroblob(32), x'', 4000000000000000);`, seq)
}

// twoIntents makes a store with one unsettled and one settled intent, both claimed, and closes it.
func twoIntents(t *testing.T) string {
	t.Helper()
	path := tempPath(t)
	l := mustOpen(t, Config{Path: path})
	open := dispatchedWrite(l, "open-key")
	open.Insert.ID = "open"
	settled := dispatchedWrite(l, "settled-key")
	settled.Insert.ID = "settled"
	c := confirmedWrite(l, settled)
	for _, w := range []*ledger.Write{open, settled, c, settledWrite(l, c, "answer")} {
		if <-l.Enqueue(w); w.Err != nil {
			t.Fatal(w.Err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if found, err := Verify(t.Context(), path); err != nil || len(found) != 0 {
		t.Fatalf("Verify of a sound store = %v, %v", found, err)
	}
	return path
}

func damage(t *testing.T, path, sql string) {
	t.Helper()
	f, err := newFiles(Config{Path: path}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	c, err := f.openWriter()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Exec(sql); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOneByteOfAnAnswer: a byte that changes on the disk, in an answer that stands in its row, in a large one and in
// one that is packed, is told by Verify and never replayed. SQLite's own check sees none of them.
func TestOneByteOfAnAnswer(t *testing.T) {
	noise := string(randomBytes(3 * inlineMax))
	for name, body := range map[string]string{
		"small":  "the answer is 42",
		"large":  "the answer is 42" + noise,
		"packed": "the answer is 42" + noise[:100] + strings.Repeat("again and ", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			path := tempPath(t)
			l := mustOpen(t, Config{Path: path})
			d := dispatchedWrite(l, "k")
			c := confirmedWrite(l, d)
			for _, w := range []*ledger.Write{d, c, settledWrite(l, c, body)} {
				if <-l.Enqueue(w); w.Err != nil {
					t.Fatal(w.Err)
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			at := bytes.Index(content, []byte("the answer is 42"))
			if at < 0 || bytes.Count(content, []byte("the answer is 42")) != 1 {
				t.Fatal("the answer does not stand in the file once")
			}
			content[at+14] = '7'
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			found, err := Verify(t.Context(), path)
			if err != nil || len(found) != 1 || found[0].Rule != "body" {
				t.Errorf("Verify = %v, %v", found, err)
			}
			l = mustOpen(t, Config{Path: path})
			if b, err := l.Body(t.Context(), d.Insert.ID, ledger.BodyAnswer); !errors.Is(err, ledger.ErrUnavailable) {
				t.Errorf("a damaged answer was handed out: %v, %v", b, err)
			}
			if err := l.Healthy(); err != nil {
				t.Errorf("one damaged answer stops the store: %v", err)
			}
		})
	}
}

func TestVerifyFindsADamagedFile(t *testing.T) {
	path := twoIntents(t)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 5 * 4096; at < len(content); at += 4096 {
		copy(content[at:], bytes.Repeat([]byte{0xff}, 64))
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := Verify(t.Context(), path); err == nil && len(found) == 0 {
		t.Error("nothing found")
	}
}

func TestExport(t *testing.T) {
	path := twoIntents(t)
	var out bytes.Buffer
	if err := Export(t.Context(), path, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	var got struct {
		ID, State, Outcome, Visibility_state string
		Key                                  string `json:"idempotency_key"`
		History                              []ledger.Event
		Answer                               *struct{ Status int }
	}
	if err := json.Unmarshal([]byte(lines[0]), &got); err != nil {
		t.Fatal(err)
	}
	if got.ID != "settled" || got.State != "settled" || got.Outcome != "success" || got.Key != "settled-key" ||
		got.Answer == nil || got.Answer.Status != 200 || len(got.History) != 6 {
		t.Errorf("first line: %+v", got)
	}
	l := mustOpen(t, Config{Path: path})
	secret, err := l.Secret(t.Context(), "hmac")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(out.Bytes(), secret) {
		t.Error("the export contains a secret")
	}
}

func TestCompact(t *testing.T) {
	path := tempPath(t)
	l := mustOpen(t, Config{Path: path})
	for range 50 {
		d := dispatchedWrite(l, "k"+benchID())
		c := confirmedWrite(l, d)
		s := settledWrite(l, c, string(randomBytes(5000)))
		for _, w := range []*ledger.Write{d, c, s} {
			if <-l.Enqueue(w); w.Err != nil {
				t.Fatal(w.Err)
			}
		}
	}
	kept := dispatchedWrite(l, "kept")
	<-l.Enqueue(kept)
	for more := true; more; {
		var err error
		if _, more, err = l.Sweep(t.Context(), ledger.Retention{Now: l.Now().Add(1000 * time.Hour), Rows: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	before, after, err := Compact(t.Context(), path)
	if err != nil || after >= before {
		t.Errorf("Compact = %d, %d, %v", before, after, err)
	}
	if found, err := Verify(t.Context(), path); err != nil || len(found) > 0 {
		t.Errorf("Verify = %v, %v", found, err)
	}
	l = mustOpen(t, Config{Path: path})
	if _, err := l.Holder(t.Context(), "kept"); err != nil {
		t.Error(err)
	}
}

// TestViews: what a person sees with the sqlite3 shell.
func TestViews(t *testing.T) {
	path := twoIntents(t)
	damage(t, path, `UPDATE intent SET events = '[{"kind":"note","at":"2026-01-01T00:00:00Z","actor":"ada"},{"kind":"note"},
		{"kind":"note","at":"2026-01-02T00:00:00Z","actor":"bob"}]' WHERE id = 'open'`)
	l := mustOpen(t, Config{Path: path, ReadOnly: true})
	for query, want := range map[string]string{
		`SELECT state || ' ' || outcome || ' ' || visibility_state || ' ' || attempt || ' ' || effect FROM intents WHERE id = 'open'`:                "dispatched pending before_first_token 1 generation",
		`SELECT state || ' ' || outcome || ' ' || (created_at LIKE '____-__-__T__:__:__.___Z') || ' ' || delivery FROM intents WHERE id = 'settled'`: "settled success 1 open",
		`SELECT group_concat(kind, ' ') FROM (SELECT kind FROM history WHERE intent = 'settled' ORDER BY version, n, line)`:                          "transition transition attempt attempt_end transition transition",
		`SELECT group_concat(substr(at, 1, 10) || actor, ' ') FROM history WHERE intent = 'open'`:                                                    "2026-01-01ada 2026-01-01ada 2026-01-02bob",
		`SELECT "from" || '>' || "to" FROM history WHERE intent = 'settled' AND version = 3`:                                                         "confirmed>settled",
	} {
		got := ""
		if err := l.read.with(t.Context(), func(r *reader) error {
			st, err := r.prepared(query)
			if err != nil {
				return err
			}
			defer st.Reset()
			if st.Step() {
				got = st.ColumnText(0)
			}
			return st.Err()
		}); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", query, got, err, want)
		}
	}
}
