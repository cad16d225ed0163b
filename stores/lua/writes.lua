-- Goes before the scripts that write a batch, after records.lua. A script is not undone
-- when it fails half way, so all that can be refused is looked at before the first write.
--
-- A write is eight arguments: `put`, `append` or `delete`, kind, key or prefix, version
-- expected (-1: any), tag, value, whether it has a blob ('1'), blob.

local WIDTH = 8

-- nil where the batch may be written, else the number of the write that may not, from 1,
-- and the version that stands. Later writes see what earlier ones would have written.
local function conflict(from)
  -- Keys of another type would be met half way.
  redis.call('HLEN', JOB)
  redis.call('ZCARD', INDEX)
  redis.call('ZCARD', TAGS)
  redis.call('HLEN', BLOBS)
  redis.call('XLEN', EVENTS)
  local versions = {}
  for i = from, #ARGV, WIDTH do
    local what, name = ARGV[i], ARGV[i + 1] .. '/' .. ARGV[i + 2]
    if what == 'put' then
      local version = versions[name]
      if not version then
        local found = stored(ARGV[i + 1], ARGV[i + 2])
        version = found and head(found) or 0
      end
      local expect = tonumber(ARGV[i + 3])
      if expect ~= -1 and expect ~= version then
        return {'conflict', (i - from) / WIDTH + 1, version}
      end
      versions[name] = version + 1
    elseif what == 'delete' then
      versions[name] = 0
    end
  end
  return nil
end

local function put(i, at)
  local kind, key, tag, value = ARGV[i + 1], ARGV[i + 2], ARGV[i + 4], ARGV[i + 5]
  local name = kind .. '/' .. key
  local found, is_entry = stored(kind, key)
  local version, old_tag, had_blob = 0, '', false
  if found then
    version, old_tag, had_blob = head(found)
    if is_entry then redis.call('XDEL', EVENTS, event_id(key)) end
  else
    redis.call('ZADD', INDEX, 0, name)
  end
  redis.call('HSET', RECORDS, name, as_record(text(version + 1), at, tag, ARGV[i + 6], value))
  if old_tag ~= tag then
    if old_tag ~= '' then redis.call('ZREM', TAGS, tagged(kind, old_tag, key)) end
    if tag ~= '' then redis.call('ZADD', TAGS, 0, tagged(kind, tag, key)) end
  end
  if ARGV[i + 6] == '1' then
    redis.call('HSET', BLOBS, name, ARGV[i + 7])
  elseif had_blob then
    redis.call('HDEL', BLOBS, name)
  end
end

local function append(i, at)
  local kind, prefix, value = ARGV[i + 1], ARGV[i + 2], ARGV[i + 5]
  local number = text(redis.call('HINCRBY', JOB, 'appended', 1))
  local key = prefix .. '/' .. string.rep('0', 20 - #number) .. number
  local name = kind .. '/' .. key
  if kind == 'event' then
    redis.call('XADD', EVENTS, number .. '-0', 'key', key, 'at', at, 'value', value)
  else
    redis.call('HSET', RECORDS, name, as_record('1', at, '', '0', value))
  end
  redis.call('ZADD', INDEX, 0, name)
end

local function write_all(from, at)
  for i = from, #ARGV, WIDTH do
    if ARGV[i] == 'put' then
      put(i, at)
    elseif ARGV[i] == 'append' then
      append(i, at)
    else
      drop(ARGV[i + 1], ARGV[i + 2])
    end
  end
end
