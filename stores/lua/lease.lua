#!lua flags=no-writes,allow-oom
-- Answers whose store the job is, then the lease.
return {redis.call('HGET', JOB, 'store') or '', answer('ok', now())}
