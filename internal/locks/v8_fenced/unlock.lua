-- Releases one hold. Releasing the last one hands the lock to the first waiter, or frees
-- it if nobody waits.
-- KEYS[1]: the lock, a hash of one field: the owner -> its number of holds
-- KEYS[2]: the queue, a list of owners in order of arrival
-- KEYS[3]: the waiters, a hash: owner -> when its heartbeat expires, in
--          milliseconds of the server's clock
-- and a key derived from KEYS[1]: the list on which the first waiter waits to be woken,
-- which only the script knows
-- ARGV[1]: the owner
-- Returns n: the owner's remaining holds; at 0 the lock is the next waiter's, or free
--        -1: the lock is not the owner's: it has expired, or another owner has it
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return -1
end
local n = math.max(redis.call('HINCRBY', KEYS[1], ARGV[1], -1), 0)
if n == 0 then
  redis.call('DEL', KEYS[1])
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local first, left
  repeat
    first = redis.call('LPOP', KEYS[2])
    left = first and tonumber(redis.call('HGET', KEYS[3], first) or 0) - now
    if first then redis.call('HDEL', KEYS[3], first) end
  until not first or left > 0
  if first then
    redis.call('HSET', KEYS[1], first, 0)
    redis.call('PEXPIRE', KEYS[1], left) -- the waiter may be dead: then the lock expires
    redis.call('RPUSH', KEYS[1] .. ':wake:' .. first, 'held')
    redis.call('PEXPIRE', KEYS[1] .. ':wake:' .. first, left)
  end
end
return n
