-- Goes before every script. KEYS and ARGV begin alike in all scripts about a job:
--   KEYS: the job, its lease, then records, index, tags, blobs, events
--   ARGV: the store's id as the caller knows it, whether it has met the job there ('1'),
--         whether replicas are waited for ('1')
-- Instants are microseconds since 1970 by the server's clock. Numbers are stored as whole
-- decimals; those that count are below 2^53, up to which Lua counts exactly.

local JOB, LEASE, RECORDS, INDEX, TAGS, BLOBS, EVENTS = unpack(KEYS)

local function now()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local function text(number)
  return string.format('%.0f', number)
end

-- WAIT waits for the last write of its connection. A request that is sent again may have
-- nothing to write, on a connection that has written nothing yet; this gives it something.
local function touch()
  if ARGV[3] == '1' then redis.call('HSET', JOB, 'touched', text(now())) end
end

-- Who the job belongs to, where that is not the caller's store: the id of another, or ''
-- where the store was wiped since the caller met the job there. With `make` a job that is
-- not known yet becomes the caller's.
local function stranger(make)
  local found = redis.call('HGET', JOB, 'store')
  if found and found ~= ARGV[1] then return found end
  if not found and ARGV[2] == '1' then return '' end
  if not found and make then redis.call('HSET', JOB, 'store', ARGV[1]) end
  touch()
  return nil
end

-- The newest grant of the lease key as a table, nil where there never was one.
local function newest()
  local flat = redis.call('HGETALL', LEASE)
  if #flat == 0 then return nil end
  local lease = {}
  for i = 1, #flat, 2 do lease[flat[i]] = flat[i + 1] end
  return lease
end

local function is_live(lease, at)
  return lease.released == '0' and at < tonumber(lease.expires_at)
end

local function is_own(lease, generation, run)
  return lease ~= nil and lease.generation == generation and lease.run == run
end

-- An answer about the lease as it stands.
local function answer(word, at)
  local lease = newest()
  local live = lease and is_live(lease, at) and 1 or 0
  return {word, live, redis.call('HGETALL', LEASE)}
end
