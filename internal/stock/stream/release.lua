-- Removes fields of a hash that have the expected values.
-- KEYS[1]: the hash
-- ARGV[1], ARGV[3], ...: the fields
-- ARGV[2], ARGV[4], ...: the value that each is expected to have
-- Returns how many fields were removed.
local removed = 0
for i = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    removed = removed + redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
return removed
