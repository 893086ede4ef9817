-- Shared state: small, and no loss when it is lost, so its tables write no log of their own.
CREATE SCHEMA IF NOT EXISTS holdfast_shared;

CREATE UNLOGGED TABLE IF NOT EXISTS holdfast_shared.register (
  env text NOT NULL, key text NOT NULL, version bigint NOT NULL, value bytea NOT NULL,
  changed timestamptz NOT NULL, expires timestamptz,
  PRIMARY KEY (env, key)
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS register_changed ON holdfast_shared.register (env, changed);

CREATE UNLOGGED TABLE IF NOT EXISTS holdfast_shared.slots (
  env text NOT NULL, key text NOT NULL, holder text NOT NULL, held int NOT NULL, batch int NOT NULL,
  expires timestamptz NOT NULL, seq bigint NOT NULL, unmet timestamptz NOT NULL,
  PRIMARY KEY (env, key, holder)
) WITH (fillfactor = 50);

CREATE UNLOGGED TABLE IF NOT EXISTS holdfast_shared.sum (
  env text NOT NULL, key text NOT NULL, total bigint NOT NULL, expires timestamptz NOT NULL,
  PRIMARY KEY (env, key)
) WITH (fillfactor = 50);

-- Writes a register whose version is the one given, 0 where there is none.
CREATE OR REPLACE FUNCTION holdfast_shared.swap_1(e text, k text, was bigint, v bytea, ttl_ms bigint,
  OUT ok boolean, OUT version bigint, OUT value bytea) LANGUAGE plpgsql AS $$
DECLARE
  n timestamptz;
  r holdfast_shared.register;
BEGIN
  PERFORM pg_advisory_xact_lock(1752131188, hashtext(e || '/' || k));
  n := clock_timestamp();
  SELECT * INTO r FROM holdfast_shared.register x WHERE x.env = e AND x.key = k AND (x.expires IS NULL OR x.expires > n);
  IF coalesce(r.version, 0) <> was THEN
    ok := false; version := coalesce(r.version, 0); value := r.value;
    RETURN;
  END IF;
  -- Later than any version that was ever given, as the clock is.
  ok := true; value := v;
  version := greatest(was + 1, (extract(epoch FROM n) * 1000000)::bigint);
  INSERT INTO holdfast_shared.register AS x VALUES (e, k, swap_1.version, v, n, CASE WHEN ttl_ms > 0 THEN n + ttl_ms * interval '1 ms' END)
  ON CONFLICT ON CONSTRAINT register_pkey DO UPDATE SET version = excluded.version, value = excluded.value, changed = excluded.changed, expires = excluded.expires;
END $$;

-- Sets what a holder has of a key's slots.
CREATE OR REPLACE FUNCTION holdfast_shared.lease_1(e text, k text, h text, s bigint, hold int, hold_batch int, want int, want_batch int,
  most int, most_batch int, ttl_ms bigint, unmet_ms bigint,
  OUT ok boolean, OUT held int, OUT batch int, OUT holders int, OUT wanted boolean) LANGUAGE plpgsql AS $$
DECLARE
  n timestamptz;
  u timestamptz := 'epoch';
  others int;
  others_batch int;
  free int;
  free_batch int;
BEGIN
  PERFORM pg_advisory_xact_lock(1752131189, hashtext(e || '/' || k));
  n := clock_timestamp();
  IF EXISTS (SELECT FROM holdfast_shared.slots x WHERE x.env = e AND x.key = k AND x.holder = h AND x.seq >= s) THEN
    ok := false; held := 0; batch := 0; holders := 0; wanted := false;
    RETURN;
  END IF;
  DELETE FROM holdfast_shared.slots x WHERE x.env = e AND x.key = k AND x.holder <> h AND x.expires <= n;
  SELECT coalesce(sum(x.held), 0), coalesce(sum(x.batch), 0), 1 + count(*) FILTER (WHERE x.held > 0 OR x.unmet > n), coalesce(bool_or(x.unmet > n), false)
    INTO others, others_batch, holders, wanted
    FROM holdfast_shared.slots x WHERE x.env = e AND x.key = k AND x.holder <> h;
  free := greatest(0, most - others - hold);
  free_batch := greatest(0, most_batch - others_batch - hold_batch);
  IF want > 0 AND free = 0 OR want_batch > 0 AND free_batch = 0 THEN
    u := n + unmet_ms * interval '1 ms';
  END IF;
  ok := true; held := hold + least(want, free); batch := hold_batch + least(want_batch, free_batch);
  INSERT INTO holdfast_shared.slots AS x VALUES (e, k, h, lease_1.held, lease_1.batch, n + ttl_ms * interval '1 ms', s, u)
  ON CONFLICT ON CONSTRAINT slots_pkey DO UPDATE SET held = excluded.held, batch = excluded.batch, expires = excluded.expires, seq = excluded.seq, unmet = excluded.unmet;
END $$;

-- Adds to a sum where that stays within a limit, 0 for none, after it was raised to a floor.
CREATE OR REPLACE FUNCTION holdfast_shared.spend_1(e text, k text, amount bigint, floor bigint, most bigint, ttl_ms bigint,
  OUT ok boolean, OUT total bigint) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(1752131190, hashtext(e || '/' || k));
  SELECT x.total INTO total FROM holdfast_shared.sum x WHERE x.env = e AND x.key = k AND x.expires > clock_timestamp();
  total := greatest(coalesce(total, 0), floor);
  ok := NOT (most > 0 AND amount > 0 AND total + amount > most);
  IF ok THEN
    total := greatest(0, least(total + amount, 9007199254740991));
  END IF;
  INSERT INTO holdfast_shared.sum AS x VALUES (e, k, spend_1.total, clock_timestamp() + ttl_ms * interval '1 ms')
  ON CONFLICT ON CONSTRAINT sum_pkey DO UPDATE SET total = excluded.total, expires = excluded.expires;
END $$;
