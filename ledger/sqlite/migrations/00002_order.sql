-- seq becomes the id's own time (place.go), which takes the index over all ids out of every insertion. What is due
-- is listed once for all that were settled together, which takes an index out of every settling; and what somebody
-- works on is in no index by its expiry. Bodies have a digest. Events that were written together say their time and
-- their actor once, in the first, but for those that differ.

-- +goose Up
DROP VIEW history;
DROP VIEW intents;
DROP VIEW status;

-- The 15 digits of an id's time, one by one: SQLite reads no hexadecimal text. Of ids that share one the later
-- stands at the next free seq, which for the n-th is n + the greatest (place - n) so far.
CREATE TABLE moved (old INTEGER PRIMARY KEY, seq INTEGER NOT NULL);
INSERT INTO moved
  WITH placed AS (
    SELECT seq AS old, id, row_number() OVER (ORDER BY id) AS n, max(1,
      (instr('123456789abcdef', substr(id, 1, 1)) << 56) | (instr('123456789abcdef', substr(id, 2, 1)) << 52) |
      (instr('123456789abcdef', substr(id, 3, 1)) << 48) | (instr('123456789abcdef', substr(id, 4, 1)) << 44) |
      (instr('123456789abcdef', substr(id, 5, 1)) << 40) | (instr('123456789abcdef', substr(id, 6, 1)) << 36) |
      (instr('123456789abcdef', substr(id, 7, 1)) << 32) | (instr('123456789abcdef', substr(id, 8, 1)) << 28) |
      (instr('123456789abcdef', substr(id, 10, 1)) << 24) | (instr('123456789abcdef', substr(id, 11, 1)) << 20) |
      (instr('123456789abcdef', substr(id, 12, 1)) << 16) | (instr('123456789abcdef', substr(id, 13, 1)) << 12) |
      (instr('123456789abcdef', substr(id, 16, 1)) << 8) | (instr('123456789abcdef', substr(id, 17, 1)) << 4) |
      instr('123456789abcdef', substr(id, 18, 1))) AS place
    FROM intent)
  SELECT old, n + max(place - n) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) FROM placed;

-- The head of an operation and the events of its first commit. Rows are never updated.
CREATE TABLE intent2 (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  tenant TEXT, workflow TEXT, idempotency_key TEXT,
  job_id TEXT, owner_key TEXT,
  effect INTEGER, hold INTEGER, explicit INTEGER,
  claimed, -- 1: idempotency_key was claimed; a text: that key was
  fingerprint BLOB,
  method TEXT, path TEXT, provider TEXT, endpoint TEXT, requested_model TEXT, stream INTEGER,
  priority TEXT, max_attempts INTEGER, fallback_allowed TEXT, estimated_cost REAL,
  policy_revision TEXT, cause TEXT, parent_id TEXT,
  events TEXT
);
INSERT INTO intent2 SELECT m.seq, i.id, i.created_at, i.tenant, i.workflow, i.idempotency_key, i.job_id, i.owner_key,
    i.effect, i.hold, i.explicit, i.claimed, i.fingerprint, i.method, i.path, i.provider, i.endpoint, i.requested_model,
    i.stream, i.priority, i.max_attempts, i.fallback_allowed, i.estimated_cost, i.policy_revision, i.cause, i.parent_id,
    i.events
  FROM moved m JOIN intent i ON i.seq = m.old ORDER BY m.seq;

-- Rows move by way of negative numbers, which nothing has: a new seq may be another's old one.
DROP INDEX open_expires;
UPDATE open SET seq = -(SELECT m.seq FROM moved m WHERE m.old = open.seq);
UPDATE open SET seq = -seq;
-- Partial, so that a call whose owner lives never touches it; the query has to say lease_owner IS NULL too.
CREATE INDEX open_expires ON open (expires_at) WHERE expires_at IS NOT NULL AND lease_owner IS NULL;

CREATE TABLE result2 (
  seq INTEGER PRIMARY KEY,
  version INTEGER NOT NULL, state INTEGER NOT NULL, outcome INTEGER,
  lane TEXT, visibility INTEGER, delivery INTEGER, attempt INTEGER, crashes INTEGER,
  route_key TEXT, served_model TEXT, tier TEXT,
  ready_at INTEGER, expires_at INTEGER, retry_after INTEGER,
  lease_owner TEXT, lease_until INTEGER,
  partial INTEGER, billed_maybe INTEGER, last_error_type TEXT,
  usage_in INTEGER, usage_out INTEGER, updated_at INTEGER,
  settled_at INTEGER NOT NULL,
  claim_until INTEGER, -- when the claim that was kept ends
  claim_due INTEGER,   -- the same, until the sweep has removed the claim
  body_due INTEGER,    -- the claim's end, from which the age of bodies counts, until the sweep has removed them
  answer_status INTEGER, answer_header TEXT, answer_source TEXT, answer_events INTEGER, answer_body INTEGER,
  events TEXT,
  body_type TEXT, body_packed INTEGER, body_size INTEGER, body_digest INTEGER, body_data BLOB
);
INSERT INTO result2 SELECT m.seq, r.version, r.state, r.outcome, r.lane, r.visibility, r.delivery, r.attempt, r.crashes,
    r.route_key, r.served_model, r.tier, r.ready_at, r.expires_at, r.retry_after, r.lease_owner, r.lease_until,
    r.partial, r.billed_maybe, r.last_error_type, r.usage_in, r.usage_out, r.updated_at, r.settled_at, r.claim_until,
    r.claim_due, r.body_due, r.answer_status, r.answer_header, r.answer_source, r.answer_events, r.answer_body,
    r.events, r.body_type, r.body_packed, r.body_size, NULL, r.body_data
  FROM moved m JOIN result r ON r.seq = m.old ORDER BY m.seq;

-- Intents whose claim (kind 1) or whose bodies (kind 2) the sweep has to look at from a time on, in whole seconds.
-- seq is the list's first; more holds the others, each as its distance from the one before, in LEB128.
CREATE TABLE due (
  kind INTEGER, at INTEGER, seq INTEGER, more BLOB, PRIMARY KEY (kind, at, seq)
) WITHOUT ROWID;
INSERT INTO due SELECT 1, claim_due - claim_due % 1000000, seq, NULL FROM result2 WHERE claim_due IS NOT NULL;
INSERT INTO due SELECT 2, body_due - body_due % 1000000, seq, NULL FROM result2 WHERE body_due IS NOT NULL;

CREATE TABLE event2 (
  seq INTEGER, version INTEGER, n INTEGER, events TEXT NOT NULL, PRIMARY KEY (seq, version, n)
) WITHOUT ROWID;
INSERT INTO event2 SELECT m.seq, e.version, e.n, e.events FROM moved m JOIN event e ON e.seq = m.old
  ORDER BY m.seq, e.version, e.n;

-- slot = 8 * seq + kind. packed = 1: data is S2-compressed; size is its length before. digest: see checksum in
-- encode.go; NULL for a body that is older than digests.
CREATE TABLE body2 (
  slot INTEGER PRIMARY KEY, content_type TEXT, packed INTEGER, size INTEGER NOT NULL, digest INTEGER, data BLOB NOT NULL
);
INSERT INTO body2 SELECT 8 * m.seq + b.slot % 8, b.content_type, b.packed, b.size, NULL, b.data
  FROM moved m JOIN body b ON b.slot / 8 = m.old ORDER BY m.seq;

UPDATE claim SET seq = (SELECT m.seq FROM moved m WHERE m.old = claim.seq);
CREATE TABLE derived2 (key BLOB, seq INTEGER, until INTEGER NOT NULL, PRIMARY KEY (key, seq)) WITHOUT ROWID;
INSERT INTO derived2 SELECT d.key, m.seq, d.until FROM derived d JOIN moved m ON m.old = d.seq ORDER BY d.key, m.seq;

DROP TABLE intent;
DROP TABLE result;
DROP TABLE event;
DROP TABLE body;
DROP TABLE derived;
DROP TABLE moved;
ALTER TABLE intent2 RENAME TO intent;
ALTER TABLE result2 RENAME TO result;
ALTER TABLE event2 RENAME TO event;
ALTER TABLE body2 RENAME TO body;
ALTER TABLE derived2 RENAME TO derived;

-- For people with the sqlite3 shell.
CREATE VIEW status AS
  SELECT seq, version, state, outcome, lane, visibility, delivery, attempt, crashes, route_key, served_model,
    tier, ready_at, expires_at, retry_after, lease_owner, lease_until, partial, billed_maybe, last_error_type,
    usage_in, usage_out, updated_at, NULL AS settled_at, NULL AS claim_until FROM open
  UNION ALL
  SELECT seq, version, state, outcome, lane, visibility, delivery, attempt, crashes, route_key, served_model,
    tier, ready_at, expires_at, retry_after, lease_owner, lease_until, partial, billed_maybe, last_error_type,
    usage_in, usage_out, updated_at, settled_at, claim_until FROM result;

CREATE VIEW intents AS
  SELECT i.id, i.job_id, i.idempotency_key, i.tenant, i.workflow, i.owner_key, s.route_key, i.requested_model,
    s.served_model, s.tier, coalesce(s.attempt, 0) AS attempt, i.max_attempts,
    strftime('%Y-%m-%dT%H:%M:%fZ', i.created_at / 1e6, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', s.ready_at / 1e6, 'unixepoch') AS ready_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', s.expires_at / 1e6, 'unixepoch') AS expires_at,
    s.retry_after / 1000 AS retry_after_ms, i.fallback_allowed,
    coalesce(s.partial, 0) AS partial_output_committed, s.last_error_type, i.estimated_cost,
    coalesce(s.usage_in, 0) + coalesce(s.usage_out, 0) AS usage_units,
    CASE s.visibility WHEN 1 THEN 'background_only' WHEN 2 THEN 'before_first_token' WHEN 3 THEN 'partial_output'
      WHEN 4 THEN 'complete' END AS visibility_state,
    s.lane,
    CASE s.state WHEN 1 THEN 'intent_created' WHEN 2 THEN 'dispatched' WHEN 3 THEN 'unknown'
      WHEN 4 THEN 'confirmed' WHEN 5 THEN 'settled' END AS state,
    CASE s.outcome WHEN 1 THEN 'pending' WHEN 2 THEN 'success' WHEN 3 THEN 'failed' WHEN 4 THEN 'unknown'
      WHEN 5 THEN 'discarded' END AS outcome,
    CASE coalesce(s.delivery, 0) WHEN 0 THEN 'open' WHEN 1 THEN 'lost' WHEN 2 THEN 'sent' WHEN 3 THEN 'assumed' END
      AS delivery,
    CASE i.effect WHEN 1 THEN 'read' WHEN 2 THEN 'generation' WHEN 3 THEN 'external' END AS effect,
    i.method, i.path, i.provider, i.endpoint, coalesce(s.billed_maybe, 0) AS possibly_billed,
    strftime('%Y-%m-%dT%H:%M:%fZ', s.settled_at / 1e6, 'unixepoch') AS settled_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', s.claim_until / 1e6, 'unixepoch') AS claim_until
  FROM intent i LEFT JOIN status s ON s.seq = i.seq;

CREATE VIEW history AS
  SELECT i.id AS intent, h.version, h.n, e.key AS line, coalesce(e.value ->> 'at', h.events ->> '$[0].at') AS at,
    e.value ->> 'kind' AS kind, e.value ->> 'from' AS "from", e.value ->> 'to' AS "to",
    coalesce(e.value ->> 'actor', h.events ->> '$[0].actor') AS actor,
    e.value ->> 'reason' AS reason, e.value ->> 'rule' AS rule, e.value ->> 'attempt' AS attempt,
    e.value ->> 'route' AS route, e.value ->> 'end' AS "end", e.value ->> 'status' AS status,
    e.value ->> 'error' AS error, e.value AS event
  FROM (SELECT seq, 1 AS version, 0 AS n, events FROM intent
        UNION ALL SELECT seq, version, n, events FROM event
        UNION ALL SELECT seq, version, 0, events FROM result) h
    JOIN intent i ON i.seq = h.seq, json_each(h.events) e;
