#!lua
local generation, run, seq = ARGV[4], ARGV[5], ARGV[6]

touch()
local at, last = now(), newest()
if not is_own(last, generation, run) then return answer('fenced', at) end
if tonumber(seq) <= tonumber(last.seq) then return {'applied'} end
if last.released == '1' then return answer('fenced', at) end
local refused = conflict(7)
if refused then return refused end
write_all(7, text(at))
redis.call('HSET', LEASE, 'seq', seq)
return {'ok'}
