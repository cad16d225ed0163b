#!lua flags=allow-oom
local generation, run, seq, seen = ARGV[4], ARGV[5], ARGV[6], ARGV[7]

touch()
local at, last = now(), newest()
if not is_own(last, generation, run) then return answer('fenced', at) end
if last.released == '1' or tonumber(seq) <= tonumber(last.seq) then return {'ok'} end
if seen ~= '' and tonumber(last.overlaps) > tonumber(seen) then
  return {'overlap', last.overlaps}
end
redis.call('HSET', LEASE, 'released', '1', 'seq', seq)
return {'ok'}
