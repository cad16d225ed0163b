#!lua
local generation, request = ARGV[4], ARGV[5]

touch()
local last = newest()
if not last or last.generation ~= generation or not is_live(last, now()) then
  return {'ended'}
end
redis.call('HSET', LEASE, 'stop', request)
return {'ok'}
