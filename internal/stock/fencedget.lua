-- Reads the stock for the holder of a lock, and turns away a holder after whom
-- another one was here. From now on those before this one are turned away.
-- KEYS[1]: the stock, a string: the units left
-- KEYS[2]: the fence, a string: the largest token that was seen
-- ARGV[1]: the holder's fencing token
-- Returns n: the units left
--         nil: the stock is not there
--         'fenced': a larger token was seen
if tonumber(redis.call('GET', KEYS[2]) or 0) > tonumber(ARGV[1]) then
  return 'fenced'
end
redis.call('SET', KEYS[2], ARGV[1])
return redis.call('GET', KEYS[1])
