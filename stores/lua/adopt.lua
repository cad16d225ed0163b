#!lua
-- A job that a connection from before the store was wiped wrote to since: it becomes the
-- store's that stands now. ARGV[4]: whose it was.
if redis.call('HGET', JOB, 'store') == ARGV[4] then
  redis.call('HSET', JOB, 'store', ARGV[1])
end
return {'ok'}
