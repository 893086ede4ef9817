-- Times are integer microseconds since the Unix epoch, NULL for "none"; the words of small enumerations are in the
-- views at the end. A zero value is stored as NULL. Keys are the first 16 bytes of the key's SHA-256.
--
-- What grows for ever (intent, result, event, body) is partitioned by the id, which begins with its time: old
-- partitions are left alone, and go whole. What every call touches (open, claim) stays as small as what is going on.

-- +goose Up
CREATE TABLE meta (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE secret (name text PRIMARY KEY, value bytea NOT NULL);

-- The head of an operation and the events of its first commit. Rows are never updated.
CREATE TABLE intent (
  id uuid NOT NULL,
  created_at bigint NOT NULL,
  tenant text, workflow text, idempotency_key text,
  job_id text, owner_key text,
  effect smallint, hold boolean, explicit boolean,
  claimed boolean, -- a claim was taken with it: on idempotency_key, or on claim_key where that is there
  claim_key text,
  fingerprint bytea,
  method text, path text, provider text, endpoint text, requested_model text, stream boolean,
  priority text, max_attempts integer, fallback_allowed text, estimated_cost double precision,
  policy_revision text, cause text, parent_id text, callback text,
  events json,
  PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE TABLE intent_default PARTITION OF intent DEFAULT;

-- One row per unsettled intent, changed by compare-and-set on version. Version 0 is that of a row which is settled
-- in the transaction that made it.
CREATE TABLE open (
  id uuid PRIMARY KEY,
  version bigint NOT NULL, state smallint NOT NULL, outcome smallint,
  lane text, visibility smallint, delivery smallint, attempt integer, crashes integer,
  route_key text, served_model text, tier text,
  ready_at bigint, expires_at bigint, retry_after bigint,
  lease_owner text, lease_until bigint,
  partial boolean, billed_maybe integer, last_error_type text,
  usage_in bigint, usage_out bigint, updated_at bigint
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
-- Partial, so that an ordinary call never touches them; a query has to say state = 3, or lease_owner IS NULL, too.
CREATE INDEX open_unknown ON open (id) WHERE state = 3;
CREATE INDEX open_expires ON open (expires_at) WHERE expires_at IS NOT NULL AND lease_owner IS NULL;

-- The end of an operation: its last status, what is replayed, the events of the settling commit. A small answer is
-- in the row, laid out as in body; a larger one is there.
CREATE TABLE result (
  id uuid NOT NULL,
  version bigint NOT NULL, state smallint NOT NULL, outcome smallint,
  lane text, visibility smallint, delivery smallint, attempt integer, crashes integer,
  route_key text, served_model text, tier text,
  ready_at bigint, expires_at bigint, retry_after bigint,
  lease_owner text, lease_until bigint,
  partial boolean, billed_maybe integer, last_error_type text,
  usage_in bigint, usage_out bigint, updated_at bigint,
  settled_at bigint NOT NULL,
  claim_until bigint, -- when the claim that was kept ends
  claim_due bigint,   -- the same, until the sweep has removed the claim
  body_due bigint,    -- the claim's end, from which the age of bodies counts, until the sweep has removed them
  answer_status integer, answer_header json, answer_source text, answer_events integer, answer_body boolean,
  events json,
  body_type text, body_packed boolean, body_size integer, body_digest bigint, body_data bytea,
  PRIMARY KEY (id)
) PARTITION BY RANGE (id);
-- What is packed already is not worth another try.
ALTER TABLE result ALTER body_data SET STORAGE EXTERNAL;
CREATE TABLE result_default PARTITION OF result DEFAULT;

-- Intents whose claim (kind 1) or whose bodies (kind 2) the sweep has to look at from a time on, in whole seconds:
-- one row for all that one transaction settled. Each has its exact time in its result.
CREATE TABLE due (
  kind smallint NOT NULL, at bigint NOT NULL, n bigint GENERATED ALWAYS AS IDENTITY, ids uuid[] NOT NULL, PRIMARY KEY (kind, at, n)
);

-- Events of the commits between the first and the last (n = 0), and what was appended while a version stood, in the
-- order of n.
CREATE SEQUENCE note;
CREATE TABLE event (
  id uuid NOT NULL, version bigint NOT NULL, n bigint NOT NULL, events json NOT NULL, PRIMARY KEY (id, version, n)
) PARTITION BY RANGE (id);
CREATE TABLE event_default PARTITION OF event DEFAULT;

-- packed: data is S2-compressed; size is its length before. digest: see checksum in encode.go.
CREATE TABLE body (
  id uuid NOT NULL, kind smallint NOT NULL,
  content_type text, packed boolean, size integer NOT NULL, digest bigint, data bytea NOT NULL,
  PRIMARY KEY (id, kind)
) PARTITION BY RANGE (id);
ALTER TABLE body ALTER data SET STORAGE EXTERNAL;
CREATE TABLE body_default PARTITION OF body DEFAULT;

-- Live claims: of an unsettled intent (until is NULL), or of a settled one until its end.
CREATE TABLE claim (
  key bytea PRIMARY KEY, id uuid NOT NULL, until bigint
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000);
CREATE TABLE derived (key bytea NOT NULL, id uuid NOT NULL, until bigint NOT NULL, PRIMARY KEY (key, id));

-- The index over settled answers. The answer itself is the intent's own.
CREATE TABLE cached (
  id uuid NOT NULL, kind smallint NOT NULL, partition bytea NOT NULL, data bytea NOT NULL, expires_at bigint NOT NULL,
  PRIMARY KEY (id, kind)
);
CREATE INDEX cached_expires ON cached (expires_at);

CREATE TABLE owner (owner text PRIMARY KEY, until bigint NOT NULL, info bytea);
CREATE TABLE cooldown (route text PRIMARY KEY, until bigint NOT NULL, reason text);
CREATE TABLE policy (revision text PRIMARY KEY, text bytea NOT NULL, first_at bigint NOT NULL);

-- The connections that write, the number of the last transaction that each committed, and which of its writes that
-- applied. Whoever takes a row away knows by it what became of a commit that nobody confirmed, and no commit of that
-- connection can come later (lost.go).
CREATE TABLE writer (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, batch bigint NOT NULL DEFAULT 0, applied integer[] NOT NULL DEFAULT '{}',
  at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 200);

-- The rows of a batch as they come over the wire. They have types of their own, so that a column that a newer program
-- adds to a table does not stop those that are still running.
-- n says which write of the batch a row belongs to.
CREATE TYPE insert_row AS (
  n integer, id uuid, created_at bigint, tenant text, workflow text, idempotency_key text, job_id text, owner_key text,
  effect smallint, hold boolean, explicit boolean, claimed boolean, claim_key text, fingerprint bytea, method text,
  path text, provider text, endpoint text, requested_model text, stream boolean, priority text, max_attempts integer,
  fallback_allowed text, estimated_cost double precision, policy_revision text, cause text, parent_id text, callback text,
  version bigint, state smallint, outcome smallint, lane text, visibility smallint, delivery smallint, attempt integer,
  crashes integer, route_key text, served_model text, tier text, ready_at bigint, expires_at bigint, retry_after bigint,
  lease_owner text, lease_until bigint, partial boolean, billed_maybe integer, last_error_type text, usage_in bigint,
  usage_out bigint, updated_at bigint,
  events json, key bytea, derived bytea, derived_until bigint
);
CREATE TYPE change_row AS (
  n integer, id uuid, expected bigint, version bigint, state smallint, outcome smallint, lane text, visibility smallint, delivery smallint, attempt integer,
  crashes integer, route_key text, served_model text, tier text, ready_at bigint, expires_at bigint, retry_after bigint,
  lease_owner text, lease_until bigint, partial boolean, billed_maybe integer, last_error_type text, usage_in bigint,
  usage_out bigint, updated_at bigint,
  events json
);
CREATE TYPE settle_row AS (
  n integer, id uuid, expected bigint, version bigint, state smallint, outcome smallint, lane text, visibility smallint, delivery smallint, attempt integer,
  crashes integer, route_key text, served_model text, tier text, ready_at bigint, expires_at bigint, retry_after bigint,
  lease_owner text, lease_until bigint, partial boolean, billed_maybe integer, last_error_type text, usage_in bigint,
  usage_out bigint, updated_at bigint,
  events json, settled_at bigint, key bytea, keep_until bigint,
  answer_status integer, answer_header json, answer_source text, answer_events integer, answer_body boolean,
  body_type text, body_packed boolean, body_size integer, body_digest bigint, body_data bytea, replaces boolean
);
CREATE TYPE append_row AS (
  n integer, id uuid, events json, derived bytea, lane text, shelve_for text, cached boolean, bodies boolean
);
CREATE TYPE lease_row AS (n integer, id uuid, expected bigint, lease_owner text, lease_until bigint, ready_at bigint);
CREATE TYPE body_row AS (
  n integer, id uuid, kind smallint, content_type text, packed boolean, size integer, digest bigint, data bytea
);
CREATE TYPE cached_row AS (n integer, id uuid, kind smallint, partition bytea, data bytea, expires_at bigint);

-- For people with psql.
CREATE VIEW status AS
  SELECT id, version, state, outcome, lane, visibility, delivery, attempt, crashes, route_key, served_model,
    tier, ready_at, expires_at, retry_after, lease_owner, lease_until, partial, billed_maybe, last_error_type,
    usage_in, usage_out, updated_at, NULL::bigint AS settled_at, NULL::bigint AS claim_until FROM open
  UNION ALL
  SELECT id, version, state, outcome, lane, visibility, delivery, attempt, crashes, route_key, served_model,
    tier, ready_at, expires_at, retry_after, lease_owner, lease_until, partial, billed_maybe, last_error_type,
    usage_in, usage_out, updated_at, settled_at, claim_until FROM result;

CREATE VIEW intents AS
  SELECT i.id, i.job_id, i.idempotency_key, i.tenant, i.workflow, i.owner_key, s.route_key, i.requested_model,
    s.served_model, s.tier, coalesce(s.attempt, 0) AS attempt, i.max_attempts,
    to_timestamp(i.created_at / 1e6) AS created_at, to_timestamp(s.ready_at / 1e6) AS ready_at,
    to_timestamp(s.expires_at / 1e6) AS expires_at,
    s.retry_after / 1000 AS retry_after_ms, i.fallback_allowed,
    coalesce(s.partial, false) AS partial_output_committed, s.last_error_type, i.estimated_cost,
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
    to_timestamp(s.settled_at / 1e6) AS settled_at, to_timestamp(s.claim_until / 1e6) AS claim_until
  FROM intent i LEFT JOIN status s ON s.id = i.id;

CREATE VIEW history AS
  SELECT h.id AS intent, h.version, h.n, e.line - 1 AS line, coalesce(e.value ->> 'at', h.events -> 0 ->> 'at') AS at,
    e.value ->> 'kind' AS kind, e.value ->> 'from' AS "from", e.value ->> 'to' AS "to",
    coalesce(e.value ->> 'actor', h.events -> 0 ->> 'actor') AS actor,
    e.value ->> 'reason' AS reason, e.value ->> 'rule' AS rule, e.value ->> 'attempt' AS attempt,
    e.value ->> 'route' AS route, e.value ->> 'end' AS "end", e.value ->> 'status' AS status,
    e.value ->> 'error' AS error, e.value AS event
  FROM (SELECT id, 1 AS version, 0 AS n, events FROM intent
        UNION ALL SELECT id, version, n, events FROM event
        UNION ALL SELECT id, version, 0, events FROM result) h,
    json_array_elements(h.events) WITH ORDINALITY AS e (value, line);
