-- Restarts the ttl on this node if the lock has the token.
-- KEYS[1]: the lock, a string: the token of the attempt that set it
-- ARGV[1]: the token
-- ARGV[2]: ttl, in milliseconds
-- Returns 1: renewed
--         0: nothing done: the key does not exist, or has another token
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
