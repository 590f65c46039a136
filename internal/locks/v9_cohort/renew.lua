-- Restarts the ttl if the lock is still the ticket's.
-- KEYS[1]: the lock, a string: the ticket of its holder
-- KEYS[2]: the last token, a string
-- ARGV[1]: the ticket
-- ARGV[2]: ttl, in milliseconds
-- Returns 1: renewed
--         0: the lock is not the ticket's: it has expired, or another ticket has it
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PEXPIRE', KEYS[2], 2 * ARGV[2])
return 1
