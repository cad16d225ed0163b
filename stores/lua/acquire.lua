#!lua
local run, holder, ttl, interval = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local above, replaces, overlap = ARGV[8], ARGV[9], ARGV[10]

local other = stranger(true)
if other then return {'other', other} end
local at, last = now(), newest()
if last then
  if last.run == run then return answer('granted', at) end
  local free = not (is_live(last, at) or last.holder == holder)
  if not free and last.run ~= replaces then
    if overlap == '1' and last.interval ~= interval then
      redis.call('HINCRBY', LEASE, 'overlaps', 1)
    end
    return answer('busy', at)
  end
end

local generation = last and tonumber(last.generation) + 1 or math.floor(at / 1000000)
generation = math.max(generation, tonumber(above) + 1)
if generation >= 2 ^ 53 then return {'exhausted'} end
local told = last and last.holder == holder and last.released == '0'
redis.call('HSET', LEASE,
  'generation', text(generation), 'run', run, 'holder', holder, 'interval', interval,
  'ttl', ttl, 'granted_at', text(at), 'expires_at', text(at + tonumber(ttl)),
  'progress', '0', 'progress_at', text(at), 'released', '0', 'seq', '0',
  'overlaps', told and last.overlaps or '0', 'stop', told and last.stop or '')
if last then
  redis.call('HSET', LEASE,
    'previous_generation', last.generation, 'previous_run', last.run,
    'previous_holder', last.holder, 'previous_interval', last.interval,
    'previous_progress_at', last.progress_at, 'previous_expires_at', last.expires_at,
    'previous_released', last.released)
end
return answer('granted', at)
