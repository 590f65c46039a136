-- Takes the owner out of the queue, and ends its wait. If it was handed the lock and
-- has not taken it yet, the lock goes to the first waiter, or is freed.
-- KEYS[1]: the lock, a hash of one field: the owner -> its number of holds
-- KEYS[2]: the queue, a list of owners in order of arrival
-- KEYS[3]: the waiters, a hash: owner -> when its heartbeat expires, in
--          milliseconds of the server's clock
-- KEYS[4]: the list on which the owner waits to be woken
-- and a key derived from KEYS[1]: the same for the first waiter, which only the script knows
-- ARGV[1]: the owner
-- ARGV[2]: ttl, in milliseconds, of the wake-up message, in case nobody reads it
-- Returns 1: the owner had been handed the lock, which is released
--         0: it had not
redis.call('LREM', KEYS[2], 1, ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('RPUSH', KEYS[4], 'left')
redis.call('PEXPIRE', KEYS[4], ARGV[2])
if redis.call('HGET', KEYS[1], ARGV[1]) ~= '0' then
  return 0
end
redis.call('DEL', KEYS[1])
local time = redis.call('TIME') -- from here on as in unlock.lua
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local first, left
repeat
  first = redis.call('LPOP', KEYS[2])
  left = first and tonumber(redis.call('HGET', KEYS[3], first) or 0) - now
  if first then redis.call('HDEL', KEYS[3], first) end
until not first or left > 0
if first then
  redis.call('HSET', KEYS[1], first, 0)
  redis.call('PEXPIRE', KEYS[1], left)
  redis.call('RPUSH', KEYS[1] .. ':wake:' .. first, 'held')
  redis.call('PEXPIRE', KEYS[1] .. ':wake:' .. first, left)
end
return 1
