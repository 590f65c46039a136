-- Reads the stock for the holder of a lock, unless a later holder has been here. After
-- that earlier holders are refused, and holders of any other lock.
-- KEYS[1]: the stock, a string: the units left
-- KEYS[2]: the fence, a hash: of, the lock that was here last; token, its largest token
-- ARGV[1]: the name of the holder's lock
-- ARGV[2]: the holder's fencing token
-- Returns n: the units left
--         nil: there is no stock
--         'fenced': a larger token has been seen
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
if ttl > 0 then -- the sale is over, and its stock expires
  redis.call('PEXPIRE', KEYS[2], ttl)
end
return left
