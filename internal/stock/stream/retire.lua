-- Removes consumers from the group of a stream that were idle for long and have nothing to do.
-- KEYS[1]: the stream of accepted orders
-- ARGV[1]: the consumer group
-- ARGV[2]: how long a consumer must have been idle, in milliseconds
-- ARGV[3]: the consumer that asks, which stays
-- Returns how many consumers were removed. One that has entries stays, however long it has been
-- idle: they would leave the list of pending entries with it, and nobody would write them.
-- One that is removed and lives joins again with its next read. So it does no harm that on the
-- embedded server each one without entries is removed: it says of all that they were idle for -1.
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
