package postgres

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

// manySettled fills a store with 200,000 settled intents, half of whose claims still replay, and a few that are open.
const manySettled = `
CREATE TEMP TABLE made AS SELECT g, (lpad(to_hex(1764500000000 + g), 12, '0') || '70008000' || lpad(to_hex(g), 12, '0'))::uuid AS id,
	(1764500000000 + g) * 1000 AS at, 'key-' || g AS key FROM generate_series(1, 200050) AS g;
INSERT INTO intent (id, created_at, tenant, workflow, idempotency_key, claimed, effect, events)
	SELECT id, at, 'main', 'chat', key, true, 2, '[]' FROM made;
INSERT INTO open (id, version, state, outcome, expires_at) SELECT id, 1, 1 + g % 3, 1, at FROM made WHERE g > 200000;
INSERT INTO result (id, version, state, outcome, updated_at, settled_at, claim_until, claim_due, events, body_size, body_data)
	SELECT id, 2, 5, 2, at, at, at + 1000000, at + 1000000, '[]', 1, 'x' FROM made WHERE g <= 200000;
INSERT INTO event (id, version, n, events) SELECT id, 2, 0, '[]' FROM made WHERE g % 4 = 0;
INSERT INTO body (id, kind, size, data) SELECT id, 1, 1, 'x' FROM made WHERE g % 4 = 0;
INSERT INTO claim (key, id, until) SELECT substring(sha256(convert_to(key, 'UTF8')) FROM 1 FOR 16), id, CASE WHEN g <= 200000 THEN 4000000000000000 END
	FROM made WHERE g > 100000;
INSERT INTO derived (key, id, until) SELECT substring(sha256(convert_to(key, 'UTF8')) FROM 1 FOR 16), id, 4000000000000000 FROM made WHERE g > 100000;
INSERT INTO due (kind, at, ids) SELECT 1, at / 1000000 * 1000000, array_agg(id) FROM made WHERE g <= 200000 GROUP BY 2;
ANALYZE;`

var wholeTable = regexp.MustCompile(`Seq Scan on (intent|result|event|body|claim|derived|due)`)

// TestPlans: what is asked all the time, and the listings that people wait for, walk an index however long the log is.
func TestPlans(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 200,000 intents")
	}
	l := open(t, Config{URL: emptyStore(t)})
	defer l.Close()
	c, err := l.connectLong(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), manySettled); err != nil {
		t.Fatal(err)
	}
	id, _ := parseID("019ad3a7-6ec0-7000-8000-000000030d40")
	last, now := [16]byte(id), stored.Micros(l.Now())
	type plan struct {
		query string
		args  []any
	}
	plans := map[string]plan{
		"get": {getQuery, []any{[][16]byte{last}}}, "get many": {getQuery, []any{make([][16]byte, getBatch)}},
		"holder":  {holderQuery, []any{stored.Digest("key-7"), now}},
		"derived": {derivedQuery, []any{stored.Digest("key-7"), now, 5}},
		"history": {historyQuery, []any{last}}, "body": {bodyQuery, []any{last, int16(2)}},
		"open": {openQuery, []any{[16]byte{}, 500}}, "due": {dueQuery, []any{now, 100}},
		"aged": {agedQuery, []any{last, now, now, now, 500}},
	}
	for name, f := range map[string]ledger.Filter{
		"newest": {}, "next page": {Before: id.String()}, "unknown": {States: []ledger.State{ledger.Unknown}}, "unsettled": {Unsettled: true},
		"settled": {States: []ledger.State{ledger.Settled}}, "a tenant's": {Tenant: "main"}, "recent": {Key: "k", NewerThan: time.UnixMilli(1764500200000)},
	} {
		query, args, _ := listQuery(f)
		plans["list "+name] = plan{query, args}
	}
	for name, p := range plans {
		rows, err := c.Query(t.Context(), "EXPLAIN "+p.query, p.args...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if text := strings.Join(lines, "\n"); wholeTable.MatchString(text) {
			t.Errorf("%s walks a table:\n%s", name, text)
		}
	}
}
