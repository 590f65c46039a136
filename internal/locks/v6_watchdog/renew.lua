-- Restarts the ttl if the lock is still the owner's.
-- KEYS[1]: the lock, a hash of one field: the owner -> its number of holds
-- ARGV[1]: the owner
-- ARGV[2]: ttl, in milliseconds
-- Returns 1: renewed
--         0: the lock is not the owner's: it has expired, or another owner has it
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
