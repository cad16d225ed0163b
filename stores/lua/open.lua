#!lua flags=allow-oom
-- KEYS: the store. ARGV: the id that a new store gets ('': make none), the schema's number.
-- It may write, so that a read-only replica refuses it before anything is decided there.
local id = redis.call('HGET', KEYS[1], 'id')
if not id and ARGV[1] ~= '' then
  id = ARGV[1]
  redis.call('HSET', KEYS[1], 'id', id, 'schema', ARGV[2])
end
local time = redis.call('TIME')
return {id or '', redis.call('HGET', KEYS[1], 'schema') or '0', time[1], time[2]}
