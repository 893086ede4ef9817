-- A job's callback_url, with its query: what is shown of it leaves the query out.

-- +goose Up
ALTER TABLE intent ADD COLUMN callback TEXT;
