-- What an engine says of itself to the others beside it.

-- +goose Up
ALTER TABLE owner ADD COLUMN info BLOB;
