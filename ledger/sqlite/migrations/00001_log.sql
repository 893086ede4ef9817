-- Times are integer microseconds since the Unix epoch, NULL for "none"; the words of small enumerations are in the
-- views at the end. A zero value is stored as NULL.
--
-- The order of insertion, seq, is the key of everything that grows, so that a write appends to each tree and is
-- found by a comparison of integers. Random keys are only in claim and derived, which hold what is live, and there
-- they are the first 16 bytes of the key's SHA-256: a key is 40 to 300 bytes long.

-- +goose Up
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE secret (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;

-- The head of an operation and the events of its first commit. Rows are never updated.
CREATE TABLE intent (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
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

-- One row per unsettled intent, changed by compare-and-set on version.
CREATE TABLE open (
  seq INTEGER PRIMARY KEY,
  version INTEGER NOT NULL, state INTEGER NOT NULL, outcome INTEGER,
  lane TEXT, visibility INTEGER, delivery INTEGER, attempt INTEGER, crashes INTEGER,
  route_key TEXT, served_model TEXT, tier TEXT,
  ready_at INTEGER, expires_at INTEGER, retry_after INTEGER,
  lease_owner TEXT, lease_until INTEGER,
  partial INTEGER, billed_maybe INTEGER, last_error_type TEXT,
  usage_in INTEGER, usage_out INTEGER, updated_at INTEGER
);
-- Partial, so that an ordinary call never touches it; the query has to say state=3 too.
CREATE INDEX open_unknown ON open (state) WHERE state = 3;
CREATE INDEX open_expires ON open (expires_at) WHERE expires_at IS NOT NULL;

-- The end of an operation: its last status, what is replayed, the events of the settling commit. A small answer is
-- in the row, laid out as in body; a larger one is there.
CREATE TABLE result (
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
  body_type TEXT, body_packed INTEGER, body_size INTEGER, body_data BLOB
);
CREATE INDEX result_claim ON result (claim_due) WHERE claim_due IS NOT NULL;
CREATE INDEX result_body ON result (body_due) WHERE body_due IS NOT NULL;

-- Events of the commits between the first and the last (n = 0), and what was appended while a version stood.
CREATE TABLE event (
  seq INTEGER, version INTEGER, n INTEGER, events TEXT NOT NULL, PRIMARY KEY (seq, version, n)
) WITHOUT ROWID;

-- slot = 8 * seq + kind. packed = 1: data is S2-compressed; size is its length before.
CREATE TABLE body (
  slot INTEGER PRIMARY KEY, content_type TEXT, packed INTEGER, size INTEGER NOT NULL, data BLOB NOT NULL
);

-- Live claims: of an unsettled intent, or of a settled one until its claim_until. Settling does not touch the row.
CREATE TABLE claim (key BLOB PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE derived (key BLOB, seq INTEGER, until INTEGER NOT NULL, PRIMARY KEY (key, seq)) WITHOUT ROWID;

CREATE TABLE owner (owner TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE cooldown (route TEXT PRIMARY KEY, until INTEGER NOT NULL, reason TEXT) WITHOUT ROWID;
CREATE TABLE policy (revision TEXT PRIMARY KEY, text BLOB NOT NULL, first_at INTEGER NOT NULL) WITHOUT ROWID;

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
  SELECT i.id AS intent, h.version, h.n, e.key AS line, e.value ->> 'at' AS at, e.value ->> 'kind' AS kind,
    e.value ->> 'from' AS "from", e.value ->> 'to' AS "to", e.value ->> 'actor' AS actor,
    e.value ->> 'reason' AS reason, e.value ->> 'rule' AS rule, e.value ->> 'attempt' AS attempt,
    e.value ->> 'route' AS route, e.value ->> 'end' AS "end", e.value ->> 'status' AS status,
    e.value ->> 'error' AS error, e.value AS event
  FROM (SELECT seq, 1 AS version, 0 AS n, events FROM intent
        UNION ALL SELECT seq, version, n, events FROM event
        UNION ALL SELECT seq, version, 0, events FROM result) h
    JOIN intent i ON i.seq = h.seq, json_each(h.events) e;
