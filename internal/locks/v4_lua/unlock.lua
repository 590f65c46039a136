-- Deletes the lock if it carries the caller's token.
-- KEYS[1]: the lock, a string: its holder's token
-- ARGV[1]: the caller's token
-- Returns 1: the lock was the caller's, and is free now
--         0: it was not: it has expired, or is another's
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
return 1
