-- Goes before every script about records, after common.lua.
--
-- A record is `<version> <at> <1: has a blob> <length of tag>:<tag><value>` in the hash
-- RECORDS under `<kind>/<key>`; its blob is in BLOBS under the same name. The sorted set
-- INDEX has all names, with no score, so in order of their bytes, which is the order of
-- code points; TAGS has `<kind>/<length of tag>:<tag><key>` of those with a tag.
-- An event is an entry of the stream EVENTS, whose id is the number in its key.

local function tagged(kind, tag, key)
  return kind .. '/' .. #tag .. ':' .. tag .. key
end

local function head(record)
  local version, blob, length, from = string.match(record, '^(%d+) %d+ (%d) (%d+):()')
  if not version then error('a record of another format: ' .. string.sub(record, 1, 40)) end
  return tonumber(version), string.sub(record, from, from + length - 1), blob == '1'
end

local function as_record(version, at, tag, blob, value)
  return version .. ' ' .. at .. ' ' .. blob .. ' ' .. #tag .. ':' .. tag .. value
end

local function event_id(key)
  return string.match(key, '/0*(%d+)$') .. '-0'
end

-- The event of that key as a record, nil where there is none.
local function event(key)
  if not string.match(key, '/%d+$') then return nil end
  local id = event_id(key)
  local entry = redis.call('XRANGE', EVENTS, id, id)[1]
  if not entry then return nil end
  local fields = {}
  for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
  if fields.key ~= key then return nil end
  return as_record('1', fields.at, '', '0', fields.value)
end

-- A record, wherever it is, and whether it is an entry of the stream; nil where there is none.
local function stored(kind, key)
  local record = redis.call('HGET', RECORDS, kind .. '/' .. key)
  if record then return record, false end
  if kind ~= 'event' then return nil, false end
  return event(key), true
end

-- A record and its blob, for an answer: false where there is none.
local function fetch(kind, key)
  local record = stored(kind, key)
  if not record then return false, false end
  local _, _, has_blob = head(record)
  return record, has_blob and redis.call('HGET', BLOBS, kind .. '/' .. key)
end

local function drop(kind, key)
  local record, is_entry = stored(kind, key)
  if not record then return end
  local name = kind .. '/' .. key
  local _, tag, has_blob = head(record)
  if is_entry then
    redis.call('XDEL', EVENTS, event_id(key))
  else
    redis.call('HDEL', RECORDS, name)
  end
  if has_blob then redis.call('HDEL', BLOBS, name) end
  if tag ~= '' then redis.call('ZREM', TAGS, tagged(kind, tag, key)) end
  redis.call('ZREM', INDEX, name)
end
