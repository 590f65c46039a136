-- Takes units for several buyers in their order, and appends their orders to the item's
-- stream. Each buyer is served only if enough units are left and the buyer's limit allows
-- it.
-- KEYS[1]: the sale, a string: the generation that is current
-- KEYS[2]: the stock of the buyers' generation, a string: the units left
-- KEYS[3]: the claims on idempotency keys of this period, a hash with a field for each
-- KEYS[4]: the same for the last period
-- KEYS[5]: the stream of accepted orders
-- KEYS[6]: the accepted orders, a hash: the entry in the stream by the order's id
-- KEYS[7]: the idempotency keys of accepted orders, a hash: the order's id by its key
-- KEYS[8]: the units of each buyer in the sale, a hash, if there is a limit
-- ARGV[1]: the generation in which the buyers want to buy
-- ARGV[2]: how many entries the stream may have
-- ARGV[3]: how long the idempotency keys are kept after the last one, in milliseconds
-- ARGV[4]: the item's SKU
-- ARGV[5]: the id of the sale
-- ARGV[6]: the id of the generation
-- ARGV[7]: the most units that one buyer may have, 0 for no limit
-- ARGV[8]: the strategy
-- ARGV[9]: the time of the orders, in Unix milliseconds
-- ARGV[10], ARGV[14], ...: how many units each buyer wants
-- ARGV[11], ARGV[15], ...: each buyer's idempotency key, '' for none
-- ARGV[12], ARGV[16], ...: the id of each buyer's order
-- ARGV[13], ARGV[17], ...: the name of each buyer, '' for none
-- Returns a list with an answer for each buyer, in their order:
--           n: the units are taken, and the order is in the stream; n are left
--           -2: another request has the key
--           -3: nothing is taken, because the stream is full
--           -4: nothing is taken, because the buyer would have more units than the limit
--           -5: nothing is taken, because Redis has lost the units of each buyer
--           -6 - n: nothing is taken, because only n units are left
--         an empty list: another generation is current, or its stock does not exist
local left = redis.call('GET', KEYS[2])
if redis.call('GET', KEYS[1]) ~= ARGV[1] or not left then
  return {}
end
left = tonumber(left)
local length, most, limit = redis.call('XLEN', KEYS[5]), tonumber(ARGV[2]), tonumber(ARGV[7])
local lost = limit > 0 and redis.call('EXISTS', KEYS[8]) == 0
local answers, taken, entries, keys, seen = {}, 0, {}, {}, {}
for i = 10, #ARGV, 4 do
  local wanted, key, order, buyer = tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local answer
  if key ~= '' and (seen[key] or redis.call('HEXISTS', KEYS[7], key) == 1
      or redis.call('HEXISTS', KEYS[3], key) == 1 or redis.call('HEXISTS', KEYS[4], key) == 1) then
    answer = -2
  elseif lost then
    answer = -5
  elseif limit > 0 and wanted + (redis.call('HGET', KEYS[8], buyer) or 0) > limit then
    answer = -4
  elseif left < wanted then
    answer = -6 - math.max(0, left)
  elseif length >= most then
    answer = -3
  else
    entries[#entries + 1] = order
    entries[#entries + 1] = redis.call('XADD', KEYS[5], '*', 'id', order, 'sku', ARGV[4], 'sale', ARGV[5],
      'generation', ARGV[6], 'quantity', ARGV[i], 'key', key, 'strategy', ARGV[8], 'time', ARGV[9],
      'buyer', buyer)
    if key ~= '' then
      keys[#keys + 1] = key
      keys[#keys + 1] = order
      seen[key] = true
    end
    if limit > 0 then
      redis.call('HINCRBY', KEYS[8], buyer, wanted)
    end
    length = length + 1
    left, taken = left - wanted, taken + wanted
    answer = left
  end
  answers[#answers + 1] = answer
end
-- One command sets many fields, because calling a command costs more than a field.
local some = 1000
for i = 1, #entries, some do
  redis.call('HSET', KEYS[6], unpack(entries, i, math.min(i + some - 1, #entries)))
end
for i = 1, #keys, some do
  redis.call('HSET', KEYS[7], unpack(keys, i, math.min(i + some - 1, #keys)))
end
if #keys > 0 then
  redis.call('PEXPIRE', KEYS[7], ARGV[3])
end
if taken > 0 then
  redis.call('DECRBY', KEYS[2], taken)
end
return answers
