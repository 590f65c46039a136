-- Acquires the lock if it is free and no other ticket is first in the queue, or puts
-- the ticket into the queue. The call may be repeated: a ticket is served only once.
-- KEYS[1]: the lock, a string: the ticket of its holder
-- KEYS[2]: the queue, a list of tickets in order of arrival
-- KEYS[3]: the waiters, a hash: ticket -> when its heartbeat expires, in
--          milliseconds of the server's clock
-- KEYS[4]: the last token, a string
-- ARGV[1]: the ticket
-- ARGV[2]: ttl, in milliseconds, of the lock, and of the ticket's heartbeat
-- ARGV[3]: 1 to join the queue, 0 not to
-- ARGV[4]: how many tokens a hold may use, one for each of its holders
-- Returns token: held, and this is its first token
--         0: not held, and queued if ARGV[3] is 1
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- A token is the server's clock, in microseconds. If the clock stands still or goes
-- back, a token follows the last ones, as long as Redis remembers those.
local token
local function mint()
  local last = tonumber(redis.call('GET', KEYS[4]) or 0)
  token = math.max(last + ARGV[4], time[1] * 1000000 + time[2])
  redis.call('SET', KEYS[4], string.format('%.0f', token), 'PX', 2 * ARGV[2])
end

local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then -- it was handed the lock, or the reply was lost
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  mint()
  return token
end
local first = redis.call('LINDEX', KEYS[2], 0)
while first and tonumber(redis.call('HGET', KEYS[3], first) or 0) <= now do -- its process is dead
  redis.call('LPOP', KEYS[2])
  redis.call('HDEL', KEYS[3], first)
  first = redis.call('LINDEX', KEYS[2], 0)
end
if not holder and (not first or first == ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  redis.call('LPOP', KEYS[2]) -- this ticket, if it was queued
  redis.call('HDEL', KEYS[3], ARGV[1])
  mint()
  return token
end
if ARGV[3] == '1' then
  if redis.call('HEXISTS', KEYS[3], ARGV[1]) == 0 then
    redis.call('RPUSH', KEYS[2], ARGV[1])
  end
  redis.call('HSET', KEYS[3], ARGV[1], now + ARGV[2])
  redis.call('PEXPIRE', KEYS[2], 2 * ARGV[2])
  redis.call('PEXPIRE', KEYS[3], 2 * ARGV[2])
end
return 0
