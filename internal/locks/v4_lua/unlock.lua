-- Deletes the lock if it has the caller's token.
-- KEYS[1]: the lock, a string: its holder's token
-- ARGV[1]: the caller's token
-- Returns 1: the lock was the caller's, and is now free
--         0: the lock was not the caller's: it has expired, or another holder has it
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
return 1
