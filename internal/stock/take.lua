-- Takes units from the stock of a sale, if enough of them are left.
-- KEYS[1]: the sale, a string: the generation that is current
-- KEYS[2]: the stock of the buyer's generation, a string: the units left
-- KEYS[3]: the claims on idempotency keys of this period, a hash with a field for each
-- KEYS[4]: the same for the last period
-- ARGV[1]: the generation in which the buyer wants to buy
-- ARGV[2]: how long claims are kept after the last one, in milliseconds
-- ARGV[3]: how many units the buyer wants
-- ARGV[4]: the buyer's idempotency key, '' for none
-- Returns n: the units are taken, and the key is claimed; n are left
--         -1: another generation is current, or its stock does not exist
--         -2: another request has claimed the key
--         -6 - n: nothing is taken, because only n units are left
local left = redis.call('GET', KEYS[2])
if redis.call('GET', KEYS[1]) ~= ARGV[1] or not left then
  return -1
end
local keyed = ARGV[4] ~= ''
if keyed and (redis.call('HEXISTS', KEYS[3], ARGV[4]) == 1 or redis.call('HEXISTS', KEYS[4], ARGV[4]) == 1) then
  return -2
end
if tonumber(left) < tonumber(ARGV[3]) then
  return -6 - math.max(0, tonumber(left))
end
if keyed then
  redis.call('HSET', KEYS[3], ARGV[4], '')
  redis.call('PEXPIRE', KEYS[3], ARGV[2])
end
return redis.call('DECRBY', KEYS[2], ARGV[3])
