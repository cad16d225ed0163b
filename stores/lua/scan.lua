#!lua flags=no-writes,allow-oom
-- ARGV: lowest name, first name above the highest, how many, '1' for newest first; where
-- there is a tag, the names are those of TAGS. ARGV[5]: kind, ARGV[6]: bytes before the key
-- in each name, ARGV[7]: whether there is a tag.
-- Answers whose store the job is, then key, record and blob of each.
local low, high, limit, newest_first = '[' .. ARGV[1], '(' .. ARGV[2], ARGV[3], ARGV[4] == '1'
local set = ARGV[7] == '1' and TAGS or INDEX
local names
if newest_first then
  names = redis.call('ZREVRANGEBYLEX', set, high, low, 'LIMIT', 0, limit)
else
  names = redis.call('ZRANGEBYLEX', set, low, high, 'LIMIT', 0, limit)
end
local found = {redis.call('HGET', JOB, 'store') or ''}
for _, name in ipairs(names) do
  local key = string.sub(name, ARGV[6] + 1)
  local record, blob = fetch(ARGV[5], key)
  found[#found + 1] = key
  found[#found + 1] = record
  found[#found + 1] = blob
end
return found
