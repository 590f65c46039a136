-- Takes the lock, or takes it once more for the owner who has it.
-- KEYS[1]: the lock, a hash of one field: the owner -> how many holds
-- ARGV[1]: the owner
-- ARGV[2]: ttl, in milliseconds; it lengthens what is left, never shortens it
-- Returns n: the owner's holds, this one counted; 1 is the outermost
--         0: another owner has the lock
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
local n = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return n
