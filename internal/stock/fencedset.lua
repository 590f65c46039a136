-- Writes the stock for the holder of a lock, and turns away a holder after whom
-- another one was here.
-- KEYS[1]: the stock, a string: the units left
-- KEYS[2]: the fence, a string: the largest token that was seen
-- ARGV[1]: the holder's fencing token
-- ARGV[2]: the units left from now on
-- Returns 1: written
--         0: a larger token was seen
if tonumber(redis.call('GET', KEYS[2]) or 0) > tonumber(ARGV[1]) then
  return 0
end
redis.call('SET', KEYS[2], ARGV[1])
redis.call('SET', KEYS[1], ARGV[2])
return 1
