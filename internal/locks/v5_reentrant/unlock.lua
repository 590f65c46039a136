-- Releases one hold. Releasing the last one frees the lock.
-- KEYS[1]: the lock, a hash of one field: the owner -> its number of holds
-- ARGV[1]: the owner
-- Returns n: the owner's remaining holds; at 0 the lock is free
--        -1: the lock is not the owner's: it has expired, or another owner has it
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return -1
end
local n = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
if n == 0 then
  redis.call('DEL', KEYS[1])
end
return n
