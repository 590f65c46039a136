-- Takes units from the stock of a sale for several buyers in their order. Each buyer is
-- served only if enough units are left. If there are too few for one buyer, a later one
-- that wants fewer may still be served.
-- KEYS[1]: the sale, a string: the generation that is current
-- KEYS[2]: the stock of the buyers' generation, a string: the units left
-- KEYS[3]: the claims on idempotency keys of this period, a hash with a field for each
-- KEYS[4]: the same for the last period
-- ARGV[1]: the generation in which the buyers want to buy
-- ARGV[2]: how long claims are kept after the last one, in milliseconds
-- ARGV[3], ARGV[5], ...: how many units each buyer wants
-- ARGV[4], ARGV[6], ...: each buyer's idempotency key, '' for none
-- Returns a list with an answer for each buyer, in their order:
--           n: the units are taken, and the key is claimed; n are left
--           -2: another request has claimed the key
--           -6 - n: nothing is taken, because only n units are left
--         an empty list: another generation is current, or its stock does not exist
local left = redis.call('GET', KEYS[2])
if redis.call('GET', KEYS[1]) ~= ARGV[1] or not left then
  return {}
end
left = tonumber(left)
local answers, taken, claimed = {}, 0, false
for i = 3, #ARGV, 2 do
  local wanted, key = tonumber(ARGV[i]), ARGV[i + 1]
  local answer
  if key ~= '' and (redis.call('HEXISTS', KEYS[3], key) == 1 or redis.call('HEXISTS', KEYS[4], key) == 1) then
    answer = -2
  elseif left < wanted then
    answer = -6 - math.max(0, left)
  else
    if key ~= '' then
      redis.call('HSET', KEYS[3], key, '')
      claimed = true
    end
    left, taken = left - wanted, taken + wanted
    answer = left
  end
  answers[#answers + 1] = answer
end
if claimed then
  redis.call('PEXPIRE', KEYS[3], ARGV[2])
end
if taken > 0 then
  redis.call('DECRBY', KEYS[2], taken)
end
return answers
