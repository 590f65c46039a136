-- Reads the stock for the holder of a lock, and turns away a holder after whom
-- another one was here. From now on those before this one are turned away, and
-- those of any other lock.
-- KEYS[1]: the stock, a string: the units left
-- KEYS[2]: the fence, a hash: of, which lock was here last; token, its largest
-- ARGV[1]: the name of the holder's lock
-- ARGV[2]: the holder's fencing token
-- Returns n: the units left
--         nil: the stock is not there
--         'fenced': a larger token was seen
local left = redis.call('GET', KEYS[1])
if not left then
  return left
end
local fence = redis.call('HMGET', KEYS[2], 'of', 'token')
if fence[1] == ARGV[1] and tonumber(fence[2]) > tonumber(ARGV[2]) then
  return 'fenced'
end
redis.call('HSET', KEYS[2], 'of', ARGV[1], 'token', ARGV[2])
local ttl = redis.call('PTTL', KEYS[1])
if ttl > 0 then -- the sale is over, and its stock goes
  redis.call('PEXPIRE', KEYS[2], ttl)
end
return left
