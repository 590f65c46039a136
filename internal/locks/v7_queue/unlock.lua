-- Hands the lock on to the first waiter, or frees it, or gives it to the caller's
-- process anew if that has somebody waiting and nobody else has.
-- KEYS[1]: the lock, a string: the ticket of its holder
-- KEYS[2]: the queue, a list of tickets, first come first
-- KEYS[3]: the waiters, a hash: ticket -> until when it counts as alive, in
--          milliseconds of the server's clock
-- and beside KEYS[1], under its name: the list on which a ticket is woken
-- ARGV[1]: the ticket
-- ARGV[2]: ttl, in milliseconds, of the ticket by which the caller's process waits
-- ARGV[3]: the ticket by which the caller's process waits again, or nothing
-- Returns 1: nobody else waits, and the lock is that ticket's
--         0: given back
--        -1: the lock is not the caller's: it has expired, or is another's
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return -1
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local first, left
repeat
  first = redis.call('LPOP', KEYS[2])
  left = first and tonumber(redis.call('HGET', KEYS[3], first) or 0) - now
  if first then redis.call('HDEL', KEYS[3], first) end
until not first or left > 0
if not first then
  if ARGV[3] ~= '' then
    redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
    return 1
  end
  redis.call('DEL', KEYS[1])
  return 0
end
redis.call('SET', KEYS[1], first, 'PX', left) -- of its own ttl, on which it relies
redis.call('RPUSH', KEYS[1] .. ':wake:' .. first, 'held')
redis.call('PEXPIRE', KEYS[1] .. ':wake:' .. first, left)
if ARGV[3] ~= '' then
  redis.call('RPUSH', KEYS[2], ARGV[3])
  redis.call('HSET', KEYS[3], ARGV[3], now + ARGV[2])
  redis.call('PEXPIRE', KEYS[2], 2 * ARGV[2])
  redis.call('PEXPIRE', KEYS[3], 2 * ARGV[2])
end
return 0
