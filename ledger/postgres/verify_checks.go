package postgres

// invariant is an invariant as a query for the rows that break it: a name for the row, and what is wrong with it.
type invariant struct{ rule, sql string }

// digest is the digest of a key (stored.Digest).
func digest(key string) string {
	return `substring(sha256(convert_to(` + key + `, 'UTF8')) FROM 1 FOR 16)`
}

// headless finds the rows x whose intent is not there.
const headless = ` LEFT JOIN intent i ON i.id = x.id WHERE i.id IS NULL`

var checks = []invariant{
	{"meta", `SELECT w.name, 'is not in the store: it was not made by this program, or it is damaged' FROM unnest('{env,created}'::text[]) AS w (name)
		LEFT JOIN meta m ON m.name = w.name WHERE coalesce(m.value, '') = ''`},
	{"secret", `SELECT w.name, 'is lost or cut: tenants, and the keys that far sides know, would change with a new one; restore the store'
		FROM unnest('{salt,hmac}'::text[]) AS w (name) LEFT JOIN secret s ON s.name = w.name WHERE coalesce(length(s.value), 0) <> 32`},
	{"time", `SELECT i.id::text, 'was settled before it was created' FROM result r JOIN intent i ON i.id = r.id WHERE r.settled_at < i.created_at`},
	{"one_status", `SELECT i.id::text, CASE WHEN r.id IS NULL THEN 'has no status: neither open nor settled' ELSE 'is open and settled at once' END
		FROM intent i LEFT JOIN open o ON o.id = i.id LEFT JOIN result r ON r.id = i.id WHERE (o.id IS NULL) = (r.id IS NULL)`},
	{"one_status", `SELECT x.id::text, 'is open without a head' FROM open x` + headless},
	{"one_status", `SELECT x.id::text, 'is settled without a head' FROM result x` + headless},
	{"state", `SELECT id::text, 'is open in state ' || state FROM open WHERE state NOT BETWEEN 1 AND 4`},
	{"state", `SELECT id::text, 'is settled in state ' || state FROM result WHERE state <> 5`},
	{"version", `SELECT id::text, 'is open in version ' || version FROM open WHERE version < 1`},
	{"outcome", `SELECT id::text, 'is settled, and its outcome is pending' FROM result WHERE coalesce(outcome, 0) NOT BETWEEN 2 AND 5`},
	{"version", `SELECT i.id::text, 'event of version ' || e.version || ' beyond version ' || coalesce(o.version, r.version)
		FROM event e JOIN intent i ON i.id = e.id LEFT JOIN open o ON o.id = e.id LEFT JOIN result r ON r.id = e.id
		WHERE e.version > coalesce(o.version, r.version) OR e.version < 1 OR (e.n = 0 AND e.version < 2)`},
	{"event", `SELECT DISTINCT x.id::text, 'events without a head' FROM event x` + headless},
	{"claim", `SELECT 'claim ' || encode(x.key, 'hex'), 'is held by no intent' FROM claim x` + headless},
	{"claim", `SELECT i.id::text, 'holds ' || ` + claimKeyOf + ` || ' although it is settled and released' FROM claim c JOIN intent i ON i.id = c.id
		JOIN result r ON r.id = c.id WHERE r.claim_until IS NULL`},
	{"claim", `SELECT i.id::text, 'is unsettled and does not hold the key it claimed' FROM open o JOIN intent i ON i.id = o.id
		LEFT JOIN claim c ON c.key = ` + digest(claimKeyOf) + ` WHERE i.claimed AND c.id IS DISTINCT FROM o.id`},
	{"claim", `SELECT i.id::text, 'is unsettled, and its claim has an end' FROM claim c JOIN intent i ON i.id = c.id JOIN open o ON o.id = c.id
		WHERE c.until IS NOT NULL`},
	{"claim", `SELECT i.id::text, 'has lost a key that it still replays' FROM result r JOIN intent i ON i.id = r.id
		LEFT JOIN claim c ON c.key = ` + digest(claimKeyOf) + ` WHERE r.claim_until > $1 AND c.id IS DISTINCT FROM r.id`},
	{"claim", `SELECT i.id::text, 'holds its key until another time than its result says' FROM claim c JOIN intent i ON i.id = c.id JOIN result r ON r.id = c.id
		WHERE c.until IS DISTINCT FROM r.claim_until AND r.claim_until IS NOT NULL`},
	{"claim", `SELECT i.id::text, 'is named by the claim of another key' FROM claim c JOIN intent i ON i.id = c.id
		WHERE c.key IS DISTINCT FROM ` + digest(claimKeyOf)},
	{"body", `SELECT x.id::text, 'a body without a head' FROM body x` + headless},
	{"body", `SELECT r.id::text, 'its answer has lost its body' FROM result r LEFT JOIN body b ON b.id = r.id AND b.kind = 2
		WHERE r.answer_body AND b.id IS NULL AND r.body_data IS NULL AND r.claim_due IS NOT NULL`},
	{"derived", `SELECT 'derived ' || encode(x.key, 'hex'), 'a derived key without a head' FROM derived x` + headless},
	{"derived", `SELECT i.id::text, 'is found under another derived key than its own' FROM derived d JOIN intent i ON i.id = d.id
		WHERE d.key IS DISTINCT FROM ` + digest(`coalesce(i.idempotency_key, '')`)},
	{"outcome", `SELECT id::text, 'is ' || CASE state WHEN 3 THEN 'unknown' ELSE 'under way' END || ', and its outcome says otherwise' FROM open
		WHERE state <> 4 AND coalesce(outcome, 0) <> CASE state WHEN 3 THEN 4 ELSE 1 END`},
	{"cached", `SELECT c.id::text, 'is found by other requests, and its answer is not kept' FROM cached c LEFT JOIN intent i ON i.id = c.id
		LEFT JOIN result r ON r.id = c.id AND ` + hasAnswer + ` WHERE r.id IS NULL OR i.id IS NULL`},
	{"cached", `SELECT i.id::text, 'is found by other requests although it did more than generate' FROM cached c JOIN intent i ON i.id = c.id
		WHERE i.effect IS DISTINCT FROM 2`},
	{"cached", `SELECT c.id::text, 'a row of the index over answers is damaged' FROM cached c
		WHERE length(c.partition) <> 32 OR c.kind NOT BETWEEN 1 AND 2 OR c.expires_at <= 0`},
	{"cooldown", `SELECT route, 'a cool-down without an end' FROM cooldown WHERE until <= 0`},
	// Whatever has something left to do is on a list of the sweep.
	{"due", unlisted("claim_due", dueClaims, "its claim will end, and no sweep will find it")},
	{"due", unlisted("body_due", dueBodies, "its bodies will be due, and no sweep will find them")},
}

// hasAnswer says that the result r is a success whose body is here, in its row or in one of its own.
const hasAnswer = `r.outcome = 2 AND r.answer_body AND (r.body_data IS NOT NULL OR EXISTS (SELECT 1 FROM body b WHERE b.id = r.id AND b.kind = 2))`

func unlisted(column string, kind int, detail string) string {
	return `WITH listed AS MATERIALIZED (SELECT DISTINCT unnest(ids) AS id FROM due WHERE kind = ` + string(rune('0'+kind)) + `)
		SELECT r.id::text, '` + detail + `' FROM result r LEFT JOIN listed l ON l.id = r.id WHERE r.` + column + ` IS NOT NULL AND l.id IS NULL`
}
