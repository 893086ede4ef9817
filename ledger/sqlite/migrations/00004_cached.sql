-- The index over settled answers: which of them may be given to other requests, by what, and until when. slot is that of
-- a body, 8 * seq + kind. The answer itself is the intent's own.

-- +goose Up
CREATE TABLE cached (
  slot INTEGER PRIMARY KEY, partition BLOB NOT NULL, data BLOB NOT NULL, expires_at INTEGER NOT NULL
);
CREATE INDEX cached_expires ON cached (expires_at);
