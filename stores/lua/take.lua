#!lua
-- KEYS: the store, its buckets. ARGV: the store's id, whether replicas are waited for,
-- the bucket, how many calls, of how many, per how many microseconds.
-- The arithmetic is that of stores/encoding.py: next_call, in microseconds.
local id, name, n, amount, per = ARGV[1], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
if redis.call('HGET', KEYS[1], 'id') ~= id then return {'other', ''} end
local at = now()
local found = redis.call('HGET', KEYS[2], name)
local kept = math.min(tonumber(found or at), at + per)
local taken = math.max(kept, at) + n * per / amount
local wait = taken - at - per
if wait <= 1 then
  wait, kept = 0, taken
end
redis.call('HSET', KEYS[2], name, string.format('%.17g', kept))
return {'ok', string.format('%.17g', wait)}
