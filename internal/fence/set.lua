-- Writes the value for the holder of a lock, unless a later holder has been here.
-- KEYS[1]: the value, a string
-- KEYS[2]: the fence, a hash: of, the lock that was here last; token, its largest token
-- ARGV[1]: the name of the holder's lock
-- ARGV[2]: the holder's fencing token
-- ARGV[3]: the new value
-- Returns 1: written
--         0: a larger token, or one of another lock, has been seen
--        -1: there is no value
if redis.call('EXISTS', KEYS[1]) == 0 then
  return -1
end
local fence = redis.call('HMGET', KEYS[2], 'of', 'token')
if fence[1] ~= ARGV[1] or tonumber(fence[2]) > tonumber(ARGV[2]) then
  return 0
end
redis.call('SET', KEYS[1], ARGV[3], 'KEEPTTL')
return 1
