#!lua flags=allow-oom
local generation, run, progress = ARGV[4], ARGV[5], ARGV[6]

touch()
local at, last = now(), newest()
if not is_own(last, generation, run) or last.released == '1' then return answer('fenced', at) end
redis.call('HSET', LEASE, 'expires_at', text(at + tonumber(last.ttl)))
if tonumber(progress) > tonumber(last.progress) then
  redis.call('HSET', LEASE, 'progress', progress, 'progress_at', text(at))
end
return answer('ok', at)
