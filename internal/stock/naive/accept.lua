-- Takes one unit if the counter says that one is left, and appends the order to the stream.
-- KEYS[1]: the units left, a string
-- KEYS[2]: the accepted orders, a stream
-- ARGV[1]: the id of the order
-- Returns n: the order is accepted, and n are left
--         -1: sold out
-- WRONG: a counter that does not exist, because Redis has evicted or lost it, reads as sold
-- out.
local left = tonumber(redis.call('GET', KEYS[1]) or '0')
if left < 1 then
  return -1
end
redis.call('XADD', KEYS[2], '*', 'order', ARGV[1])
return redis.call('DECR', KEYS[1])
