-- Acquires the lock, or re-enters it for the owner that has it.
-- KEYS[1]: the lock, a hash of one field: the owner -> its number of holds
-- ARGV[1]: the owner
-- ARGV[2]: ttl, in milliseconds; it extends the time left, never shortens it
-- Returns n: the owner's holds, including this one; 1 is the outermost
--         0: another owner has the lock
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
local n = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return n
