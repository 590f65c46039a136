-- Acquires the lock, or re-enters it for the owner that has it, or puts the owner
-- into the queue.
-- KEYS[1]: the lock, a hash of one field: the owner -> its number of holds; 0 for
--          an owner that was handed the lock and has not taken it yet
-- KEYS[2]: the queue, a list of owners in order of arrival
-- KEYS[3]: the waiters, a hash: owner -> when its heartbeat expires, in
--          milliseconds of the server's clock
-- ARGV[1]: the owner
-- ARGV[2]: ttl, in milliseconds; it extends the time left, never shortens it
-- ARGV[3]: 1 to join the queue, 0 not to
-- Returns n: the owner's holds, including this one; 1 is the outermost
--         -left: another owner has the lock, or is ahead in the queue; its lease or heartbeat
--                may expire in that many milliseconds
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local first = redis.call('LINDEX', KEYS[2], 0)
  while first and tonumber(redis.call('HGET', KEYS[3], first) or 0) <= now do -- its owner is dead
    redis.call('LPOP', KEYS[2])
    redis.call('HDEL', KEYS[3], first)
    first = redis.call('LINDEX', KEYS[2], 0)
  end
  if redis.call('EXISTS', KEYS[1]) == 1 or (first and first ~= ARGV[1]) then
    if ARGV[3] == '1' then
      if redis.call('HSET', KEYS[3], ARGV[1], now + ARGV[2]) == 1 then -- it was not queued
        redis.call('RPUSH', KEYS[2], ARGV[1])
      end
      redis.call('PEXPIRE', KEYS[2], 2 * ARGV[2])
      redis.call('PEXPIRE', KEYS[3], 2 * ARGV[2])
    end
    local left = redis.call('PTTL', KEYS[1])
    if first and first ~= ARGV[1] then
      left = math.max(left, redis.call('HGET', KEYS[3], first) - now)
    end
    if left < 0 then left = tonumber(ARGV[2]) end -- the lock has no expiry
    return -left
  end
  redis.call('LPOP', KEYS[2]) -- this owner, if it was queued
  redis.call('HDEL', KEYS[3], ARGV[1])
end
local n = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return n
