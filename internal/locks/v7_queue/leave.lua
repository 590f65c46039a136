-- Takes the owner out of the queue, and ends its wait for the wake-up. A lock that it
-- was handed and has not taken yet goes to the first waiter, if anybody waits.
-- KEYS[1]: the lock, a hash of one field: the owner -> how many holds
-- KEYS[2]: the queue, a list of owners, first come first
-- KEYS[3]: the waiters, a hash: owner -> until when it counts as alive, in
--          milliseconds of the server's clock
-- and beside KEYS[1], under its name: the list on which an owner is woken
-- ARGV[1]: the owner
-- ARGV[2]: ttl, in milliseconds, of the wake-up, which nobody may be there to take
-- Returns 1: the lock that it was handed is given back
--         0: it was handed none
redis.call('LREM', KEYS[2], 1, ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('RPUSH', KEYS[1] .. ':wake:' .. ARGV[1], 'left')
redis.call('PEXPIRE', KEYS[1] .. ':wake:' .. ARGV[1], ARGV[2])
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
