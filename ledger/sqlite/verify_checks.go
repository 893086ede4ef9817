package sqlite

// invariant is an invariant as a query for the rows that break it: a name for the row, and what is wrong with it.
type invariant struct{ rule, sql string }

var checks = []invariant{
	{"meta", `SELECT w.value, 'is not in the store: it was not made by this program, or it is damaged' FROM json_each('["env", "created"]') w
		LEFT JOIN meta m ON m.name = w.value WHERE coalesce(m.value, '') = ''`},
	{"secret", `SELECT w.value, 'is lost or cut: tenants, and the keys that far sides know, would change with a new one; restore the store'
		FROM json_each('["salt", "hmac"]') w LEFT JOIN secret s ON s.name = w.value WHERE coalesce(length(s.value), 0) <> 32`},
	{"place", `SELECT id, 'stands where its id does not lead' FROM intent WHERE seq NOT BETWEEN place(id) AND place(id) + 63`},
	{"place", `SELECT id, 'stands in the log twice' FROM intent i WHERE EXISTS
		(SELECT 1 FROM intent j WHERE j.seq > i.seq AND j.seq < i.seq + 64 AND j.id = i.id)`},
	{"time", `SELECT i.id, 'was settled before it was created' FROM result r JOIN intent i ON i.seq = r.seq WHERE r.settled_at < i.created_at`},
	{"integrity", `SELECT 'file', integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'`},
	{"one_status", `SELECT i.id, iif(r.seq IS NULL, 'has no status: neither open nor settled', 'is open and settled at once')
		FROM intent i LEFT JOIN open o ON o.seq = i.seq LEFT JOIN result r ON r.seq = i.seq
		WHERE (o.seq IS NULL) = (r.seq IS NULL)`},
	{"one_status", `SELECT 'seq ' || o.seq, 'is open without a head' FROM open o LEFT JOIN intent i ON i.seq = o.seq
		WHERE i.seq IS NULL`},
	{"one_status", `SELECT 'seq ' || r.seq, 'is settled without a head' FROM result r LEFT JOIN intent i ON i.seq = r.seq
		WHERE i.seq IS NULL`},
	{"state", `SELECT i.id, 'is open in state ' || o.state FROM open o JOIN intent i ON i.seq = o.seq
		WHERE o.state NOT BETWEEN 1 AND 4`},
	{"state", `SELECT i.id, 'is settled in state ' || r.state FROM result r JOIN intent i ON i.seq = r.seq WHERE r.state <> 5`},
	{"outcome", `SELECT i.id, 'is settled, and its outcome is pending' FROM result r JOIN intent i ON i.seq = r.seq
		WHERE coalesce(r.outcome, 0) NOT BETWEEN 2 AND 5`},
	{"version", `SELECT i.id, 'event of version ' || e.version || ' beyond version ' || coalesce(o.version, r.version)
		FROM event e JOIN intent i ON i.seq = e.seq LEFT JOIN open o ON o.seq = i.seq LEFT JOIN result r ON r.seq = i.seq
		WHERE e.version > coalesce(o.version, r.version) OR e.version < 1 OR (e.n = 0 AND e.version < 2)`},
	{"event", `SELECT 'seq ' || e.seq, 'events without a head' FROM event e LEFT JOIN intent i ON i.seq = e.seq
		WHERE i.seq IS NULL`},
	{"claim", `SELECT 'claim ' || hex(c.key), 'is held by no intent' FROM claim c LEFT JOIN intent i ON i.seq = c.seq WHERE i.seq IS NULL`},
	{"claim", `SELECT i.id, 'holds ' || ` + claimKeyOf + ` || ' although it is settled and released' FROM claim c JOIN intent i ON i.seq = c.seq
		JOIN result r ON r.seq = c.seq WHERE r.claim_until IS NULL`},
	{"claim", `SELECT i.id, 'is unsettled and does not hold the key it claimed' FROM open o JOIN intent i ON i.seq = o.seq
		LEFT JOIN claim c ON c.key = digest(` + claimKeyOf + `) WHERE i.claimed IS NOT NULL AND c.seq IS NOT o.seq`},
	{"claim", `SELECT i.id, 'has lost a key that it still replays' FROM result r JOIN intent i ON i.seq = r.seq
		LEFT JOIN claim c ON c.key = digest(` + claimKeyOf + `) WHERE r.claim_until > ?1 AND c.seq IS NOT r.seq`},
	{"claim", `SELECT i.id, 'is named by the claim of another key' FROM claim c JOIN intent i ON i.seq = c.seq
		WHERE c.key IS NOT digest(` + claimKeyOf + `)`},
	{"body", `SELECT 'slot ' || slot, 'a body without a head' FROM body b LEFT JOIN intent i ON i.seq = b.slot / 8
		WHERE i.seq IS NULL`},
	{"body", `SELECT i.id, 'its answer has lost its body' FROM result r JOIN intent i ON i.seq = r.seq
		LEFT JOIN body b ON b.slot = 8 * r.seq + 2
		WHERE r.answer_body AND b.slot IS NULL AND r.body_data IS NULL AND r.claim_due IS NOT NULL`},
	{"derived", `SELECT 'derived ' || hex(d.key), 'a derived key without a head' FROM derived d LEFT JOIN intent i ON i.seq = d.seq
		WHERE i.seq IS NULL`},
	{"derived", `SELECT i.id, 'is found under another derived key than its own' FROM derived d JOIN intent i ON i.seq = d.seq
		WHERE d.key IS NOT digest(i.idempotency_key)`},
	{"outcome", `SELECT i.id, 'is ' || iif(o.state = 3, 'unknown', 'under way') || ', and its outcome says otherwise' FROM open o
		JOIN intent i ON i.seq = o.seq WHERE o.state <> 4 AND coalesce(o.outcome, 0) <> iif(o.state = 3, 4, 1)`},
	{"cached", `SELECT coalesce(i.id, 'slot ' || c.slot), 'is found by other requests, and its answer is not kept' FROM cached c LEFT JOIN intent i ON i.seq = c.slot / 8
		LEFT JOIN result r ON r.seq = c.slot / 8 AND ` + hasAnswer + ` WHERE r.seq IS NULL OR i.seq IS NULL`},
	{"cached", `SELECT i.id, 'is found by other requests although it did more than generate' FROM cached c JOIN intent i ON i.seq = c.slot / 8
		WHERE i.effect IS NOT 2`},
	{"cached", `SELECT i.id, 'a row of the index over answers is damaged' FROM cached c JOIN intent i ON i.seq = c.slot / 8
		WHERE length(c.partition) <> 32 OR c.slot % 8 NOT BETWEEN 1 AND 2 OR c.expires_at <= 0`},
	{"cooldown", `SELECT route, 'a cool-down without an end' FROM cooldown WHERE until <= 0`},
}
