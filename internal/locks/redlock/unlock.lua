-- Deletes the lock on this node if it still has the token.
-- KEYS[1]: the lock, a string: the token of the attempt that set it
-- ARGV[1]: the token
-- Returns 1: deleted
--         0: nothing done: the key does not exist, or has another token
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
return 1
