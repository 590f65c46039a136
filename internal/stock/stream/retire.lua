-- Removes from the group of a stream the consumers that were idle for long and have no
-- entries.
-- KEYS[1]: the stream of accepted orders
-- ARGV[1]: the consumer group
-- ARGV[2]: how long a consumer must have been idle, in milliseconds
-- ARGV[3]: the consumer that asks, which stays
-- Returns how many consumers were removed. A consumer with entries stays, even if it has
-- been idle for long: removing it would remove its entries from the list of pending
-- entries, and nobody would write them. A living consumer that is removed joins again with
-- its next read. So it does no harm that on the embedded server, which reports an idle time
-- of -1 for all consumers, every consumer without entries is removed.
local all = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])
if all.err then
  if string.find(all.err, 'NOGROUP') or string.find(all.err, 'no such key') then
    return 0
  end
  return all
end
local removed = 0
for _, fields in ipairs(all) do
  local is = {}
  for i = 1, #fields, 2 do
    is[fields[i]] = fields[i + 1]
  end
  if is.name ~= ARGV[3] and is.pending == 0 and (is.idle < 0 or is.idle >= tonumber(ARGV[2])) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], is.name)
    removed = removed + 1
  end
end
return removed
