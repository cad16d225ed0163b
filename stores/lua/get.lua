#!lua flags=no-writes,allow-oom
-- ARGV: kind, key. Answers whose store the job is, the record and its blob.
local record, blob = fetch(ARGV[1], ARGV[2])
return {redis.call('HGET', JOB, 'store') or '', record, blob}
