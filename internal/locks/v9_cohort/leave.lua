-- Takes the ticket out of the queue, and ends its wait.
-- KEYS[1]: the lock, a string: the ticket of its holder
-- KEYS[2]: the queue, a list of tickets in order of arrival
-- KEYS[3]: the waiters, a hash: ticket -> when its heartbeat expires
-- KEYS[4]: the list on which the ticket waits to be woken
-- ARGV[1]: the ticket
-- ARGV[2]: ttl, in milliseconds, of the wake-up message, in case nobody reads it
-- Returns 1: the ticket has been handed the lock, and the caller must unlock it
--         0: it has not
redis.call('LREM', KEYS[2], 1, ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('RPUSH', KEYS[4], 'left')
redis.call('PEXPIRE', KEYS[4], ARGV[2])
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return 1
end
return 0
