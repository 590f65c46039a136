-- Puts units back into the stock that they were taken from.
-- KEYS[1]: the stock, a string: the units left
-- ARGV[1]: how many units
-- Returns 1: they are back
--         0: the stock no longer exists, and nothing was written
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
redis.call('INCRBY', KEYS[1], ARGV[1])
return 1
