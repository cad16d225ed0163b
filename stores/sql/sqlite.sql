-- The statements of the SQLite store. Each fenced write compares and sets in one
-- statement, and the number of rows it changed is the answer.
-- Nothing here needs more than SQLite 3.31: no RETURNING.

-- lease --
SELECT generation, run, holder, interval, ttl, granted_at, expires_at, expires_boot, boot_id,
       progress, progress_at, released, overlaps, stop, seq, previous
  FROM lease
 WHERE job = :job AND shard = :shard

-- lease_keys --
SELECT job, shard FROM lease

-- grant --
INSERT INTO lease (job, shard, generation, run, holder, interval, ttl, granted_at, expires_at,
                   expires_boot, boot_id, progress, progress_at, released, overlaps, stop, seq,
                   previous)
VALUES (:job, :shard, :generation, :run, :holder, :interval, :ttl, :now, :now + :ttl,
        :boot + :ttl / 1000000.0, :boot_id, 0, :now, 0, :overlaps, :stop, 0,
        :previous)
ON CONFLICT (job, shard) DO UPDATE
   SET generation = excluded.generation, run = excluded.run, holder = excluded.holder,
       interval = excluded.interval, ttl = excluded.ttl, granted_at = excluded.granted_at,
       expires_at = excluded.expires_at, expires_boot = excluded.expires_boot,
       boot_id = excluded.boot_id, progress = 0, progress_at = excluded.progress_at,
       released = 0, overlaps = excluded.overlaps, stop = excluded.stop, seq = 0,
       previous = excluded.previous
 WHERE excluded.generation > lease.generation

-- note_overlap --
UPDATE lease SET overlaps = overlaps + 1 WHERE job = :job AND shard = :shard

-- renew --
UPDATE lease
   SET expires_at = :now + ttl, expires_boot = :boot + ttl / 1000000.0, boot_id = :boot_id,
       progress_at = CASE WHEN progress < :progress THEN :now ELSE progress_at END,
       progress = max(progress, :progress)
 WHERE job = :job AND shard = :shard AND generation = :generation AND run = :run
   AND NOT released

-- release --
UPDATE lease
   SET released = 1, seq = :seq
 WHERE job = :job AND shard = :shard AND generation = :generation AND run = :run
   AND NOT released AND seq < :seq AND (:seen IS NULL OR overlaps <= :seen)

-- ask_stop --
UPDATE lease
   SET stop = :request
 WHERE job = :job AND shard = :shard AND generation = :generation
   AND NOT released AND boot_id = :boot_id AND :boot < expires_boot

-- advance --
UPDATE lease
   SET seq = :seq
 WHERE job = :job AND shard = :shard AND generation = :generation AND run = :run
   AND NOT released AND seq < :seq

-- put_any --
INSERT INTO record (kind, job, key, version, tag, at, value, has_blob)
VALUES (:kind, :job, :key, 1, :tag, :at, :value, :has_blob)
ON CONFLICT (kind, job, key) DO UPDATE
   SET version = record.version + 1, tag = excluded.tag, at = excluded.at,
       value = excluded.value, has_blob = excluded.has_blob

-- put_absent --
INSERT INTO record (kind, job, key, version, tag, at, value, has_blob)
VALUES (:kind, :job, :key, 1, :tag, :at, :value, :has_blob)
ON CONFLICT (kind, job, key) DO NOTHING

-- put_version --
UPDATE record
   SET version = version + 1, tag = :tag, at = :at, value = :value, has_blob = :has_blob
 WHERE kind = :kind AND job = :job AND key = :key AND version = :expect

-- put_blob --
INSERT INTO blob (kind, job, key, data) VALUES (:kind, :job, :key, :blob)
ON CONFLICT (kind, job, key) DO UPDATE SET data = excluded.data

-- delete_blob --
DELETE FROM blob WHERE kind = :kind AND job = :job AND key = :key

-- delete --
DELETE FROM record WHERE kind = :kind AND job = :job AND key = :key

-- count_append --
UPDATE meta SET value = value + 1 WHERE name = 'appended'

-- appended --
SELECT value FROM meta WHERE name = 'appended'

-- get --
SELECT key, value, version, at, tag,
       CASE WHEN has_blob THEN (SELECT data FROM blob AS b
                                 WHERE b.kind = record.kind AND b.job = record.job
                                   AND b.key = record.key) END
  FROM record
 WHERE kind = :kind AND job = :job AND key = :key

-- scan --
SELECT key, value, version, at, tag,
       CASE WHEN has_blob THEN (SELECT data FROM blob AS b
                                 WHERE b.kind = record.kind AND b.job = record.job
                                   AND b.key = record.key) END
  FROM record
 WHERE kind = :kind AND job = :job AND key >= :low AND key < :high

-- scan_tag --
-- Without being told, SQLite takes the primary key and reads every record in the span.
SELECT key, value, version, at, tag,
       CASE WHEN has_blob THEN (SELECT data FROM blob AS b
                                 WHERE b.kind = record.kind AND b.job = record.job
                                   AND b.key = record.key) END
  FROM record INDEXED BY record_by_tag
 WHERE kind = :kind AND job = :job AND tag = :tag AND tag <> '' AND key >= :low AND key < :high

-- oldest_first --
 ORDER BY key LIMIT :limit

-- newest_first --
 ORDER BY key DESC LIMIT :limit

-- bucket --
SELECT due, boot_id FROM bucket WHERE name = :name

-- put_bucket --
INSERT INTO bucket (name, due, boot_id) VALUES (:name, :due, :boot_id)
ON CONFLICT (name) DO UPDATE SET due = excluded.due, boot_id = excluded.boot_id
