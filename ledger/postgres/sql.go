package postgres

import (
	"fmt"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// parts says what the writes of one statement bring along. A statement without a part has not its clauses either.
type parts uint8

const (
	withClaims parts = 1 << iota
	withDerived
	withBodies
	withCached
	withBeside
)

// verb is what a statement does; each has a table of rows as its input, and does to all of them at once what a Write says.
type verb uint8

const (
	insertIntents verb = iota
	changeIntents
	settleIntents
	appendToIntents
	leaseIntents
	verbs
)

// inputType is the type of the rows that a verb takes.
var inputType = [verbs]string{"insert_row", "change_row", "settle_row", "append_row", "lease_row"}

// The first parameters of every statement are the writer and the number of its transaction, then come the verb's rows and ledger time.
const firstPart = 5

// fence closes every statement: the writer's own row tells what it committed, and a writer whose row was taken away commits nothing any more.
const fence = `fence AS (UPDATE writer SET batch = $2, at = now(),
	applied = CASE WHEN batch = $2 THEN applied ELSE '{}'::integer[] END || coalesce((SELECT array_agg(n) FROM done), '{}'::integer[])
	WHERE id = $1 RETURNING id)
SELECT n, 1 / (SELECT count(*) FROM fence) FROM done`

// sql is the statement of a verb with its parts. Every one of them names in "done" the writes that apply; all the rest follows from these.
func (v verb) sql(p parts) string {
	next := firstPart
	var b strings.Builder
	fmt.Fprintf(&b, "WITH input AS MATERIALIZED (SELECT * FROM unnest($3::%s[])),\n", inputType[v])
	switch v {
	case insertIntents:
		b.WriteString(insertSQL(p))
	case changeIntents:
		b.WriteString(changeSQL)
	case settleIntents:
		b.WriteString(settleSQL)
	case appendToIntents:
		b.WriteString(appendSQL)
	case leaseIntents:
		b.WriteString(leaseSQL())
	}
	if p&withBodies != 0 {
		fmt.Fprintf(&b, bodiesSQL, next)
		next++
	}
	if p&withCached != 0 {
		fmt.Fprintf(&b, cachedSQL, next)
		next++
	}
	if p&withBeside != 0 {
		fmt.Fprintf(&b, besideSQL, next)
	}
	sql := b.String() + fence
	if mutant.On("ledger-write-without-version") {
		sql = strings.ReplaceAll(sql, "AND o.version = i.expected", "")
	}
	if mutant.On("commit-without-fence") {
		sql = strings.ReplaceAll(sql, "1 / (SELECT count(*) FROM fence)", "(SELECT count(*) FROM fence)")
	}
	return sql
}

// takeClaims decides who gets a key, in the statement that looks: a claim is created, or taken over where its time is over, or refused.
const takeClaims = `taken AS (INSERT INTO claim AS c (key, id) SELECT key, id FROM input WHERE key IS NOT NULL ORDER BY key
	ON CONFLICT (key) DO UPDATE SET id = excluded.id, until = NULL WHERE c.until <= $4 RETURNING id),
done AS (SELECT * FROM input WHERE key IS NULL OR id IN (SELECT id FROM taken)),
`

// takeUnclaimed is the classic fault: it looks first.
const takeUnclaimed = `taken AS (INSERT INTO claim AS c (key, id) SELECT key, id FROM input i WHERE key IS NOT NULL
	AND NOT EXISTS (SELECT 1 FROM claim x WHERE x.key = i.key AND coalesce(x.until > $4, true))
	ON CONFLICT (key) DO UPDATE SET id = excluded.id, until = NULL RETURNING id),
done AS (SELECT * FROM input WHERE key IS NULL OR id IN (SELECT id FROM taken)),
`

func insertSQL(p parts) string {
	sql := `done AS (SELECT * FROM input WHERE $4::bigint IS NOT NULL),
`
	if p&withClaims != 0 {
		sql = takeClaims
		if mutant.On("claim-read-before-insert") {
			sql = takeUnclaimed
		}
	}
	sql += `heads AS (INSERT INTO intent (` + intentColumns + `, events) SELECT ` + intentColumns + `, events FROM done),
opened AS (INSERT INTO open (id, ` + statusColumns + `) SELECT id, ` + statusColumns + ` FROM done),
`
	if p&withDerived != 0 {
		sql += `indexed AS (INSERT INTO derived (key, id, until) SELECT derived, id, derived_until FROM done WHERE derived IS NOT NULL),
`
	}
	return sql
}

// assign is the SET of an UPDATE that takes a column list from table i.
func assign(list string) string {
	names := strings.Split(list, ",")
	for n, name := range names {
		name = strings.TrimSpace(name)
		names[n] = name + " = i." + name
	}
	return strings.Join(names, ", ")
}

var changeSQL = `done AS (UPDATE open o SET ` + assign(statusColumns) + ` FROM input i
	WHERE o.id = i.id AND o.version = i.expected AND $4::bigint IS NOT NULL RETURNING i.n),
noted AS (INSERT INTO event (id, version, n, events) SELECT id, version, 0, events FROM input
	WHERE events IS NOT NULL AND n IN (SELECT n FROM done)),
`

// settleSQL moves intents out of the unsettled ones. A claim is kept, or freed, where it is the intent's own.
var settleSQL = `done AS (DELETE FROM open o USING input i WHERE o.id = i.id AND o.version = i.expected RETURNING i.n),
gone AS (SELECT * FROM input WHERE n IN (SELECT n FROM done)),
kept AS (UPDATE claim c SET until = g.keep_until FROM gone g WHERE c.key = g.key AND c.id = g.id AND g.keep_until IS NOT NULL RETURNING c.id),
freed AS (DELETE FROM claim c USING gone g WHERE c.key = g.key AND c.id = g.id AND g.keep_until IS NULL),
ended AS (SELECT g.*, coalesce(settled_at, $4) AS ended_at, CASE WHEN id IN (SELECT id FROM kept) THEN keep_until END AS kept_until FROM gone g),
results AS (INSERT INTO result (id, ` + statusColumns + `, ` + resultColumns + `, claim_due, body_due, events, ` + inlineColumns + `)
	SELECT id, ` + statusColumns + `, ended_at, kept_until, answer_status, answer_header, answer_source, answer_events, answer_body,
		kept_until, CASE WHEN kept_until IS NULL THEN ended_at END, events, ` + inlineColumns + ` FROM ended),
listed AS (INSERT INTO due (kind, at, ids)
	SELECT CASE WHEN kept_until IS NULL THEN 2 ELSE 1 END, coalesce(kept_until, ended_at) / 1000000 * 1000000, array_agg(id) FROM ended GROUP BY 1, 2),
replaced AS (DELETE FROM body b USING gone g WHERE g.replaces AND b.id = g.id AND b.kind = 2),
`

// lockResults keeps the sweep from the results to which something is about to be added.
const lockResults = `SELECT FROM result WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE`

// appendSQL adds to intents in whatever state they are. What the sweep has done with already, it has to look at again.
const appendSQL = `done AS (SELECT i.*, coalesce(o.version, s.version) AS version
	FROM input i JOIN intent h ON h.id = i.id LEFT JOIN open o ON o.id = i.id LEFT JOIN result s ON s.id = i.id
	WHERE i.cached IS NULL OR s.outcome = 2 AND s.answer_body
		AND (s.body_data IS NOT NULL OR EXISTS (SELECT 1 FROM body b WHERE b.id = i.id AND b.kind = 2))),
noted AS (INSERT INTO event (id, version, n, events) SELECT id, version, nextval('note'), events FROM done WHERE events IS NOT NULL),
unindexed AS (DELETE FROM derived d USING done i WHERE d.key = i.derived AND d.id = i.id),
shelved AS (UPDATE open o SET lane = i.lane FROM done i WHERE o.id = i.id AND o.lease_owner = i.shelve_for),
late AS (UPDATE result s SET body_due = $4 FROM done i WHERE s.id = i.id AND i.bodies AND s.body_due IS NULL AND s.claim_due IS NULL RETURNING s.id),
listed AS (INSERT INTO due (kind, at, ids) SELECT 2, $4 / 1000000 * 1000000, array_agg(id) FROM late HAVING count(*) > 0),
`

func leaseSQL() string {
	unowned := "AND o.lease_owner IS NULL"
	if mutant.On("lease-shared") {
		unowned = ""
	}
	return `done AS (UPDATE open o SET lease_owner = i.lease_owner, lease_until = i.lease_until, ready_at = i.ready_at FROM input i
	WHERE o.id = i.id AND o.version = i.expected ` + unowned + ` AND $4::bigint IS NOT NULL RETURNING i.n),
`
}

const bodiesSQL = `bodies AS (INSERT INTO body (id, kind, ` + bodyColumns + `)
	SELECT id, kind, ` + bodyColumns + ` FROM unnest($%d::body_row[]) WHERE n IN (SELECT n FROM done)
	ON CONFLICT (id, kind) DO UPDATE SET content_type = excluded.content_type, packed = excluded.packed, size = excluded.size,
		digest = excluded.digest, data = excluded.data),
`

const cachedSQL = `answers AS (INSERT INTO cached (id, kind, partition, data, expires_at)
	SELECT id, kind, partition, data, expires_at FROM unnest($%d::cached_row[]) WHERE n IN (SELECT n FROM done)
	ON CONFLICT (id, kind) DO UPDATE SET partition = excluded.partition, data = excluded.data, expires_at = excluded.expires_at),
`

const besideSQL = `beside AS (SELECT * FROM unnest($%d::insert_row[]) WHERE n IN (SELECT n FROM done)),
besideheads AS (INSERT INTO intent (` + intentColumns + `, events) SELECT ` + intentColumns + `, events FROM beside),
besideopen AS (INSERT INTO open (id, ` + statusColumns + `) SELECT id, ` + statusColumns + ` FROM beside),
`
