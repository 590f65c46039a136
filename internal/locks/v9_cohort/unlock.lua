-- Hands the lock to the first waiter. If there is none, the caller's process gets the
-- lock again if it has waiters of its own; if not, the lock is freed.
-- KEYS[1]: the lock, a string: the ticket of its holder
-- KEYS[2]: the queue, a list of tickets in order of arrival
-- KEYS[3]: the waiters, a hash: ticket -> when its heartbeat expires, in
--          milliseconds of the server's clock
-- KEYS[4]: the last token, a string
-- and a key derived from KEYS[1]: the list on which the first waiter waits to be woken,
-- which only the script knows
-- ARGV[1]: the ticket
-- ARGV[2]: ttl, in milliseconds, of the new ticket
-- ARGV[3]: the new ticket with which the caller's process waits again, or empty
-- ARGV[4]: how many tokens a hold may use, one for each of its holders
-- Returns token: nobody else waits, so the new ticket has the lock, and this is its
--                first token
--         0: released
--        -1: the lock is not the caller's: it has expired, or another ticket has it
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return -1
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local token
local function mint() -- as in lock.lua
  local last = tonumber(redis.call('GET', KEYS[4]) or 0)
  token = math.max(last + ARGV[4], time[1] * 1000000 + time[2])
  redis.call('SET', KEYS[4], string.format('%.0f', token), 'PX', 2 * ARGV[2])
end

local first, left
repeat
  first = redis.call('LPOP', KEYS[2])
  left = first and tonumber(redis.call('HGET', KEYS[3], first) or 0) - now
  if first then redis.call('HDEL', KEYS[3], first) end
until not first or left > 0
if not first then
  if ARGV[3] ~= '' then
    redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
    mint()
    return token
  end
  redis.call('DEL', KEYS[1])
  return 0
end
mint()
redis.call('SET', KEYS[1], first, 'PX', left) -- the remaining ttl of its heartbeat, on which it relies
redis.call('RPUSH', KEYS[1] .. ':wake:' .. first, string.format('held:%.0f', token))
redis.call('PEXPIRE', KEYS[1] .. ':wake:' .. first, left)
if ARGV[3] ~= '' then
  redis.call('RPUSH', KEYS[2], ARGV[3])
  redis.call('HSET', KEYS[3], ARGV[3], now + ARGV[2])
  redis.call('PEXPIRE', KEYS[2], 2 * ARGV[2])
  redis.call('PEXPIRE', KEYS[3], 2 * ARGV[2])
end
return 0
