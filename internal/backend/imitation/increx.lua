-- INCREX key BYINT n LBOUND l UBOUND u. A bound that is '' is none.
-- KEYS[1]: the key, a number; one that does not exist counts as 0
-- ARGV[1]: what to add
-- ARGV[2]: the lower bound
-- ARGV[3]: the upper bound
-- Returns {value, added}: the value is within the bounds, and is written; the ttl stays
--         {value, 0}: it would be outside; nothing is changed, and no key is created
local now = redis.pcall('GET', KEYS[1])
if type(now) == 'table' and now.err then
  return redis.error_reply('WRONGTYPE Operation against a key holding the wrong kind of value')
end
now = now or '0'
if not string.match(now, '^-?%d+$') then
  return redis.error_reply('ERR value is not an integer or out of range')
end
for _, text in ipairs({now, unpack(ARGV)}) do
  if #text > 15 then
    return redis.error_reply('ERR the embedded server imitates INCREX for numbers of up to 15 digits')
  end
end
local value = tonumber(now) + tonumber(ARGV[1])
local low, high = tonumber(ARGV[2]), tonumber(ARGV[3])
if low and value < low or high and value > high then
  return {tonumber(now), 0}
end
redis.call('INCRBY', KEYS[1], ARGV[1])
return {value, tonumber(ARGV[1])}
