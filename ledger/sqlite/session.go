package sqlite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

const (
	intentColumns = `id, created_at, tenant, workflow, idempotency_key, job_id, owner_key, effect, hold, explicit,
		claimed, fingerprint, method, path, provider, endpoint, requested_model, stream, priority, max_attempts,
		fallback_allowed, estimated_cost, policy_revision, cause, parent_id, callback`
	statusColumns = `version, state, outcome, lane, visibility, delivery, attempt, crashes, route_key, served_model,
		tier, ready_at, expires_at, retry_after, lease_owner, lease_until, partial, billed_maybe, last_error_type,
		usage_in, usage_out, updated_at`
	resultColumns = `settled_at, claim_until, answer_status, answer_header, answer_source, answer_events, answer_body`
	bodyColumns   = `content_type, packed, size, digest, data`
	inlineColumns = `body_type, body_packed, body_size, body_digest, body_data`
)

// columns counts a column list.
func columns(list string) int { return strings.Count(list, ",") + 1 }

func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// session is the writer's connection with its statements. One goroutine uses it.
type session struct {
	conn *sqlite3.Conn

	begin, commit, rollback                                *statement
	takeClaim, readClaim, moveClaim, dropClaim             *statement
	putIntent, putOpen, moveOpen, dropOpen, putResult      *statement
	findIntent, putEvent, putBody, putDerived, dropDerived *statement
	findAny, lastNote, keepLate, dropBody, putDue, idAt    *statement
	lease, shelve, putCached, answerKept                   *statement

	heads   []head   // of the running batch, still to be written
	results []result // likewise
	culprit *item    // whose row could not be

	recent recent    // where the last intents stand in the file
	now    time.Time // ledger time of the running batch
	batch  int64     // number of the running batch
}

func newSession(c *sqlite3.Conn) (*session, error) {
	s := &session{conn: c}
	unowned := ` AND lease_owner IS NULL`
	if mutant.On("lease-shared") {
		unowned = ""
	}
	assign := func(columns string) string {
		return strings.ReplaceAll(columns, ",", " = ?,") + " = ?"
	}
	for _, p := range []struct {
		to  **statement
		sql string
	}{
		{&s.begin, `BEGIN IMMEDIATE`},
		{&s.commit, `COMMIT`},
		{&s.rollback, `ROLLBACK`},
		{&s.takeClaim, `INSERT INTO claim (key, seq) VALUES (?, ?) ON CONFLICT DO NOTHING`},
		{&s.readClaim, `SELECT i.id, r.claim_until FROM claim c LEFT JOIN intent i ON i.seq = c.seq
			LEFT JOIN result r ON r.seq = c.seq WHERE c.key = ?`},
		{&s.moveClaim, `UPDATE claim SET seq = ?2 WHERE key = ?1`},
		{&s.dropClaim, `DELETE FROM claim WHERE key = ? AND seq = ?`},
		{&s.putIntent, `INSERT INTO intent (seq, ` + intentColumns + `, events) VALUES (` +
			marks(columns(intentColumns)+2) + `) ON CONFLICT DO NOTHING`},
		{&s.putOpen, `INSERT INTO open (seq, ` + statusColumns + `) VALUES (` + marks(columns(statusColumns)+1) + `)`},
		{&s.moveOpen, `UPDATE open SET ` + assign(statusColumns) + ` WHERE seq = ? AND version = ?`},
		{&s.lease, `UPDATE open SET lease_owner = ?, lease_until = ?, ready_at = ? WHERE seq = ? AND version = ?` + unowned},
		{&s.shelve, `UPDATE open SET lane = ? WHERE seq = ? AND lease_owner = ?`},
		{&s.dropOpen, `DELETE FROM open WHERE seq = ? AND version = ?`},
		{&s.putResult, `INSERT INTO result (seq, ` + statusColumns + `, ` + resultColumns + `, claim_due, body_due, events, ` +
			inlineColumns + `) VALUES (` + marks(columns(statusColumns)+columns(resultColumns)+columns(inlineColumns)+4) + `)`},
		{&s.findIntent, `SELECT seq, claimed IS NOT NULL FROM intent WHERE seq = ` + seqOf},
		{&s.idAt, `SELECT id FROM intent WHERE seq = ?`},
		{&s.putDue, `INSERT INTO due (kind, at, seq, more) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`},
		{&s.putEvent, `INSERT INTO event (seq, version, n, events) VALUES (?, ?, ?, ?)`},
		{&s.findAny, `SELECT i.seq, coalesce(o.version, r.version) FROM intent i LEFT JOIN open o ON o.seq = i.seq
			LEFT JOIN result r ON r.seq = i.seq WHERE i.seq = ` + seqOf},
		{&s.lastNote, `SELECT coalesce(max(n), 0) FROM event WHERE seq = ? AND version = ?`},
		{&s.keepLate, `UPDATE result SET body_due = ?2 WHERE seq = ?1 AND body_due IS NULL AND claim_due IS NULL`},
		{&s.putBody, `INSERT OR REPLACE INTO body (slot, ` + bodyColumns + `) VALUES (` + marks(columns(bodyColumns)+1) + `)`},
		{&s.dropBody, `DELETE FROM body WHERE slot = ?`},
		{&s.dropDerived, `DELETE FROM derived WHERE key = ? AND seq = ?`},
		{&s.putCached, `INSERT OR REPLACE INTO cached (slot, partition, data, expires_at) VALUES (?, ?, ?, ?)`},
		{&s.answerKept, `SELECT 1 FROM result r WHERE r.seq = ?1 AND ` + hasAnswer},
		{&s.putDerived, `INSERT INTO derived (key, seq, until) VALUES (?, ?, ?)`},
	} {
		st, _, err := c.PrepareFlags(p.sql, sqlite3.PREPARE_PERSISTENT)
		if err != nil {
			return nil, fmt.Errorf("sqlite: preparing %q: %w", p.sql, err)
		}
		*p.to = newStatement(st)
	}
	return s, nil
}

func (s *session) close() error {
	closeStatements(s.conn)
	return s.conn.Close()
}

func closeStatements(c *sqlite3.Conn) {
	for _, st := range slices.Collect(c.Stmts()) {
		_ = st.Close() // repeats the error of the statement's last run
	}
}
