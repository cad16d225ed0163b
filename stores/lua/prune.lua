#!lua
-- ARGV[4]: the key below which intervals are dropped, ARGV[5]: how many at most. An
-- interval is final when its record has no tag.
local before, limit = ARGV[4], tonumber(ARGV[5])
local PAGE = 500

local function drop_below(kind, interval)
  local low, high = kind .. '/' .. interval .. '/', kind .. '/' .. interval .. '0'
  for _, name in ipairs(redis.call('ZRANGEBYLEX', INDEX, '[' .. low, '(' .. high)) do
    drop(kind, string.sub(name, #kind + 2))
  end
end

local other = stranger(false)
if other then return {'other', other} end
local dropped, low = 0, '[interval/'
while dropped < limit do
  local names = redis.call('ZRANGEBYLEX', INDEX, low, '(interval/' .. before, 'LIMIT', 0, PAGE)
  for _, name in ipairs(names) do
    local interval = string.sub(name, #'interval/' + 1)
    local _, tag = head(redis.call('HGET', RECORDS, name))
    if tag == '' and dropped < limit then
      drop_below('run', interval)
      drop_below('event', interval)
      drop('interval', interval)
      dropped = dropped + 1
    end
  end
  if #names < PAGE then break end
  low = '(' .. names[#names]
end
return {'ok', dropped}
