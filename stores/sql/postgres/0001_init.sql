-- The tables of a Postgres store. `reconcile.` stands for the schema of the store's URL; for
-- the default schema an administrator may run this file as it is, in one transaction:
--
--   psql --single-transaction -c 'CREATE SCHEMA reconcile' -f 0001_init.sql
--
-- Names and keys are compared by code point, whatever the database's collation. JSON is kept
-- as it was written. Instants are the server's. Room is left in the pages for updates in
-- place, because the same few rows are written over and over.

CREATE TABLE reconcile.meta (
  name text COLLATE "C" PRIMARY KEY,
  value text NOT NULL
);

-- One row for each lease key, never deleted: it carries the generation.
CREATE TABLE reconcile.lease (
  job text COLLATE "C" NOT NULL,
  shard integer NOT NULL,
  generation bigint NOT NULL,
  run text NOT NULL,
  holder json NOT NULL,
  "interval" text NOT NULL,
  ttl bigint NOT NULL,  -- microseconds
  granted_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  progress bigint NOT NULL,
  progress_at timestamptz NOT NULL,
  released boolean NOT NULL,
  "overlaps" bigint NOT NULL,
  stop json,
  seq bigint NOT NULL,
  previous json,
  PRIMARY KEY (job, shard)
) WITH (fillfactor = 40);

CREATE TABLE reconcile.record (
  kind text COLLATE "C" NOT NULL,
  job text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  tag text COLLATE "C" NOT NULL,
  at timestamptz NOT NULL,
  value json NOT NULL,
  blob bytea,
  PRIMARY KEY (kind, job, key)
) WITH (fillfactor = 80);

-- What is stored there is compressed already.
ALTER TABLE reconcile.record ALTER COLUMN blob SET STORAGE EXTERNAL;

CREATE INDEX record_by_tag ON reconcile.record (kind, job, tag, key) WHERE tag <> '';

-- Numbers of appended records: they grow, also where a transaction gives its number up.
CREATE SEQUENCE reconcile.appended;

-- `due`: when the bucket will be full, in seconds since 1970 on the server's clock.
CREATE TABLE reconcile.bucket (
  name text COLLATE "C" PRIMARY KEY,
  due double precision NOT NULL
) WITH (fillfactor = 40);

INSERT INTO reconcile.meta (name, value)
VALUES ('schema_version', '1'), ('id', replace(gen_random_uuid()::text, '-', ''));
