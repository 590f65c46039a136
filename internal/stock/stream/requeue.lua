-- Moves a dead letter back to the stream of accepted orders.
-- KEYS[1]: the dead letters, a stream
-- KEYS[2]: the stream of accepted orders
-- KEYS[3]: the accepted orders, a hash: the entry in the stream by the order's id
-- KEYS[4]: the sale, a string: the generation that is current
-- KEYS[5]: the stock of that generation, a string: the units left
-- KEYS[6]: the idempotency keys of accepted orders, a hash: the order's id by its key
-- KEYS[7]: the units of each buyer in that generation, a hash, if there is a limit
-- ARGV[1]: the dead letter
-- ARGV[2]: the order's id
-- ARGV[3]: the generation in which the order is to be written
-- ARGV[4]: how many units to take, 0 if the order still has its units
-- ARGV[5]: the order's idempotency key, '' for none
-- ARGV[6]: the most units that one buyer may have, 0 for no limit
-- ARGV[7]: the name of the buyer, '' for none
-- ARGV[8], ARGV[9], ...: the names and values of the entry
-- Returns 1: moved
--         0: the dead letter is gone
--         -1: another generation is current, or its stock does not exist
--         -2: another order has the key
--         -3: too few units are left
--         -4: the buyer would have more units than the limit
if redis.call('XLEN', KEYS[1]) == 0 or #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 then
  return 0
end
local left, units = redis.call('GET', KEYS[5]), tonumber(ARGV[4])
if redis.call('GET', KEYS[4]) ~= ARGV[3] or not left then
  return -1
end
if ARGV[5] ~= '' then
  local other = redis.call('HGET', KEYS[6], ARGV[5])
  if other and other ~= ARGV[2] then
    return -2
  end
end
if tonumber(left) < units then
  return -3
end
if units > 0 and tonumber(ARGV[6]) > 0 then
  if redis.call('EXISTS', KEYS[7]) == 0 then
    return -1
  end
  if ARGV[7] == '' or units + (redis.call('HGET', KEYS[7], ARGV[7]) or 0) > tonumber(ARGV[6]) then
    return -4
  end
  redis.call('HINCRBY', KEYS[7], ARGV[7], units)
end
if units > 0 then
  redis.call('DECRBY', KEYS[5], units)
end
redis.call('XDEL', KEYS[1], ARGV[1])
local entry = redis.call('XADD', KEYS[2], '*', unpack(ARGV, 8))
redis.call('HSET', KEYS[3], ARGV[2], entry)
if ARGV[5] ~= '' then
  redis.call('HSET', KEYS[6], ARGV[5], ARGV[2])
end
return 1
