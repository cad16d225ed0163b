-- The statements of the Postgres store; `reconcile.` stands for the schema of its URL. Each
-- fenced write compares and sets in one statement, and the number of rows it changed is the
-- answer. The clock is always the server's: clock_timestamp(), not the transaction's begin,
-- because a transaction may have waited for a lock. Instants are read as whole microseconds
-- since 1970, which no setting of a session spells otherwise.

-- lease --
SELECT l.generation, l.run, l.holder::text, l.interval, l.ttl,
       (extract(epoch FROM l.granted_at) * 1000000)::bigint,
       (extract(epoch FROM l.expires_at) * 1000000)::bigint,
       l.progress, (extract(epoch FROM l.progress_at) * 1000000)::bigint,
       l.released, l.overlaps, l.stop::text, l.seq, l.previous::text,
       NOT l.released AND clock_timestamp() < l.expires_at
  FROM reconcile.lease AS l
 WHERE l.job = %(job)s AND l.shard = %(shard)s

-- lock --
 FOR UPDATE

-- clock --
-- A statement of its own, after the one that may have waited for a lock.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint

-- insisted --
-- Around a statement that must change something: dividing by zero stops those that follow it
-- in the same text, COMMIT among them, so that all of them are one round trip.
WITH done AS ({statement} RETURNING 1) SELECT 1 / count(*) FROM done

-- identity --
SELECT value FROM reconcile.meta WHERE name = 'id'

-- first_grant --
INSERT INTO reconcile.lease (job, shard, generation, run, holder, interval, ttl, granted_at,
                             expires_at, progress, progress_at, released, "overlaps", stop, seq,
                             previous)
VALUES (%(job)s, %(shard)s, %(generation)s, %(run)s, %(holder)s, %(interval)s, %(ttl)s, %(now)s,
        %(expires_at)s, 0, %(now)s, false, 0, NULL, 0, NULL)
ON CONFLICT (job, shard) DO NOTHING

-- grant --
UPDATE reconcile.lease
   SET generation = %(generation)s, run = %(run)s, holder = %(holder)s, interval = %(interval)s,
       ttl = %(ttl)s, granted_at = %(now)s, expires_at = %(expires_at)s, progress = 0,
       progress_at = %(now)s, released = false, "overlaps" = %(overlaps)s, stop = %(stop)s, seq = 0,
       previous = %(previous)s
 WHERE job = %(job)s AND shard = %(shard)s AND generation < %(generation)s

-- note_overlap --
UPDATE reconcile.lease SET "overlaps" = "overlaps" + 1 WHERE job = %(job)s AND shard = %(shard)s

-- renew --
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
UPDATE reconcile.lease AS l
   SET expires_at = clock.now + l.ttl * interval '1 microsecond',
       progress_at = CASE WHEN l.progress < %(progress)s THEN clock.now ELSE l.progress_at END,
       progress = greatest(l.progress, %(progress)s)
  FROM clock
 WHERE l.job = %(job)s AND l.shard = %(shard)s
   AND l.generation = %(generation)s AND l.run = %(run)s AND NOT l.released

-- release --
UPDATE reconcile.lease
   SET released = true, seq = %(seq)s
 WHERE job = %(job)s AND shard = %(shard)s AND generation = %(generation)s AND run = %(run)s
   AND NOT released AND seq < %(seq)s AND (%(seen)s IS NULL OR "overlaps" <= %(seen)s)

-- ask_stop --
UPDATE reconcile.lease
   SET stop = %(request)s
 WHERE job = %(job)s AND shard = %(shard)s AND generation = %(generation)s
   AND NOT released AND clock_timestamp() < expires_at

-- advance --
UPDATE reconcile.lease
   SET seq = %(seq)s
 WHERE job = %(job)s AND shard = %(shard)s AND generation = %(generation)s AND run = %(run)s
   AND NOT released AND seq < %(seq)s

-- put_any --
INSERT INTO reconcile.record AS r (kind, job, key, version, tag, at, value, blob)
VALUES (%(kind)s, %(job)s, %(key)s, 1, %(tag)s, clock_timestamp(), %(value)s, %(blob)s)
ON CONFLICT (kind, job, key) DO UPDATE
   SET version = r.version + 1, tag = excluded.tag, at = excluded.at, value = excluded.value,
       blob = excluded.blob

-- put_absent --
INSERT INTO reconcile.record (kind, job, key, version, tag, at, value, blob)
VALUES (%(kind)s, %(job)s, %(key)s, 1, %(tag)s, clock_timestamp(), %(value)s, %(blob)s)
ON CONFLICT (kind, job, key) DO NOTHING

-- put_version --
UPDATE reconcile.record
   SET version = version + 1, tag = %(tag)s, at = clock_timestamp(), value = %(value)s,
       blob = %(blob)s
 WHERE kind = %(kind)s AND job = %(job)s AND key = %(key)s AND version = %(expect)s

-- append --
INSERT INTO reconcile.record (kind, job, key, version, tag, at, value, blob)
VALUES (%(kind)s, %(job)s,
        %(prefix)s || '/' || lpad(nextval('reconcile.appended')::text, 20, '0'),
        1, '', clock_timestamp(), %(value)s, NULL)

-- delete --
DELETE FROM reconcile.record WHERE kind = %(kind)s AND job = %(job)s AND key = %(key)s

-- get --
SELECT key, value::text, version, (extract(epoch FROM at) * 1000000)::bigint, tag, blob
  FROM reconcile.record
 WHERE kind = %(kind)s AND job = %(job)s AND key = %(key)s

-- scan --
SELECT key, value::text, version, (extract(epoch FROM at) * 1000000)::bigint, tag, blob
  FROM reconcile.record
 WHERE kind = %(kind)s AND job = %(job)s AND key >= %(low)s

-- scan_after --
   AND key > %(low)s

-- scan_below --
   AND key < %(high)s

-- scan_tag --
   AND tag = %(tag)s AND tag <> ''

-- oldest_first --
 ORDER BY key LIMIT %(limit)s

-- newest_first --
 ORDER BY key DESC LIMIT %(limit)s

-- open_bucket --
INSERT INTO reconcile.bucket (name, due) VALUES (%(name)s, 0) ON CONFLICT (name) DO NOTHING

-- bucket --
SELECT due FROM reconcile.bucket WHERE name = %(name)s FOR UPDATE

-- put_bucket --
UPDATE reconcile.bucket SET due = %(due)s WHERE name = %(name)s

-- facts --
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
       current_setting('fsync') <> 'off', current_setting('synchronous_commit') <> 'off'
