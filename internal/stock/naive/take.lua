-- Takes one unit if the counter says that one is left.
-- KEYS[1]: the units left, a string
-- Returns n: the unit is taken, and n are left
--         -1: sold out
-- WRONG: a counter that does not exist, because Redis has evicted or lost it, reads as sold
-- out.
local left = tonumber(redis.call('GET', KEYS[1]) or '0')
if left < 1 then
  return -1
end
return redis.call('DECR', KEYS[1])
