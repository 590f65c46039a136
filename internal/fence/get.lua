-- Reads the value for the holder of a lock, unless a later holder has been here. From then
-- on, earlier holders and holders of any other lock are refused.
-- KEYS[1]: the value, a string
-- KEYS[2]: the fence, a hash: of, the lock that was here last; token, its largest token
-- ARGV[1]: the name of the holder's lock
-- ARGV[2]: the holder's fencing token
-- Returns the value
--         nil: there is no value
--         {token}: this larger token has been seen
local value = redis.call('GET', KEYS[1])
if not value then
  return value
end
local fence = redis.call('HMGET', KEYS[2], 'of', 'token')
if fence[1] == ARGV[1] and tonumber(fence[2]) > tonumber(ARGV[2]) then
  return {fence[2]}
end
redis.call('HSET', KEYS[2], 'of', ARGV[1], 'token', ARGV[2])
local ttl = redis.call('PTTL', KEYS[1])
if ttl > 0 then -- the value expires, and its fence with it
  redis.call('PEXPIRE', KEYS[2], ttl)
else
  redis.call('PERSIST', KEYS[2])
end
return value
